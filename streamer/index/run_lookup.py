"""Looking up what has left the head: postings by key and rows by number, of one shard's runs.

A filter over all runs turns away keys that were never seen; a filter a run tells which runs to
read. Both are rebuilt from the runs when an index is opened and are never older than they.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.index.codec import (
    POSTINGS,
    ROWS,
    ROWS_A_BLOCK,
    FlushMeta,
    RowBlock,
    RunMeta,
    entry_key,
)
from streamer.index.filter import KeyFilter
from streamer.index.lookup import NO_HITS, Hits, KeptRows
from streamer.index.postings import POSTING_BYTES, Keys, search_blocks
from streamer.index.runs import Store
from streamer.sketch.compact import SKETCH_WORDS

_FILTER_KEYS_MIN = 1 << 16


class RunLookup:
    """The look-ups of one shard in an open store."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store = store
        self._shard = shard
        self._filter = KeyFilter(_FILTER_KEYS_MIN)
        self._run_filters: dict[int, KeyFilter] = {}
        self._numbers: dict[int, npt.NDArray[np.int64]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take up the runs that a flush or a merge has brought."""
        runs = self._runs()
        new = [run for run in runs if run.seq not in self._run_filters]
        self._run_filters = {
            run.seq: self._run_filters[run.seq] for run in runs if run.seq in self._run_filters
        }
        total = sum(run.postings for run in runs)
        rebuild = total > self._filter.capacity
        if rebuild:
            self._filter = KeyFilter(2 * total)
        for run in runs if rebuild else new:
            keys, _ = self._store.read_run(self._shard, run)
            if run in new:
                self._run_filters[run.seq] = KeyFilter(len(keys))
                self._run_filters[run.seq].add(keys)
            self._filter.add(keys)

    def _runs(self) -> list[RunMeta]:
        return self._store.meta.shards[self._shard].runs if self._store.meta else []

    def _flushes(self) -> list[FlushMeta]:
        return self._store.meta.shards[self._shard].flushes if self._store.meta else []

    def find(self, keys: Keys) -> Hits:
        """Return the postings of `keys`."""
        flat = np.ascontiguousarray(keys).reshape(-1)
        passed = self._filter.places(flat)
        if not len(passed):
            return NO_HITS
        wanted = flat[passed]
        entries: list[bytes] = []
        asked: list[npt.NDArray[np.int64]] = []
        for run in self._runs():
            where = self._run_filters[run.seq].places(wanted)
            blocks = wanted[where] >> np.uint64(64 - run.bits)
            entries += [
                entry_key(run.seq, self._shard, POSTINGS, block) for block in blocks.tolist()
            ]
            asked.append(where)
        return self._search(wanted, passed, np.concatenate(asked), entries)

    def _search(
        self,
        wanted: Keys,
        passed: npt.NDArray[np.int64],
        asked: npt.NDArray[np.int64],
        entries: list[bytes],
    ) -> Hits:
        """Search block entries[i] for key wanted[asked[i]]; gather the rows by key."""
        values = self._store.read(entries)
        limits = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=limits[1:])
        data = np.frombuffer(b"".join(values), np.uint8)
        first, size = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        search_blocks(data, limits, wanted[asked], first, size)
        found = np.flatnonzero(size)
        if not len(found):
            return NO_HITS
        counts = size[found]
        keys_in_block = (limits[found + 1] - limits[found]) // POSTING_BYTES
        base = limits[found] + 8 * keys_in_block + 4 * first[found]
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        at = np.repeat(base, counts) + 4 * inside
        rows = data.view(np.uint32)[at // 4].astype(np.int64)
        places = np.repeat(passed[asked[found]], counts)
        order = np.lexsort((rows, places))
        unique, starts = np.unique(places[order], return_index=True)
        return Hits(unique, np.append(starts, len(rows)), rows[order])

    def rows(self, rows: npt.NDArray[np.int64]) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        located = [self._locate(row) for row in rows.tolist()]
        keys = [entry_key(f.seq, self._shard, ROWS, slot // ROWS_A_BLOCK) for f, slot in located]
        distinct = list(dict.fromkeys(keys))
        values = dict(zip(distinct, self._store.read(distinct), strict=True))
        sketches = np.empty((len(rows), SKETCH_WORDS), np.uint64)
        refs: list[int] = []
        urls: list[bytes] = []
        for i, ((flush, slot), key) in enumerate(zip(located, keys, strict=True)):
            start = slot - slot % ROWS_A_BLOCK
            block = RowBlock(values[key], min(ROWS_A_BLOCK, flush.rows - start))
            sketches[i] = block.sketch(slot - start)
            refs.append(block.ref(slot - start))
            urls.append(block.url(slot - start))
        return KeptRows(sketches, refs, urls)

    def _locate(self, row: int) -> tuple[FlushMeta, int]:
        """Return the flush that brought a row, and the row's place in it."""
        for flush in reversed(self._flushes()):
            if not flush.first_row <= row <= flush.last_row:
                continue
            if flush.dense:
                return flush, row - flush.first_row
            if flush.seq not in self._numbers:
                self._numbers[flush.seq] = self._store.row_numbers(self._shard, flush)
            numbers = self._numbers[flush.seq]
            slot = int(np.searchsorted(numbers, row))
            if numbers[slot] == row:
                return flush, slot
        raise AssertionError(f"row {row} of shard {self._shard} is in no flush")
