"""Kept rows in blocks of eight, as they lie in a row file: packed at a flush, gathered for a batch.

A block of n rows is, in columns: refs u64[n], sketches u64[n, 33], marks u32[n, keys], where each
URL ends u32[n], the URLs one after the other, and a checksum u64 of all that; little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.lookup import KeptRows
from streamer.kernel import inline_kernel, int64, kernel, load_u64, uint8, uint32, uint64
from streamer.sketch.compact import SKETCH_BYTES, SKETCH_WORDS

ROWS_A_BLOCK = 8  # about 3.2 kB: one page is read for the sake of one row
PADDING = bytes(8)  # behind blocks: kernels read eight bytes at a time, some beyond the end
CHECK_BYTES = 8
_CHECK_FACTOR = 0x9E3779B97F4A7C15  # odd, so a change of any word changes the sum

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint32]


def _joined(values: Sequence[bytes]) -> tuple[Bytes, Places]:
    """Return the bytes of values, and where each one starts in them, and the end."""
    limits = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=limits[1:])
    return np.frombuffer(b"".join(values), np.uint8), limits


@inline_kernel
def _copy(out: Bytes, at: int, column: Bytes, start: int, end: int) -> int:
    for i in range(start, end):  # a slice may be copied through a new array, which no kernel makes
        out[at + i - start] = column[i]
    return at + end - start


@inline_kernel
def checksum(data: Bytes, start: int, end: int) -> int:
    """Return the checksum of data[start:end]: a polynomial over its words, in four lanes.

    Eight bytes behind the end are read, and do not count. A word of zeros counts by its place only,
    so the sums do not begin at zero: a hole in a file is no block.
    """
    a, b, c, d = uint64(end - start), uint64(1), uint64(2), uint64(3)
    factor, at = uint64(_CHECK_FACTOR), int64(start)
    while at + 32 <= end:
        a = a * factor + load_u64(data, at)
        b = b * factor + load_u64(data, at + 8)
        c = c * factor + load_u64(data, at + 16)
        d = d * factor + load_u64(data, at + 24)
        at += 32
    while at + 8 <= end:
        a = a * factor + load_u64(data, at)
        at += 8
    if at < end:
        b = b * factor + (load_u64(data, at) & ((uint64(1) << uint64(8 * (end - at))) - uint64(1)))
    total: int = ((a * factor + b) * factor + c) * factor + d
    return total


@kernel
def damaged_block(data: Bytes, limits: Places) -> int:
    """Return the first block of which the checksum is not its own, -1 if all are sound."""
    for i in range(limits.shape[0] - 1):
        end = limits[i + 1] - CHECK_BYTES
        if end < limits[i] or checksum(data, limits[i], end) != load_u64(data, end):
            return int64(i)
    return int64(-1)


@kernel
def _pack(
    refs: Bytes, sketches: Bytes, marks: Bytes, ends: Bytes, url_ends: Places, urls: Bytes,
    out: Bytes, out_ends: Places,
) -> None:  # fmt: skip
    """Write the blocks of all rows to `out`, one after the other; `ends` are those in a block."""
    rows = url_ends.shape[0] - 1
    marks_bytes = marks.shape[0] // max(1, rows)
    at = 0
    for first in range(0, rows, ROWS_A_BLOCK):
        start, end = at, min(first + ROWS_A_BLOCK, rows)
        at = _copy(out, at, refs, 8 * first, 8 * end)
        at = _copy(out, at, sketches, SKETCH_BYTES * first, SKETCH_BYTES * end)
        at = _copy(out, at, marks, marks_bytes * first, marks_bytes * end)
        at = _copy(out, at, ends, 4 * first, 4 * end)
        at = _copy(out, at, urls, url_ends[first], url_ends[end])
        check = checksum(out, start, at)
        for i in range(CHECK_BYTES):
            out[at + i] = uint8(check >> uint64(8 * i))
        at += CHECK_BYTES
        out_ends[first // ROWS_A_BLOCK] = at


def pack_rows(
    refs: npt.NDArray[np.uint64],
    sketches: npt.NDArray[np.uint64],
    marks: Marks,
    urls: Sequence[bytes],
) -> tuple[Bytes, Places]:
    """Return the blocks of rows, one after the other, and where each ends."""
    text, url_ends = _joined(urls)
    firsts = np.arange(0, len(urls), ROWS_A_BLOCK)
    ends = url_ends[1:] - np.repeat(url_ends[firsts], ROWS_A_BLOCK)[: len(urls)]
    fixed = 8 + SKETCH_BYTES + 4 * marks.shape[1] + 4
    size = fixed * len(urls) + len(text) + CHECK_BYTES * len(firsts)
    out, out_ends = np.empty(size + len(PADDING), np.uint8), np.empty(len(firsts), np.int64)
    _pack(
        _bytes_of(refs), _bytes_of(sketches), _bytes_of(marks), _bytes_of(ends.astype(np.uint32)),
        url_ends, text, out, out_ends,
    )  # fmt: skip
    return out[:size], out_ends


def _bytes_of(column: npt.NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(column).reshape(-1).view(np.uint8)


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
    data = rows.data.data
    return KeptRows(sketches, refs.tolist(), [bytes(data[i:j]) for i, j in urls.tolist()])
