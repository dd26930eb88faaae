"""Reading kept rows by their numbers: from the flush that brought them, a block at a time.

A batch asks twice for the same rows: once for the marks of their keys, once for what a verdict
needs. So the blocks of the last batch are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from streamer.index.codec import ROWS, ROWS_A_BLOCK, FlushMeta, RowBlock, entry_key
from streamer.index.lookup import KeptRows
from streamer.index.runs import Store
from streamer.sketch.compact import SKETCH_WORDS

RowNumbers = npt.NDArray[np.int64]
Place = tuple[FlushMeta, int]  # a row's flush, and its slot among that flush's rows


class RunRows:
    """The rows of one shard in an open store."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store = store
        self._shard = shard
        self._numbers: dict[int, RowNumbers] = {}
        self._blocks: dict[bytes, RowBlock] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take up the rows that a flush has brought."""
        meta = self._store.meta
        flushes = meta.shards[self._shard].flushes if meta else []
        # Rows of a dense flush follow each other, so no other flush has one of them; but the rows
        # of a later flush may be lower, where they were undecided for long.
        self._dense = sorted(
            (flush for flush in flushes if flush.dense), key=lambda flush: flush.first_row
        )
        self._sparse = [flush for flush in flushes if not flush.dense]
        self._first_rows = np.array([flush.first_row for flush in self._dense], np.int64)

    def forget(self) -> None:
        """Let go of the blocks that were read for the last batch."""
        self._blocks = {}

    def marks(self, rows: RowNumbers) -> npt.NDArray[np.uint32]:
        """Return the marks of the keys of rows, as uint32[n, keys]."""
        return np.array([block.marks(at) for block, at in self._read(rows)], np.uint32)

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        sketches = np.empty((len(rows), SKETCH_WORDS), np.uint64)
        refs: list[int] = []
        urls: list[bytes] = []
        for i, (block, at) in enumerate(self._read(rows)):
            sketches[i] = block.sketch(at)
            refs.append(block.ref(at))
            urls.append(block.url(at))
        return KeptRows(sketches, refs, urls)

    def _read(self, rows: RowNumbers) -> Iterator[tuple[RowBlock, int]]:
        """Yield each row's block, and the row's place in it."""
        located = self._located(rows)
        keys = [
            entry_key(flush.seq, self._shard, ROWS, slot // ROWS_A_BLOCK) for flush, slot in located
        ]
        missing = {
            key: place for key, place in zip(keys, located, strict=True) if key not in self._blocks
        }
        values = self._store.read(list(missing))
        for (key, (flush, slot)), value in zip(missing.items(), values, strict=True):
            rows_in_block = min(ROWS_A_BLOCK, flush.rows - slot // ROWS_A_BLOCK * ROWS_A_BLOCK)
            self._blocks[key] = RowBlock(value, rows_in_block, flush.keys)
        for key, (_, slot) in zip(keys, located, strict=True):
            yield self._blocks[key], slot % ROWS_A_BLOCK

    def _located(self, rows: RowNumbers) -> list[Place]:
        """Return the flush that brought each row, and the row's slot in it."""
        nearest = np.searchsorted(self._first_rows, rows, side="right") - 1
        places: list[Place] = []
        for row, dense in zip(rows.tolist(), nearest.tolist(), strict=True):
            if dense >= 0 and row <= self._dense[dense].last_row:
                places.append((self._dense[dense], row - self._dense[dense].first_row))
            else:
                places.append(self._among_sparse(row))
        return places

    def _among_sparse(self, row: int) -> Place:
        for flush in reversed(self._sparse):
            if not flush.first_row <= row <= flush.last_row:
                continue
            if flush.seq not in self._numbers:
                self._numbers[flush.seq] = self._store.row_numbers(self._shard, flush)
            numbers = self._numbers[flush.seq]
            slot = int(np.searchsorted(numbers, row))
            if numbers[slot] == row:
                return flush, slot
        raise AssertionError(f"row {row} of shard {self._shard} is in no flush")
