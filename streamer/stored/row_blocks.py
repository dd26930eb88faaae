"""Kept rows in blocks, as the store has them: packed at a flush, gathered for a batch.

A flush gives its rows consecutive slots. The rows of eight slots form a block, and so do the keys
of 512 slots. A block of n rows is n, u32, and the number of keys of a row, u32; then, in columns,
refs u64[n], times i64[n], sketches u64[n, 33], halves u32[n, keys], the end of each URL u32[n], and
the URLs one after the other. A block of keys is n u32 and the number of keys of a row u32; then, in
columns, row numbers modulo ROWS_MAX u32[n], masks of one byte for eight keys, and the upper five
bytes of each key. The other bytes are in the row's halves, and a table does not need them. All
numbers are little-endian.
"""

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamer.index.codec import KEYS, ROWS, SHINGLES, Entry, entry_key
from streamer.index.ports import FlushedRows, KeptRows
from streamer.index.postings import ROWS_MAX, Bytes, Halves, Places, rows_before
from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, load_u64, store_u64, uint32, uint64
from streamer.sketch.resemblance import SKETCH_BYTES, SKETCH_WORDS
from streamer.text.slices import Slices

ROWS_A_BLOCK = 8  # about 3.2 kB: one page is read for the sake of one row
SLOTS_A_KEY_BLOCK = 512  # about 70 kB: only ever read one after the other
PADDING = bytes(16)  # after blocks: kernels take eight bytes at a time, some beyond the end
NO_ROW = -1  # the number of a row that was forgotten
_NO_NUMBER = ROWS_MAX  # and as it is stored: no row has it
_HEAD_BYTES = 8
_KEY_HEAD = "<II"
_KEY_BYTES = 5
_LEFT_BITS = np.uint64(64 - 8 * _KEY_BYTES)  # of a key, which its lower half has
_BLOCKS_AT_ONCE = 128  # that are packed: about 400 kB, which the processor's cache holds

Words = npt.NDArray[np.uint64]


@inline_kernel
def _copy(data: Bytes, start: int, end: int, out: Bytes, at: int) -> None:
    """Write data[start:end] from out[at] on, eight bytes at a time, so up to seven too many."""
    for place in range(0, end - start, 8):
        store_u64(out, at + place, load_u64(data, start + place))


@kernel
def _pack(
    columns: tuple[Words, Places, Words], keys: Words, masks: Words,
    urls: tuple[Bytes, Places, Places], first: int, out: Bytes, out_ends: Places,
) -> None:  # fmt: skip
    """Write the blocks of rows from `first` on to `out`, and where each ends to `out_ends`.

    From low to high, eight bytes at a time: what one writes too much, the next writes over.
    """
    refs, times, sketches = columns
    text, url_starts, url_ends = urls
    at = int64(0)
    for block in range(out_ends.shape[0]):
        start = first + block * ROWS_A_BLOCK
        end = min(start + ROWS_A_BLOCK, refs.shape[0])
        store_u64(out, at, uint64(end - start) | uint64(keys.shape[1]) << uint64(32))
        at += _HEAD_BYTES
        for row in range(start, end):
            store_u64(out, at, refs[row])
            at += 8
        for row in range(start, end):
            store_u64(out, at, uint64(times[row]))
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
        out_ends[block] = at


def row_entries(rows: FlushedRows, first_slot: int) -> Iterator[Entry]:
    """Yield the blocks of rows that are given slots from the first on, which begins a block."""
    text = Slices.joined(rows.urls)
    rows_at_once = ROWS_A_BLOCK * _BLOCKS_AT_ONCE
    fixed = 16 + SKETCH_BYTES + 4 * rows.keys.shape[1] + 4
    number = first_slot // ROWS_A_BLOCK
    for first in range(0, len(rows.urls), rows_at_once):
        end = min(first + rows_at_once, len(rows.urls))
        ends = np.empty(-(-(end - first) // ROWS_A_BLOCK), np.int64)
        size = fixed * (end - first) + int(text.ends[end - 1] - text.starts[first])
        out = np.empty(size + _HEAD_BYTES * len(ends) + len(PADDING), np.uint8)
        urls = text.data, text.starts, text.ends
        columns = rows.refs, rows.times, rows.sketches
        _pack(columns, rows.keys, rows.masks, urls, first, out, ends)
        data = out.data
        for start, stop in itertools.pairwise([0, *ends.tolist()]):
            yield entry_key(ROWS, number), data[start:stop].tobytes()
            number += 1


def key_entries(rows: FlushedRows, first_slot: int) -> Iterator[Entry]:
    """Yield the blocks of the keys of rows that are given slots from the first on."""
    for start in range(0, len(rows.rows), SLOTS_A_KEY_BLOCK):
        part = slice(start, start + SLOTS_A_KEY_BLOCK)
        keys, masks, numbers = rows.keys[part], rows.masks[part], rows.rows[part]
        head = struct.pack(_KEY_HEAD, len(keys), keys.shape[1])
        block = (first_slot + start) // SLOTS_A_KEY_BLOCK
        mask_bytes = masks.view(np.uint8).reshape(-1, 8)[:, : _mask_bytes(keys.shape[1])]
        key_bytes = np.ascontiguousarray(keys).view(np.uint8).reshape(-1, 8)[:, -_KEY_BYTES:]
        numbers = np.where(numbers == NO_ROW, _NO_NUMBER, numbers % ROWS_MAX).astype(np.uint32)
        columns = numbers.tobytes(), mask_bytes.tobytes(), key_bytes.tobytes()
        yield entry_key(KEYS, block), b"".join((head, *columns))


def _mask_bytes(keys: int) -> int:
    return -(-keys // 8)


def shingle_entries(rows: FlushedRows, first_slot: int) -> Iterator[Entry]:
    """Yield the sets of rows that are given slots from the first on, each by itself."""
    for slot, each in enumerate(rows.shingles, first_slot):
        yield entry_key(SHINGLES, slot), each


class RowKeys(NamedTuple):
    """Rows with their slots and all their keys: those that bit j of masks[i] is set for are posted.

    Attributes:
        rows, slots: int64[n].
        keys: uint64[n, keys]; as they come of blocks, their upper 40 bits.
        masks: uint64[n].
    """

    rows: Places
    slots: Places
    keys: Words
    masks: Words

    def whole(self, halves: Halves) -> Self:
        """Return them with the lower bits of those that are posted, which the rows' halves have."""
        left = halves.astype(np.uint64) & ((np.uint64(1) << _LEFT_BITS) - np.uint64(1))
        return self._replace(keys=self.keys | left)


@kernel
def _unpack_keys(
    data: Bytes, start: int, places: tuple[int, int, int], widths: tuple[int, int],
    out: tuple[Places, Words, Words], rows: tuple[int, int],
) -> None:  # fmt: skip
    """Write the row numbers, masks and keys of the block that begins at `start`.

    They lie at these places of it; masks and keys are so many bytes. They are rows [first, end) of
    what is written.
    """
    numbers_at, masks_at, keys_at = start + places[0], start + places[1], start + places[2]
    mask_bytes, key_bytes = widths
    numbers, masks, keys = out
    first, end = rows
    for i in range(first, end):
        numbers[i] = int64(uint32(load_u64(data, numbers_at)))
        numbers_at += 4
        masks[i] = load_u64(data, masks_at) << uint64(64 - 8 * mask_bytes)
        masks[i] >>= uint64(64 - 8 * mask_bytes)
        masks_at += mask_bytes
        for j in range(keys.shape[1]):
            keys[i, j] = load_u64(data, keys_at) << uint64(64 - 8 * key_bytes)
            keys_at += key_bytes


def unpack_keys(first_block: int, blocks: Sequence[bytes], rows_end: int) -> RowKeys | None:
    """Return what blocks of keys, from the first on, have; None if that is nothing.

    All rows come before `rows_end`.

    Raises:
        ValueError: a block is none.
    """
    own, slots, total, width, start = [], [], 0, 0, 0
    for number, data in enumerate(blocks, first_block):
        count, width = struct.unpack_from(_KEY_HEAD, data.ljust(_HEAD_BYTES))
        masks_at = _HEAD_BYTES + 4 * count
        keys_at = masks_at + _mask_bytes(width) * count
        if len(data) != keys_at + _KEY_BYTES * width * count:
            raise ValueError(number)
        own.append((start, (_HEAD_BYTES, masks_at, keys_at), (total, total + count)))
        slots.append(np.arange(count) + number * SLOTS_A_KEY_BLOCK)
        total, start = total + count, start + len(data)
    if not own:
        return None
    joined, _ = join_blocks(blocks)
    numbers, masks = np.empty(total, np.int64), np.empty(total, np.uint64)
    keys = np.empty((total, width), np.uint64)
    for start, places, rows in own:
        widths = _mask_bytes(width), _KEY_BYTES
        _unpack_keys(joined, start, places, widths, (numbers, masks, keys), rows)
    there = numbers != _NO_NUMBER
    found = RowKeys(rows_before(rows_end, numbers), np.concatenate(slots), keys, masks)
    if not there.any():
        return None
    return found if there.all() else RowKeys(*(column[there] for column in found))


def join_blocks(blocks: Sequence[bytes]) -> tuple[Bytes, Places]:
    """Return blocks in one, and where each begins, and the end."""
    limits = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum([len(block) for block in blocks], out=limits[1:])
    # numba compiles another version for read-only bytes.
    return np.frombuffer(bytearray().join([*blocks, PADDING]), np.uint8), limits


@dataclass(slots=True)
class RowPlaces:
    """Rows in blocks that have been read, in columns.

    Attributes:
        data: the blocks' bytes, one after the other, and PADDING.
        starts: where each row's block begins.
        places: the row's place in it.
    """

    data: Bytes
    starts: Places
    places: Places


def rows_at(slots: Places, read: Callable[[Sequence[int]], list[bytes]]) -> RowPlaces:
    """Return the rows in slots; `read` gives blocks by their numbers, each once."""
    numbers, places = np.divmod(slots, ROWS_A_BLOCK)
    wanted, at = np.unique(numbers, return_inverse=True)
    data, starts = join_blocks(read(wanted.tolist()))
    return RowPlaces(data, starts[at], places)


@inline_kernel
def _rows_in(data: Bytes, start: int) -> int:
    count: int = int64(uint32(load_u64(data, start)))
    return count


@inline_kernel
def _keys_in(data: Bytes, start: int) -> int:
    keys: int = int64(load_u64(data, start) >> uint64(32))
    return keys


@inline_kernel
def _halves_at(data: Bytes, start: int, place: int) -> int:
    """Return where the halves of a row are, in the block at `start`."""
    before = (16 + SKETCH_BYTES) * _rows_in(data, start)
    at: int = start + _HEAD_BYTES + before + 4 * _keys_in(data, start) * place
    return at


@kernel
def _gather_halves(data: Bytes, starts: Places, places: Places, out: Halves) -> None:
    for i in range(starts.shape[0]):
        at = _halves_at(data, starts[i], places[i])
        for j in range(_keys_in(data, starts[i])):
            out[i, j] = uint32(load_u64(data, at + 4 * j))


@kernel
def _find_agreeing(
    data: Bytes, starts: Places, places: Places, wanted: Words, out: npt.NDArray[np.bool_]
) -> None:
    for i in range(starts.shape[0]):
        at = _halves_at(data, starts[i], places[i])
        out[i] = False
        for j in range(_keys_in(data, starts[i])):
            out[i] |= uint32(load_u64(data, at + 4 * j)) == uint32(wanted[i])


@kernel
def _gather_rows(
    data: Bytes, starts: Places, places: Places, sketches: Words, refs: Words, times: Places,
    urls: Places,
) -> None:  # fmt: skip
    """Write sketches[i], refs[i], times[i], and the place of the URL in `data` to urls[i, :]."""
    for i in range(starts.shape[0]):
        count, place, first = _rows_in(data, starts[i]), places[i], starts[i] + _HEAD_BYTES
        refs[i] = load_u64(data, first + 8 * place)
        times[i] = int64(load_u64(data, first + 8 * (count + place)))
        at = first + 16 * count + SKETCH_BYTES * place
        for word in range(SKETCH_WORDS):
            sketches[i, word] = load_u64(data, at + 8 * word)
        ends = _halves_at(data, starts[i], count)
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


def gather_halves(rows: RowPlaces, keys: int) -> Halves:
    """Return the halves of the keys that rows have postings under, as uint32[n, keys]."""
    out = np.zeros((len(rows.starts), keys), np.uint32)
    _gather_halves(rows.data, rows.starts, rows.places, out)
    return out


def agree(rows: RowPlaces, keys: Words) -> npt.NDArray[np.bool_]:
    """Return of each row whether one of its halves is that of keys[i]."""
    out = np.empty(len(keys), np.bool_)
    _find_agreeing(rows.data, rows.starts, rows.places, keys, out)
    return out


def gather_rows(rows: RowPlaces) -> KeptRows:
    """Return rows."""
    sketches = np.empty((len(rows.starts), SKETCH_WORDS), np.uint64)
    refs, urls = np.empty(len(rows.starts), np.uint64), np.empty((len(rows.starts), 2), np.int64)
    times = np.empty(len(rows.starts), np.int64)
    _gather_rows(rows.data, rows.starts, rows.places, sketches, refs, times, urls)
    limits = np.zeros(len(urls) + 1, np.int64)
    np.cumsum(urls[:, 1] - urls[:, 0], out=limits[1:])
    text = np.empty(int(limits[-1]) + len(PADDING), np.uint8)
    _gather_text(rows.data, urls, limits, text)
    joined = text.tobytes()
    cuts = itertools.pairwise(limits.tolist())
    return KeptRows(sketches, refs.tolist(), [joined[start:end] for start, end in cuts], times)
