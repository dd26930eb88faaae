"""Postings as words: how a flush writes them and how the key table holds them.

A posting says that a row is found under a key. As a word it is 32 bits of the key, then the row;
the 8 bits of the key before these name its segment, and are not in the word. Words of a segment
are in order, so equal keys' rows ascend. The 24 bits that are left lie with the row, as its marks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, inline_kernel, int64, uint64

SEGMENT_BITS = 8
SEGMENTS = 1 << SEGMENT_BITS
TAG_BITS = 32
ROWS_MAX = 1 << 32
PARTS = 16  # in which segments are taken
_PART_SEGMENTS = SEGMENTS // PARTS

Keys = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


class Postings(NamedTuple):
    """Postings by segment: those of segment i are words[starts[i]:starts[i + 1]].

    They ascend, unless whoever makes them says otherwise.
    """

    words: npt.NDArray[np.uint64]
    starts: Places


NO_POSTINGS = Postings(np.empty(0, np.uint64), np.zeros(SEGMENTS + 1, np.int64))


@inline_kernel
def segment_of(key: int) -> int:
    """Return the segment of a key: its top 8 bits."""
    segment: int = int64(uint64(key) >> uint64(64 - SEGMENT_BITS))
    return segment


@inline_kernel
def tag_of(key: int) -> int:
    """Return the 32 bits of a key that its words have."""
    return uint64(key) >> uint64(64 - SEGMENT_BITS - TAG_BITS) & uint64((1 << TAG_BITS) - 1)


@inline_kernel
def home_of(tag: int, ranges: int) -> int:
    """Return into which of so many equal ranges a tag falls; it goes up with the tag."""
    home: int = int64(uint64(tag) * uint64(ranges) >> uint64(TAG_BITS))
    return home


@inline_kernel
def sort_nearly(words: Keys, start: int, end: int) -> None:
    """Sort words[start:end], of which hardly one is far from its place."""
    for i in range(start + 1, end):
        word, place = words[i], i
        while place > start and words[place - 1] > word:
            words[place] = words[place - 1]
            place -= 1
        words[place] = word


@allocating_kernel
def _part(keys: Keys, masks: Keys, rows: Places, out_words: Keys) -> Places:
    """Write the words of postings by segment, by row in each; return where segments start."""
    starts = np.zeros(SEGMENTS + 1, np.int64)
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            starts[segment_of(keys[i, j]) + 1] += masks[i] >> uint64(j) & uint64(1)
    for i in range(SEGMENTS):
        starts[i + 1] += starts[i]
    places = np.empty(SEGMENTS, np.int64)
    for i in range(SEGMENTS):
        places[i] = starts[i]
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            if masks[i] >> uint64(j) & uint64(1):
                segment, tag = segment_of(keys[i, j]), tag_of(keys[i, j])
                out_words[places[segment]] = tag << uint64(TAG_BITS) | uint64(rows[i])
                places[segment] += 1
    return starts


@allocating_kernel
def _sort_segments(words: Keys, starts: Places, out: Keys) -> None:
    """Write the words of each segment to `out` in order.

    A counting sort by as many ranges of tags as there are words, then by insertion. Keys are
    hashes, so hardly any words share a range; those of equal tags come in the order of rows.
    """
    most = 0
    for segment in range(SEGMENTS):  # `np.diff` takes longer to compile than all of this function
        most = max(most, starts[segment + 1] - starts[segment])
    places = np.empty(most + 1, np.int64)
    for segment in range(SEGMENTS):
        start, end = starts[segment], starts[segment + 1]
        count = end - start
        for i in range(count + 1):
            places[i] = 0
        for i in range(start, end):
            places[home_of(words[i] >> uint64(TAG_BITS), count) + 1] += 1
        places[0] = start
        for i in range(count):
            places[i + 1] += places[i]
        for i in range(start, end):
            home = home_of(words[i] >> uint64(TAG_BITS), count)
            out[places[home]] = words[i]
            places[home] += 1
        sort_nearly(out, start, end)


def part_postings(keys: Keys, masks: Keys, rows: Places) -> Postings:
    """Return the postings of rows: of rows[i] under keys[i, j] where bit j of masks[i] is set.

    Those of a segment are in the order of rows.
    """
    words = np.empty(int(np.bitwise_count(masks).sum()), np.uint64)
    return Postings(words, _part(keys, masks, rows, words))


def sort_postings(keys: Keys, masks: Keys, rows: Places) -> Postings:
    """Return the postings of rows as `part_postings`, ascending."""
    words, starts = part_postings(keys, masks, rows)
    out = np.empty_like(words)
    _sort_segments(words, starts, out)
    return Postings(out, starts)


def segments_of(part: int) -> range:
    """Return the segments of a part."""
    return range(part * _PART_SEGMENTS, (part + 1) * _PART_SEGMENTS)
