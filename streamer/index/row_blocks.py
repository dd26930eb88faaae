"""Kept rows in blocks of eight, as values of the store: packed at a flush, gathered for a batch.

A block of n rows is, in columns: refs u64[n], sketches u64[n, 33], marks u32[n, keys], where each
URL ends u32[n], and the URLs one after the other; all little-endian.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.lookup import KeptRows
from streamer.kernel import inline_kernel, kernel, load_u64, uint32
from streamer.sketch.compact import SKETCH_BYTES, SKETCH_WORDS

ROWS_A_BLOCK = 8  # about 3.2 kB: one page is read for the sake of one row
PADDING = bytes(8)  # behind blocks: kernels read eight bytes at a time, some beyond the end

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint32]


def joined_blocks(values: Sequence[bytes]) -> tuple[Bytes, Places]:
    """Return the bytes of blocks, and where each one starts in them, and the end."""
    limits = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=limits[1:])
    return np.frombuffer(b"".join(values), np.uint8), limits


@inline_kernel
def _copy(out: Bytes, at: int, column: Bytes, start: int, end: int) -> int:
    out[at : at + end - start] = column[start:end]
    return at + end - start


@kernel
def _pack(
    refs: Bytes, sketches: Bytes, marks: Bytes, ends: Bytes, url_ends: Places, urls: Bytes,
    out: Bytes,
) -> None:  # fmt: skip
    """Write the blocks of all rows to `out`, one after the other; `ends` are those in a block."""
    rows = url_ends.shape[0] - 1
    marks_bytes = marks.shape[0] // max(1, rows)
    at = 0
    for first in range(0, rows, ROWS_A_BLOCK):
        end = min(first + ROWS_A_BLOCK, rows)
        at = _copy(out, at, refs, 8 * first, 8 * end)
        at = _copy(out, at, sketches, SKETCH_BYTES * first, SKETCH_BYTES * end)
        at = _copy(out, at, marks, marks_bytes * first, marks_bytes * end)
        at = _copy(out, at, ends, 4 * first, 4 * end)
        at = _copy(out, at, urls, url_ends[first], url_ends[end])


def pack_rows(
    refs: npt.NDArray[np.uint64],
    sketches: npt.NDArray[np.uint64],
    marks: Marks,
    urls: Sequence[bytes],
) -> Iterator[bytes]:
    """Yield the blocks of rows in order."""
    text, url_ends = joined_blocks(urls)
    firsts = np.arange(0, len(urls), ROWS_A_BLOCK)
    ends = url_ends[1:] - np.repeat(url_ends[firsts], ROWS_A_BLOCK)[: len(urls)]
    fixed = 8 + SKETCH_BYTES + 4 * marks.shape[1] + 4
    out = np.empty(fixed * len(urls) + len(text), np.uint8)
    _pack(
        _bytes_of(refs), _bytes_of(sketches), _bytes_of(marks), _bytes_of(ends.astype(np.uint32)),
        url_ends, text, out,
    )  # fmt: skip
    cuts = np.append(firsts, len(urls))
    packed = out.tobytes()
    for start, end in itertools.pairwise((fixed * cuts + url_ends[cuts]).tolist()):
        yield packed[start:end]


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
