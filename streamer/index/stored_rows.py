"""Reading kept rows by their numbers: from the slots that a flush gave them, a block at a time.

A batch asks twice for the same rows: once whether they are posted under a key, once for what a
verdict needs. So the blocks of the last batch are remembered.

Row numbers have gaps where shards further along dropped pages, and a row that was undecided for
long comes with a later flush than its neighbours. So all rows are held as runs, by their first row:
one binary search finds a row, however many flushes there are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.row_blocks import (
    PADDING,
    ROWS_A_BLOCK,
    RowPlaces,
    agree,
    gather_marks,
    gather_rows,
)
from streamer.index.store import Store
from streamer.index.types import BEFORE_ALL, KeptRows
from streamer.sketch.resemblance import SKETCH_WORDS

ROWS_A_PART = 4096

RowNumbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class _Column:
    """Numbers in memory that grows by doubling; only the end of them is ever written."""

    def __init__(self, first: int) -> None:
        self._room = np.full(64, first, np.int64)
        self.count = 1

    @property
    def numbers(self) -> RowNumbers:
        """Return all that are there."""
        return self._room[: self.count]

    def put(self, at: int, numbers: RowNumbers) -> None:
        """Write numbers from place `at` on, over those that are there; the last is the last."""
        end = at + len(numbers)
        if end > len(self._room):
            self._room = np.concatenate((self._room[:at], np.empty(2 * end - at, np.int64)))
        self._room[at:end] = numbers
        self.count = end


class _Slots:
    """The slots of a shard's rows: a run is rows [first, end) in consecutive slots.

    Any thread may ask; one at a time may `take` and `drop`. Rows before `dropped_end` may have been
    dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.dropped_end = 0
        self._first, self._end, self._slot = _Column(-1), _Column(-1), _Column(0)

    def take(self, rows: RowNumbers, slots: RowNumbers) -> None:
        """Take up rows, and the slots that they have; slots ascend."""
        gaps = np.flatnonzero((np.diff(rows) != 1) | (np.diff(slots) != 1)) + 1
        starts, ends = np.append(0, gaps), np.append(gaps, len(rows))
        runs = np.stack((rows[starts], rows[ends - 1] + 1, slots[starts]))
        columns = self._first, self._end, self._slot
        with self._lock:
            # Only the last of those that are there come behind one of the new ones.
            at = int(np.searchsorted(self._first.numbers, runs[0].min()))
            behind = np.stack([column.numbers[at:] for column in columns])
            both = np.concatenate((behind, runs), axis=1)
            order = np.argsort(both[0], kind="stable")
            for column, numbers in zip(columns, both, strict=True):
                column.put(at, numbers[order])

    def drop(self, first_slot: int) -> None:
        """Let go of the rows in slots before this one."""
        columns = self._first, self._end, self._slot
        with self._lock:
            first, end, slot = (column.numbers[1:] for column in columns)
            length = np.clip(first_slot - slot, 0, end - first)
            self.dropped_end = max(self.dropped_end, int((first + length).max(initial=0)))
            left = first + length < end
            runs = first + length, end, slot + length
            for column, numbers in zip(columns, runs, strict=True):
                column.put(1, numbers[left])

    @property
    def first_row(self) -> int:
        """Return the lowest row that is there; where there is none, the one after the dropped."""
        firsts = self._first.numbers
        return int(firsts[1]) if len(firsts) > 1 else self.dropped_end

    def of(self, rows: RowNumbers) -> RowNumbers:
        """Return the slot of each row, -1 of one that was not taken up."""
        with self._lock:
            runs = np.searchsorted(self._first.numbers, rows, side="right") - 1
            slots = self._slot.numbers[runs] + rows - self._first.numbers[runs]
            slots[rows >= self._end.numbers[runs]] = -1
            return slots


class Blocks(NamedTuple):
    """Blocks that were read: their numbers, ascending, their bytes, and where each begins."""

    numbers: RowNumbers
    data: npt.NDArray[np.uint8]
    limits: RowNumbers


_NO_BLOCKS = Blocks(np.array([-1]), np.empty(0, np.uint8), np.zeros(2, np.int64))


class StoredRows:
    """The rows of one shard in an open store, as far as they were taken up; from any thread."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store = store
        self._shard = shard
        self._local = threading.local()
        self._slots = _Slots()
        self.take, self.drop = self._slots.take, self._slots.drop

    def read_anew(self) -> None:
        """Let go of all blocks that threads remember; while none of them reads."""
        self._local = threading.local()

    @property
    def first_row(self) -> int:
        """Return a row before which there is none."""
        return self._slots.first_row

    def known(self, rows: RowNumbers) -> Mask:
        """Tell which rows were taken up, and not dropped."""
        return self._slots.of(rows) >= 0

    def posted(self, rows: RowNumbers, keys: npt.NDArray[np.uint64]) -> Mask:
        """Tell of each row whether it is posted under keys[i], by the lower half of the key."""
        slots = self._slots_of(rows)
        there = slots >= 0
        told = np.zeros(len(rows), np.bool_)
        told[there] = agree(self._read(slots[there]), keys[there])
        return told

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        slots = self._slots_of(rows)
        there = np.flatnonzero(slots >= 0)
        found = gather_rows(self._read(slots[there]))
        if len(there) == len(rows):
            return found
        count = len(rows)  # some have been dropped since they were found
        kept = KeptRows(
            np.zeros((count, SKETCH_WORDS), np.uint64), [0] * count, [b""] * count,
            np.full(count, BEFORE_ALL),
        )  # fmt: skip
        kept.sketches[there], kept.times[there] = found.sketches, found.times
        for i, place in enumerate(there.tolist()):
            kept.refs[place], kept.urls[place] = found.refs[i], found.urls[i]
        return kept

    def _slots_of(self, rows: RowNumbers) -> RowNumbers:
        """Return the slot of each row, -1 of one that was dropped."""
        slots = self._slots.of(rows)
        missing = rows[(slots < 0) & ((rows < 0) | (rows >= self._slots.dropped_end))]
        assert not len(missing), f"row {missing[0]} of shard {self._shard} is in no flush"
        return slots

    def _read(self, slots: RowNumbers) -> RowPlaces:
        """Read the blocks of slots, if they are not there yet."""
        blocks: Blocks = getattr(self._local, "blocks", _NO_BLOCKS)
        numbers, places = np.divmod(slots, ROWS_A_BLOCK)
        at = np.searchsorted(blocks.numbers, numbers)
        if not np.array_equal(blocks.numbers.take(at, mode="clip"), numbers):
            blocks = self._local.blocks = read_blocks(self._store, np.unique(numbers))
            at = np.searchsorted(blocks.numbers, numbers)
        return RowPlaces(blocks.data, blocks.limits[at], places)


def read_blocks(store: Store, numbers: RowNumbers) -> Blocks:
    """Read blocks of rows by their numbers, which ascend.

    Raises:
        StoreDamaged: one of them is, or is missing.
    """
    values = store.row_blocks(numbers.tolist())
    limits = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=limits[1:])
    # A kernel is compiled anew for bytes that cannot be written.
    data = np.frombuffer(bytearray().join([*values, PADDING]), np.uint8)
    return Blocks(numbers, data, limits)


def read_rows(store: Store, slots: RowNumbers) -> RowPlaces:
    """Read the rows in slots, a block once for all rows that it has.

    Raises:
        StoreDamaged: a block is, or is missing.
    """
    numbers, places = np.divmod(slots, ROWS_A_BLOCK)
    wanted, at = np.unique(numbers, return_inverse=True)
    blocks = read_blocks(store, wanted)
    return RowPlaces(blocks.data, blocks.limits[at], places)


class ScannedRows(NamedTuple):
    """Some rows, and the marks of their keys at this shard, uint32[n, keys]; 0: not posted."""

    rows: KeptRows
    marks: npt.NDArray[np.uint32]


def scan_rows(store: Store, shard: int) -> Iterator[ScannedRows]:
    """Yield the rows of a shard that have not expired, some thousand at a time, as they came."""
    for part in store.keys(shard, ROWS_A_PART):
        rows = read_rows(store, part.slots)
        found, marks = gather_rows(rows), gather_marks(rows, part.keys.shape[1])
        assert store.meta is not None, "a store without a flush has no rows"
        left = store.meta.shards[shard].horizon.has(found.times, part.rows)
        yield ScannedRows(found.take(np.flatnonzero(left)), marks[left])
