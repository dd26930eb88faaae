"""Postings as words: how a flush writes them and how the key table holds them.

A posting says that a row is found under a key. As a word it is 32 bits of the key, then the row;
the 8 bits of the key before these name its segment, and are not in the word. Words of a segment
are in order, so equal keys' rows ascend. The 24 bits that are left lie with the row, as its marks.

The postings of a flush as bytes: 16 parts of 16 segments, each an entry of its own, since an index
that is opened is read part by part. A part is how many words each of its segments has, as uint32,
then all words in the order of the segments, as uint64; little-endian.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, inline_kernel, int64, kernel, uint64

SEGMENT_BITS = 8
SEGMENTS = 1 << SEGMENT_BITS
TAG_BITS = 32
ROWS_MAX = 1 << 32
PARTS = 16
_PART_SEGMENTS = SEGMENTS // PARTS

Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


class Postings(NamedTuple):
    """Postings by segment: those of segment i are words[starts[i]:starts[i + 1]], ascending."""

    words: npt.NDArray[np.uint64]
    starts: Places

    def known_keys(self) -> Keys:
        """Return what is known of each posting's key: its top 40 bits."""
        segments = np.repeat(np.arange(SEGMENTS, dtype=np.uint64), np.diff(self.starts))
        return segments << np.uint64(TAG_BITS) | self.words >> np.uint64(TAG_BITS)


@inline_kernel
def segment_of(key: int) -> int:
    """Return the segment of a key: its top 8 bits."""
    segment: int = int64(uint64(key) >> uint64(64 - SEGMENT_BITS))
    return segment


@inline_kernel
def tag_of(key: int) -> int:
    """Return the 32 bits of a key that its words have."""
    return uint64(key) >> uint64(64 - SEGMENT_BITS - TAG_BITS) & uint64((1 << TAG_BITS) - 1)


@kernel
def own_postings(
    keys: Keys, masks: Keys, rows: npt.NDArray[np.int64], out_keys: Keys, out_rows: Rows
) -> int:
    """List the postings of entries (keys[n, own], masks by bit, rows); return their number."""
    count = 0
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            if masks[i] >> uint64(j) & uint64(1):
                out_keys[count] = keys[i, j]
                out_rows[count] = rows[i]
                count += 1
    return count


@allocating_kernel
def _part(keys: Keys, rows: Rows, out_words: Keys) -> Places:
    """Write the words of postings by segment, in no order there; return where segments start."""
    starts = np.zeros(SEGMENTS + 1, np.int64)
    for i in range(keys.shape[0]):
        starts[segment_of(keys[i]) + 1] += 1
    for i in range(SEGMENTS):
        starts[i + 1] += starts[i]
    places = starts.copy()
    for i in range(keys.shape[0]):
        segment = segment_of(keys[i])
        out_words[places[segment]] = tag_of(keys[i]) << uint64(TAG_BITS) | uint64(rows[i])
        places[segment] += 1
    return starts


def sort_postings(keys: Keys, rows: Rows) -> Postings:
    """Return the postings of keys[i] and rows[i]."""
    words = np.empty(len(keys), np.uint64)
    starts = _part(keys, rows, words)
    cuts = starts.tolist()
    for segment in range(SEGMENTS):
        words[cuts[segment] : cuts[segment + 1]].sort()
    return Postings(words, starts)


def segments_of(part: int) -> range:
    """Return the segments of a part."""
    return range(part * _PART_SEGMENTS, (part + 1) * _PART_SEGMENTS)


def pack_postings(postings: Postings) -> Iterator[bytes]:
    """Yield the parts of postings as bytes."""
    words, starts = postings
    for part in range(PARTS):
        limits = starts[segments_of(part).start : segments_of(part).stop + 1]
        counts = np.diff(limits).astype("<u4")
        yield b"".join((counts.tobytes(), words[limits[0] : limits[-1]].tobytes()))


def unpack_postings(part: int, data: bytes) -> Postings:
    """Return the postings of a part, given as its bytes; other segments are empty."""
    counts = np.zeros(SEGMENTS, np.int64)
    counts[segments_of(part)] = np.frombuffer(data, "<u4", _PART_SEGMENTS)
    starts = np.zeros(SEGMENTS + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return Postings(np.frombuffer(data, "<u8", offset=4 * _PART_SEGMENTS), starts)
