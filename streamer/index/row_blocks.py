"""Kept rows in blocks of eight, as they lie in a row file: packed at a flush, gathered for a batch.

A block of n rows is, in columns: refs u64[n], sketches u64[n, 33], marks u32[n, keys], where each
URL ends u32[n], the URLs one after the other, and a checksum u64 of all that; little-endian.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.checksum import CHECK_BYTES, PADDING, Bytes, Places, checksum
from streamer.index.types import KeptRows
from streamer.kernel import inline_kernel, int64, kernel, load_u64, store_u64, uint32, uint64
from streamer.sketch.resemblance import SKETCH_BYTES, SKETCH_WORDS
from streamer.text.slices import Slices

ROWS_A_BLOCK = 8  # about 3.2 kB: one page is read for the sake of one row
_BLOCKS_AT_ONCE = 128  # that are packed: about 400 kB, which the processor's cache holds

Marks = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]


@inline_kernel
def _copy(data: Bytes, start: int, end: int, out: Bytes, at: int) -> None:
    """Write data[start:end] from out[at] on, eight bytes at a time, so up to seven too many."""
    for place in range(0, end - start, 8):
        store_u64(out, at + place, load_u64(data, start + place))


@kernel
def _pack(
    refs: Words, sketches: Words, keys: Words, masks: Words, urls: tuple[Bytes, Places, Places],
    first: int, out: Bytes, out_ends: Places,
) -> None:  # fmt: skip
    """Write the blocks of rows from `first` on to `out`, and where each ends to `out_ends`.

    From low to high, eight bytes at a time: what one writes too much, the next writes over.
    """
    text, url_starts, url_ends = urls
    at = int64(0)
    for block in range(out_ends.shape[0]):
        begin, start = at, first + block * ROWS_A_BLOCK
        end = min(start + ROWS_A_BLOCK, refs.shape[0])
        for row in range(start, end):
            store_u64(out, at, refs[row])
            at += 8
        for row in range(start, end):
            for word in range(SKETCH_WORDS):
                store_u64(out, at + 8 * word, sketches[row, word])
            at += SKETCH_BYTES
        for row in range(start, end):
            for j in range(keys.shape[1]):
                posted = masks[row] >> uint64(j) & uint64(1)
                store_u64(out, at + 4 * j, posted * uint64(uint32(keys[row, j])))
            at += 4 * keys.shape[1]
        for row in range(start, end):
            store_u64(out, at, uint64(url_ends[row] - url_starts[start]))
            at += 4
        _copy(text, url_starts[start], url_ends[end - 1], out, at)
        at += url_ends[end - 1] - url_starts[start]
        store_u64(out, at, checksum(out, begin, at))
        at += CHECK_BYTES
        out_ends[block] = at


def pack_rows(
    refs: Words, sketches: Words, keys: Words, masks: Words, urls: Sequence[bytes]
) -> Iterator[tuple[Bytes, Places]]:
    """Yield the blocks of rows, many at a time, one after the other, and how long each is.

    The bytes are good until the next ones are asked for.
    """
    text = Slices.joined(urls)
    rows_at_once = ROWS_A_BLOCK * _BLOCKS_AT_ONCE
    fixed = 8 + SKETCH_BYTES + 4 * keys.shape[1] + 4
    out = np.empty(0, np.uint8)
    for first in range(0, len(urls), rows_at_once):
        end = min(first + rows_at_once, len(urls))
        ends = np.empty(-(-(end - first) // ROWS_A_BLOCK), np.int64)
        text_bytes = int(text.ends[end - 1] - text.starts[first])
        size = fixed * (end - first) + text_bytes + CHECK_BYTES * len(ends)
        if len(out) < size + len(PADDING):
            out = np.empty(size + size // 8 + len(PADDING), np.uint8)
        _pack(refs, sketches, keys, masks, (text.data, text.starts, text.ends), first, out, ends)
        yield out[:size], np.diff(ends, prepend=0)


@dataclass(slots=True)
class RowPlaces:
    """Rows in blocks that have been read, in columns.

    Attributes:
        data: the blocks' bytes, one after the other, and PADDING.
        starts: where each row's block begins.
        counts: how many rows that block has.
        keys: how many marks a row of it has.
        places: the row's place in it.
    """

    data: Bytes
    starts: Places
    counts: Places
    keys: Places
    places: Places


@kernel
def _gather_marks(
    data: Bytes, starts: Places, counts: Places, keys: Places, places: Places, out: Marks
) -> None:
    for i in range(starts.shape[0]):
        at = starts[i] + (8 + SKETCH_BYTES) * counts[i] + 4 * keys[i] * places[i]
        for j in range(keys[i]):
            out[i, j] = uint32(load_u64(data, at + 4 * j))


@kernel
def _agreeing(
    data: Bytes, starts: Places, counts: Places, keys: Places, places: Places,
    wanted: npt.NDArray[np.uint64], out: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    for i in range(starts.shape[0]):
        at = starts[i] + (8 + SKETCH_BYTES) * counts[i] + 4 * keys[i] * places[i]
        out[i] = False
        for j in range(keys[i]):
            out[i] |= uint32(load_u64(data, at + 4 * j)) == uint32(wanted[i])


@kernel
def _gather_rows(
    data: Bytes,
    starts: Places,
    counts: Places,
    keys: Places,
    places: Places,
    sketches: npt.NDArray[np.uint64],
    refs: npt.NDArray[np.uint64],
    urls: Places,
) -> None:
    """Write sketches[i], refs[i], and where in `data` the URL lies to urls[i, :]."""
    for i in range(starts.shape[0]):
        count, place = counts[i], places[i]
        refs[i] = load_u64(data, starts[i] + 8 * place)
        at = starts[i] + 8 * count + SKETCH_BYTES * place
        for word in range(SKETCH_WORDS):
            sketches[i, word] = load_u64(data, at + 8 * word)
        ends = starts[i] + (8 + SKETCH_BYTES + 4 * keys[i]) * count
        first_url = ends + 4 * count
        urls[i, 0] = first_url
        if place:
            urls[i, 0] += uint32(load_u64(data, ends + 4 * (place - 1)))
        urls[i, 1] = first_url + uint32(load_u64(data, ends + 4 * place))


@kernel
def _gather_text(data: Bytes, urls: Places, limits: Places, out: Bytes) -> None:
    """Write data[urls[i, 0]:urls[i, 1]] from limits[i] on, from low to high as `_pack`."""
    for i in range(urls.shape[0]):
        _copy(data, urls[i, 0], urls[i, 1], out, limits[i])


def gather_marks(rows: RowPlaces, keys: int) -> Marks:
    """Return the marks of the keys that rows have postings under, as uint32[n, keys]."""
    out = np.zeros((len(rows.starts), keys), np.uint32)
    _gather_marks(rows.data, rows.starts, rows.counts, rows.keys, rows.places, out)
    return out


def agree(rows: RowPlaces, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Tell of each row whether one of its marks is that of keys[i]."""
    out = np.empty(len(keys), np.bool_)
    _agreeing(rows.data, rows.starts, rows.counts, rows.keys, rows.places, keys, out)
    return out


def gather_rows(rows: RowPlaces) -> KeptRows:
    """Return what a verdict needs of rows."""
    sketches = np.empty((len(rows.starts), SKETCH_WORDS), np.uint64)
    refs, urls = np.empty(len(rows.starts), np.uint64), np.empty((len(rows.starts), 2), np.int64)
    _gather_rows(rows.data, rows.starts, rows.counts, rows.keys, rows.places, sketches, refs, urls)
    limits = np.zeros(len(urls) + 1, np.int64)
    np.cumsum(urls[:, 1] - urls[:, 0], out=limits[1:])
    text = np.empty(int(limits[-1]) + len(PADDING), np.uint8)
    _gather_text(rows.data, urls, limits, text)
    joined = text.tobytes()
    cuts = itertools.pairwise(limits.tolist())
    return KeptRows(sketches, refs.tolist(), [joined[start:end] for start, end in cuts])
