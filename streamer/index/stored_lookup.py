"""Looking up what has left the head: postings by key and rows by number, of one shard's flushes.

The key table tells which rows may be posted under a key: those that agree with it in 40 bits. The
other bits are compared with the marks of the row, whose block is read anyway for the verdict. Only
where one key leads to more than a few rows they are believed: that so many others agree with a key
in 40 bits by chance does not happen, and a crowded bucket may lead to thousands of rows that nobody
reads. The table holds all keys and is never older than the flushes; it is filled from them when an
index is opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from streamer.index.codec import FlushMeta
from streamer.index.key_table import KeyTable
from streamer.index.lookup import Hits, KeptRows, no_hits
from streamer.index.postings import PARTS, Keys, Places, Postings, segments_of
from streamer.index.shared_lock import SharedLock
from streamer.index.store import Store
from streamer.index.stored_rows import Mask, RowNumbers, StoredRows

_CROWDED = 8  # rows under one key, of which more are not compared with it


class StoredLookup:
    """The look-ups of one shard in an open store; from any thread, but for `refresh`."""

    def __init__(self, store: Store, shard: int) -> None:
        self._lock = SharedLock()
        self._store = store
        self._shard = shard
        self._rows = StoredRows(store, shard)
        self.flushes = 0
        self._flushes_before = store.flushes
        flushes = store.meta.shards[shard].flushes if store.meta else []
        self.table = KeyTable()
        self._fill(flushes)

    def refresh(self, postings: Postings) -> None:
        """Take up a flush, which has brought these postings; in the thread that flushes.

        Look-ups go on between the parts of the table. The flush's rows are found from the end on;
        until then they are in the head.
        """
        for part in range(PARTS):
            with self._lock.alone():
                self.table.add(postings, segments_of(part))
        with self._lock.alone():
            self._rows.refresh(self._store.meta)
            self.flushes = self._store.flushes - self._flushes_before

    def _fill(self, flushes: Sequence[FlushMeta]) -> None:
        """Fill the table when the store is opened: part by part of all flushes, by all cores."""

        def fill(part: int) -> None:
            postings = [self._store.postings(self._shard, flush, part) for flush in flushes]
            self.table.fill(postings, segments_of(part))

        if flushes:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(fill, range(PARTS)))

    def find(self, keys: Keys, flushes: int = 0) -> Hits:
        """Return the postings of `keys`, given as [page, key]; the store has so many flushes."""
        flat = np.ascontiguousarray(keys).reshape(-1)
        with self._lock.shared():
            assert self.flushes >= flushes, f"{self.flushes} flushes of {flushes}"
            seen = self.flushes
            places, rows = self.table.find(flat)
            known = self._rows.known(rows)
        if not known.all():  # a flush is being added
            places, rows = places[known], rows[known]
        if not len(places):
            return no_hits(seen)
        posted = self._posted(flat, places, rows)
        if not posted.all():
            places, rows = places[posted], rows[posted]
        starts = _starts(places)
        return Hits(places[starts], np.append(starts, len(rows)), rows, seen)

    def _posted(self, keys: Keys, places: Places, rows: RowNumbers) -> Mask:
        """Tell which rows are posted under the key that led to them."""
        lengths = np.diff(_starts(places), append=len(places))
        posted: Mask = np.repeat(lengths > _CROWDED, lengths)
        compared = np.flatnonzero(~posted)
        if len(compared):
            posted[compared] = self._rows.posted(rows[compared], keys[places[compared]])
        return posted

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        return self._rows.rows(rows)


def _starts(places: Places) -> Places:
    """Return where each place's postings begin; places ascend."""
    return np.flatnonzero(np.diff(places, prepend=-1))
