"""Reading kept rows by their numbers: from the flush that brought them, a block at a time.

A batch asks twice for the same rows: once for the marks of their keys, once for what a verdict
needs. So the blocks of the last batch are remembered.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from streamer.index.codec import ROWS, FlushMeta, StoreMeta, entry_key
from streamer.index.lookup import KeptRows
from streamer.index.postings import joined_blocks
from streamer.index.row_blocks import PADDING, ROWS_A_BLOCK, RowPlaces, gather_marks, gather_rows
from streamer.index.runs import Store

RowNumbers = npt.NDArray[np.int64]
_NONE = FlushMeta(0, -1, -1, 0, 0, dense=True)  # before all flushes: it has no row


class RunRows:
    """The rows of one shard in an open store."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store = store
        self._shard = shard
        self._numbers: dict[int, RowNumbers] = {}
        self._local = threading.local()
        self.refresh(store.meta)

    def refresh(self, meta: StoreMeta | None) -> None:
        """Take up the rows that the store's newest state has."""
        flushes = meta.shards[self._shard].flushes if meta else []
        # Rows of a dense flush follow each other, so no other flush has one of them; but the rows
        # of a later flush may be lower, where they were undecided for long.
        dense = sorted((flush for flush in flushes if flush.dense), key=lambda each: each.first_row)
        self._dense = 1 + len(dense)
        self._flushes = [_NONE, *dense, *(flush for flush in flushes if not flush.dense)]
        columns = [
            (each.first_row, each.last_row, each.rows, each.keys, each.seq)
            for each in self._flushes
        ]
        parts = np.array(columns, np.int64).T
        self._first, self._last, self._count, self._keys, self._seq = parts

    def forget(self) -> None:
        """Let go of the blocks that this thread has read for its last batch."""
        self._local.blocks = {}

    @property
    def _blocks(self) -> dict[int, bytes]:
        if not hasattr(self._local, "blocks"):
            self.forget()
        blocks: dict[int, bytes] = self._local.blocks
        return blocks

    def marks(self, rows: RowNumbers, keys: int) -> npt.NDArray[np.uint32]:
        """Return the marks of the keys of rows, as uint32[n, keys]."""
        return gather_marks(self._read(rows), keys)

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        return gather_rows(self._read(rows))

    def _read(self, rows: RowNumbers) -> RowPlaces:
        """Read the blocks of rows, those that are not there yet."""
        flushes, slots = self._located(rows)
        first_slots = slots - slots % ROWS_A_BLOCK
        numbers, which = np.unique(
            self._seq[flushes] << 32 | first_slots // ROWS_A_BLOCK, return_inverse=True
        )
        wanted = numbers.tolist()
        blocks = self._blocks
        missing = [block for block in wanted if block not in blocks]
        values = self._store.read(
            [entry_key(block >> 32, self._shard, ROWS, block & 0xFFFFFFFF) for block in missing]
        )
        blocks.update(zip(missing, values, strict=True))
        data, limits = joined_blocks([*(blocks[block] for block in wanted), PADDING])
        counts = np.minimum(ROWS_A_BLOCK, self._count[flushes] - first_slots)
        return RowPlaces(data, limits[which], counts, self._keys[flushes], slots - first_slots)

    def _located(self, rows: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """Return which flush brought each row, and the row's slot among that flush's rows."""
        dense = self._dense
        flushes = np.searchsorted(self._first[:dense], rows, side="right") - 1
        slots = rows - self._first[flushes]
        for i in np.flatnonzero(rows > self._last[flushes]).tolist():
            flushes[i], slots[i] = self._among_sparse(int(rows[i]))
        return flushes, slots

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
        raise AssertionError(f"row {row} of shard {self._shard} is in no flush")
