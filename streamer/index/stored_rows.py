"""Reading kept rows by their numbers: from the flush that brought them, a block at a time.

A batch asks twice for the same rows: once whether they are posted under a key, once for what a
verdict needs. So the blocks of the last batch are remembered.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.codec import FlushMeta, StoreMeta
from streamer.index.lookup import KeptRows
from streamer.index.row_blocks import (
    ROWS_A_BLOCK,
    RowPlaces,
    agree,
    gather_marks,
    gather_rows,
)
from streamer.index.store import Store

RowNumbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_NONE = FlushMeta(0, -1, -1, 0, 0, 0, 0, 0, 0, dense=True)  # before all flushes: it has no row


class _Located(NamedTuple):
    """Where rows lie: which flush brought each, -1 if none did, and its slot among its rows."""

    flushes: RowNumbers
    slots: RowNumbers


class _Flushes:
    """The flushes of a shard as of one state of the store, in columns; it never changes.

    `limits` are those of all blocks in the row file; those of flush i begin at first_block[i].
    `before` is a state that the store had before, which spares reading what that has.
    """

    def __init__(
        self, store: Store, shard: int, meta: StoreMeta | None, before: _Flushes | None = None
    ) -> None:
        flushes = meta.shards[shard].flushes if meta else []
        self.newest = flushes[-1].seq if flushes else -1
        seen, limits = (before.newest, before.limits) if before else (-1, np.zeros(1, np.int64))
        lengths = [store.block_lengths(shard, flush) for flush in flushes if flush.seq > seen]
        new_limits = np.cumsum(np.concatenate((limits[-1:], *lengths)))
        self.limits: RowNumbers = np.concatenate((limits[:-1], new_limits))
        first_block = _first_blocks(flushes)
        # Rows of a dense flush follow each other, so no other flush has one of them; but the rows
        # of a later flush may be lower, where they were undecided for long.
        dense = sorted((flush for flush in flushes if flush.dense), key=lambda each: each.first_row)
        self._store, self._shard = store, shard
        self._dense = 1 + len(dense)
        self._flushes = [_NONE, *dense, *(flush for flush in flushes if not flush.dense)]
        self._numbers: dict[int, RowNumbers] = {}
        columns = [
            (each.first_row, each.last_row, each.rows, each.keys, first_block.get(each.seq, 0))
            for each in self._flushes
        ]
        parts = np.array(columns, np.int64).T
        self._first, self._last, self.count, self.keys, self.first_block = parts

    def locate(self, rows: RowNumbers) -> _Located:
        """Return where rows lie."""
        dense = self._dense
        flushes = np.searchsorted(self._first[:dense], rows, side="right") - 1
        slots = rows - self._first[flushes]
        for i in np.flatnonzero(rows > self._last[flushes]).tolist():
            flushes[i], slots[i] = self._among_sparse(int(rows[i]))
        return _Located(flushes, slots)

    def _among_sparse(self, row: int) -> tuple[int, int]:
        for place in reversed(range(self._dense, len(self._flushes))):
            flush = self._flushes[place]
            if not flush.first_row <= row <= flush.last_row:
                continue
            if flush.seq not in self._numbers:
                self._numbers[flush.seq] = self._store.row_numbers(self._shard, flush)
            numbers = self._numbers[flush.seq]
            slot = int(np.searchsorted(numbers, row))
            if numbers[slot] == row:
                return place, slot
        return -1, 0


def _first_blocks(flushes: list[FlushMeta]) -> dict[int, int]:
    """Return the number of the first block of each flush, by its `seq`."""
    found, first = {}, 0
    for flush in flushes:
        found[flush.seq] = first
        first += -(-flush.rows // ROWS_A_BLOCK)
    return found


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
        self._flushes = _Flushes(store, shard, store.meta)

    def refresh(self, meta: StoreMeta | None) -> None:
        """Take up the rows that this state of the store has."""
        self._flushes = _Flushes(self._store, self._shard, meta, self._flushes)

    def known(self, rows: RowNumbers) -> Mask:
        """Tell which rows the state has that was taken up."""
        known: Mask = self._flushes.locate(rows).flushes >= 0
        return known

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
        flushes = self._flushes
        located = flushes.locate(rows)
        missing = rows[located.flushes < 0]
        assert not len(missing), f"row {missing[0]} of shard {self._shard} is in no flush"
        slots_in_block = located.slots % ROWS_A_BLOCK
        first_slots = located.slots - slots_in_block
        numbers = flushes.first_block[located.flushes] + first_slots // ROWS_A_BLOCK
        blocks, places = self._blocks_of(flushes, numbers)
        counts = np.minimum(ROWS_A_BLOCK, flushes.count[located.flushes] - first_slots)
        keys = flushes.keys[located.flushes]
        return RowPlaces(blocks.data, blocks.limits[places], counts, keys, slots_in_block)

    def _blocks_of(self, flushes: _Flushes, numbers: RowNumbers) -> tuple[_Blocks, RowNumbers]:
        """Return blocks that have all of these numbers, and the place of each among them."""
        blocks: _Blocks = getattr(self._local, "blocks", _NO_BLOCKS)
        places = np.searchsorted(blocks.numbers, numbers)
        if not np.array_equal(blocks.numbers.take(places, mode="clip"), numbers):
            wanted = np.unique(numbers)
            starts, ends = flushes.limits[wanted], flushes.limits[wanted + 1]
            blocks = _Blocks(wanted, *self._store.read_blocks(self._shard, starts, ends))
            self._local.blocks = blocks
            places = np.searchsorted(wanted, numbers)
        return blocks, places
