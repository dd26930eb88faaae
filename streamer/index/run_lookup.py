"""Looking up what has left the head: postings by key and rows by number, of one shard's runs.

A filter over all runs turns away keys that were never seen; a filter a run tells which runs to
read. A page that has a match shares most of its keys with it, and each would cost a read of its own
that finds the same row. So for each page and run one key is read first. If it leads to a single
row, the marks of that row's keys tell for most of the others that they lead there too, and only
there. What is found is the same as if every key were read; filters and crowded keys are read from
the file of a clean stop when an index is opened, or built from the runs, and are never older than
they.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.codec import POSTINGS, RunMeta, entry_key
from streamer.index.filter import GrowingFilter
from streamer.index.lookup import Hits, KeptRows, no_hits
from streamer.index.postings import POSTING_BYTES, Keys, joined_blocks, search_blocks
from streamer.index.run_keys import RunKeys
from streamer.index.run_rows import RowNumbers, RunRows
from streamer.index.runs import Store
from streamer.index.saved_filters import (
    POSTINGS_MIN,
    Filters,
    load_filters,
    save_filters,
    saved_filters_path,
)
from streamer.index.shared_lock import SharedLock

_FILTER_KEYS_MIN = 1 << 24  # 24 MB, of which a small index touches little
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Asked:
    """Pairs of a key and a run that may hold it, in columns.

    `places` are the keys' in the flat array; `runs` count the shard's runs; `crowded` marks keys
    that have several postings in that run.
    """

    places: Places
    keys: Keys
    runs: Places
    crowded: Mask

    def take(self, which: Mask | Places) -> _Asked:
        return _Asked(self.places[which], self.keys[which], self.runs[which], self.crowded[which])


class RunLookup:
    """The look-ups of one shard in an open store; from any thread."""

    def __init__(self, store: Store, shard: int) -> None:
        self._lock = SharedLock()
        self._refreshing = threading.Lock()
        self._adding = threading.Lock()
        self._store = store
        self._shard = shard
        self._runs: list[RunMeta] = []
        self._seq = 0
        self._rows = RunRows(store, shard)
        meta, self._flushes_before = store.newest()
        self.filter, self._run_keys = self._known_before(meta.shards[shard].runs if meta else [])
        self._saved = set(self._run_keys)
        self.flushes = 0
        self.refresh()

    def _known_before(self, runs: list[RunMeta]) -> Filters:
        """Return what the last clean stop has left of the filters, or ones to be filled."""
        postings = sum(run.postings for run in runs)
        saved = None
        if postings >= POSTINGS_MIN:
            path = saved_filters_path(self._store.path, self._shard)
            saved = load_filters(path, runs, self._store.step_record)
        return saved or Filters(GrowingFilter(max(_FILTER_KEYS_MIN, postings)), {})

    def save(self) -> None:
        """Leave the filters for the next start if they are large, and others than this one read."""
        with self._refreshing:
            large = sum(run.postings for run in self._runs) >= POSTINGS_MIN
            if large and self._run_keys.keys() != self._saved:
                path = saved_filters_path(self._store.path, self._shard)
                record = self._store.step_record(self._seq)
                save_filters(path, Filters(self.filter, self._run_keys), self._seq, record)

    def refresh(self) -> None:
        """Take up the runs that a flush or a merge has brought; in any thread."""
        with self._refreshing:
            meta, flushes = self._store.newest()
            runs = list(meta.shards[self._shard].runs) if meta else []
            new = [run for run in runs if run.seq not in self._run_keys]
            known = self._run_keys | self._taken_up_all(new)
            # What is found before this shows the old runs, whose blocks are there still.
            with self._lock.alone():
                self._rows.refresh(meta)
                self._runs, self._run_keys = runs, {run.seq: known[run.seq] for run in runs}
                self._seq = meta.seq if meta else 0
                self.flushes = flushes - self._flushes_before

    def _taken_up_all(self, runs: list[RunMeta]) -> dict[int, RunKeys]:
        """Return what is known of new runs' keys, by seq; of an opened index by all cores."""
        if len(runs) <= 1:
            return {run.seq: self._taken_up(run) for run in runs}
        largest_first = sorted(runs, key=lambda run: -run.postings)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            known = list(pool.map(self._taken_up, largest_first))
        return {run.seq: keys for run, keys in zip(largest_first, known, strict=True)}

    def _taken_up(self, run: RunMeta) -> RunKeys:
        """Return what is known of a new run's keys; add them to the filter if they are new."""
        if written := self._store.written.take(self._shard, run):
            for keys in written.new:
                self._add(keys)
            return written.keys
        read = RunKeys(run.postings)
        for keys, _ in self._store.run_parts(self._shard, run):
            read.add(keys)
            self._add(keys)
        return read

    def _add(self, keys: Keys) -> None:
        with self._adding:  # two threads that set bits of one word would lose some
            self.filter.add(keys)

    def find(self, keys: Keys, flushes: int = 0) -> Hits:
        """Return the postings of `keys`, given as [page, key]; the runs have so many flushes."""
        with self._lock.shared():
            assert self.flushes >= flushes, f"{self.flushes} flushes of {flushes}"
            self._rows.forget()
            return self._find(keys)

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        with self._lock.shared():
            return self._rows.rows(rows)

    def _find(self, keys: Keys) -> Hits:
        flat = np.ascontiguousarray(keys).reshape(-1)
        asked = self._asked(flat)
        if not len(asked.places):
            return no_hits(self.flushes)
        pages = len(keys)
        group = asked.runs * pages + asked.places // keys.shape[1]
        _, leader, group = np.unique(group, return_index=True, return_inverse=True)
        first, lengths, first_rows = self._search(asked.take(leader))
        explained = self._explained(asked, group, leader, lengths, first_rows, keys.shape[1])
        explained[leader] = False
        rest = ~explained
        rest[leader] = False
        places, _, rows = self._search(asked.take(rest))
        starts = np.cumsum(lengths) - lengths
        return _gathered(
            np.concatenate((first, asked.places[explained], places)),
            np.concatenate((first_rows, first_rows[starts[group[explained]]], rows)),
            self.flushes,
        )

    def _asked(self, flat: Keys) -> _Asked:
        """Return what may be in the runs."""
        passed = self.filter.places(flat)
        wanted = flat[passed]
        nothing = passed[:0]
        parts = [_Asked(nothing, wanted[:0], nothing, np.zeros(0, np.bool_))]
        for i, run in enumerate(self._runs):
            known = self._run_keys[run.seq]
            where = known.filter.places(wanted)
            keys = wanted[where]
            parts.append(_Asked(passed[where], keys, np.full(len(where), i), known.crowded(keys)))
        return _Asked(
            np.concatenate([part.places for part in parts]),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.runs for part in parts]),
            np.concatenate([part.crowded for part in parts]),
        )

    def _explained(
        self,
        asked: _Asked,
        group: Places,
        leader: Places,
        lengths: Places,
        rows: RowNumbers,
        keys_a_page: int,
    ) -> Mask:
        """Tell which pairs lead to their leader's only row, and to no other.

        They do if the row is posted under that very key and the key has one posting in the run. A
        mark is half a key: that two keys of one column agree in it, of which one passes the filter
        of the run and the other is this row's, is as unlikely as that two whole keys agree.
        """
        alone = lengths == 1
        marks = np.zeros((len(leader), keys_a_page), np.uint32)
        if alone.any():
            marks[alone] = self._rows.marks(rows[np.cumsum(lengths)[alone] - 1], keys_a_page)
        halves = asked.keys.astype(np.uint32)
        agreeing = marks[group, asked.places % keys_a_page] == halves
        explained: Mask = agreeing & (halves != 0) & ~asked.crowded
        return explained

    def _search(self, asked: _Asked) -> tuple[Places, Places, RowNumbers]:
        """Read the block of each pair; return (place a row found, rows a pair, rows by pair)."""
        if not len(asked.places):
            return asked.places, asked.places, asked.places
        bits = np.array([run.bits for run in self._runs], np.uint64)[asked.runs]
        blocks = (asked.keys >> (np.uint64(64) - bits)).tolist()
        entries = [
            entry_key(self._runs[run].seq, self._shard, POSTINGS, block)
            for run, block in zip(asked.runs.tolist(), blocks, strict=True)
        ]
        data, limits = joined_blocks(self._store.read(entries))
        first, size = np.empty(len(entries), np.int64), np.empty(len(entries), np.int64)
        search_blocks(data, limits, asked.keys, first, size)
        keys_in_block = np.diff(limits) // POSTING_BYTES
        base = limits[:-1] + 8 * keys_in_block + 4 * first
        inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        rows = data.view(np.uint32)[(np.repeat(base, size) + 4 * inside) // 4].astype(np.int64)
        return np.repeat(asked.places, size), size, rows


def _gathered(places: Places, rows: RowNumbers, flushes: int) -> Hits:
    """Return rows found at places, in any order, as hits."""
    order = np.lexsort((rows, places))
    unique, starts = np.unique(places[order], return_index=True)
    return Hits(unique, np.append(starts, len(rows)), rows[order], flushes)
