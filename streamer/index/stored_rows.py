"""Reading kept rows by their numbers: from the flush that brought them, a block at a time.

A batch asks twice for the same rows: once whether they are posted under a key, once for what a
verdict needs. So the blocks of the last batch are remembered.

Row numbers have gaps where shards further along dropped pages, and a row that was undecided for
long comes with a later flush than its neighbours. So all rows are held as runs, by their first row:
one binary search finds a row, however many flushes there are.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.codec import FlushMeta, StoreMeta
from streamer.index.row_blocks import (
    ROWS_A_BLOCK,
    RowPlaces,
    agree,
    gather_marks,
    gather_rows,
)
from streamer.index.store import Store
from streamer.index.types import KeptRows

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


class _Located(NamedTuple):
    """Where rows lie: the number of the block, how many rows and keys a row that has, the place."""

    blocks: RowNumbers
    counts: RowNumbers
    keys: RowNumbers
    places: RowNumbers


class _RowMap:
    """Where all rows of a shard lie: in which block of its row file, and where in that.

    A row's slot is its place among all, as if each block were full: a run is rows [first, end) in
    consecutive slots. Block i lies at [limits[i], limits[i + 1]). Any thread may ask; one at a time
    may `take`.
    """

    def __init__(self, store: Store, shard: int) -> None:
        self._store, self._shard = store, shard
        self._lock = threading.Lock()
        self._newest = -1
        self._first, self._end, self._slot = _Column(-1), _Column(-1), _Column(0)  # of runs
        self._limits = _Column(0)
        self._block, self._rows, self._keys = _Column(-1), _Column(0), _Column(0)  # of flushes

    def take(self, meta: StoreMeta | None) -> None:
        """Take up the rows of the flushes that are new in this state of the store."""
        flushes = meta.shards[self._shard].flushes if meta else []
        new = [flush for flush in flushes if flush.seq > self._newest]
        if not new:
            return
        lengths = [self._store.block_lengths(self._shard, flush) for flush in new]
        blocks = self._limits.count - 1 + np.cumsum([0, *map(len, lengths)])
        runs = [self._runs(flush, int(block)) for flush, block in zip(new, blocks, strict=False)]
        with self._lock:
            limits = self._limits.numbers[-1] + np.cumsum(np.concatenate(lengths))
            self._limits.put(self._limits.count, limits)
            self._block.put(self._block.count, blocks[:-1])
            self._rows.put(self._rows.count, np.array([flush.rows for flush in new]))
            self._keys.put(self._keys.count, np.array([flush.keys for flush in new]))
            self._put_runs(np.concatenate(runs, axis=1))
        self._newest = new[-1].seq

    def _runs(self, flush: FlushMeta, first_block: int) -> RowNumbers:
        """Return the runs of a flush in columns: their first rows, their ends and their slots."""
        slot = first_block * ROWS_A_BLOCK
        if flush.dense:
            return np.array([[flush.first_row], [flush.last_row + 1], [slot]])
        numbers = self._store.row_numbers(self._shard, flush)
        gaps = np.flatnonzero(np.diff(numbers) != 1) + 1
        starts, ends = np.append(0, gaps), np.append(gaps, len(numbers))
        return np.stack((numbers[starts], numbers[ends - 1] + 1, slot + starts))

    def _put_runs(self, runs: RowNumbers) -> None:
        """Put runs among those that are there, of which only the last come behind one of them."""
        columns = self._first, self._end, self._slot
        at = int(np.searchsorted(self._first.numbers, runs[0].min()))
        behind = np.stack([column.numbers[at:] for column in columns])
        both = np.concatenate((behind, runs), axis=1)
        order = np.argsort(both[0], kind="stable")
        for column, numbers in zip(columns, both, strict=True):
            column.put(at, numbers[order])

    def has(self, rows: RowNumbers) -> Mask:
        """Tell which rows were taken up."""
        with self._lock:
            return self._slots(rows) >= 0

    def _slots(self, rows: RowNumbers) -> RowNumbers:
        """Return the slot of each row, -1 of one that no flush brought."""
        runs = np.searchsorted(self._first.numbers, rows, side="right") - 1
        slots = self._slot.numbers[runs] + rows - self._first.numbers[runs]
        slots[rows >= self._end.numbers[runs]] = -1
        return slots

    def locate(self, rows: RowNumbers) -> _Located:
        """Return where rows lie."""
        with self._lock:
            slots = self._slots(rows)
            missing = rows[slots < 0]
            assert not len(missing), f"row {missing[0]} of shard {self._shard} is in no flush"
            blocks, places = np.divmod(slots, ROWS_A_BLOCK)
            flushes = np.searchsorted(self._block.numbers, blocks, side="right") - 1
            behind = self._rows.numbers[flushes] - slots + places
            behind += self._block.numbers[flushes] * ROWS_A_BLOCK
            counts = np.minimum(ROWS_A_BLOCK, behind)
            return _Located(blocks, counts, self._keys.numbers[flushes], places)

    def limits(self, blocks: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """Return where blocks begin and end in the row file."""
        with self._lock:
            return self._limits.numbers[blocks], self._limits.numbers[blocks + 1]


class _Blocks(NamedTuple):
    """Blocks that were read: their numbers, ascending, their bytes, and where each begins."""

    numbers: RowNumbers
    data: npt.NDArray[np.uint8]
    limits: RowNumbers


_NO_BLOCKS = _Blocks(np.array([-1]), np.empty(0, np.uint8), np.zeros(2, np.int64))


class StoredRows:
    """The rows of one shard in an open store; from any thread."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store = store
        self._shard = shard
        self._local = threading.local()
        self._map = _RowMap(store, shard)
        self._map.take(store.meta)

    def refresh(self, meta: StoreMeta | None) -> None:
        """Take up the rows that this state of the store has; one thread at a time."""
        self._map.take(meta)

    def known(self, rows: RowNumbers) -> Mask:
        """Tell which rows the state has that was taken up."""
        return self._map.has(rows)

    def posted(self, rows: RowNumbers, keys: npt.NDArray[np.uint64]) -> Mask:
        """Tell of each row whether it is posted under keys[i], by the lower half of the key."""
        return agree(self._read(rows), keys)

    def marks(self, rows: RowNumbers, keys: int) -> npt.NDArray[np.uint32]:
        """Return the marks of the keys of rows, as uint32[n, keys]."""
        return gather_marks(self._read(rows), keys)

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        return gather_rows(self._read(rows))

    def _read(self, rows: RowNumbers) -> RowPlaces:
        """Read the blocks of rows, if they are not there yet."""
        located = self._map.locate(rows)
        blocks, at = self._blocks_of(located.blocks)
        return RowPlaces(
            blocks.data, blocks.limits[at], located.counts, located.keys, located.places
        )

    def _blocks_of(self, numbers: RowNumbers) -> tuple[_Blocks, RowNumbers]:
        """Return blocks that have all of these numbers, and the place of each among them."""
        blocks: _Blocks = getattr(self._local, "blocks", _NO_BLOCKS)
        places = np.searchsorted(blocks.numbers, numbers)
        if not np.array_equal(blocks.numbers.take(places, mode="clip"), numbers):
            wanted = np.unique(numbers)
            starts, ends = self._map.limits(wanted)
            blocks = _Blocks(wanted, *self._store.read_blocks(self._shard, starts, ends))
            self._local.blocks = blocks
            places = np.searchsorted(wanted, numbers)
        return blocks, places
