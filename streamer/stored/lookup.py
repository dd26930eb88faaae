"""Looking up what was flushed: postings by key and rows by number, of one shard's flushes.

The key table shows which rows may be posted under a key: those that agree with it in its upper 40
bits. Each of them is compared in the lower 32 by its halves, whose block the verdict needs anyway:
keys that share 40 bits may be crowded both, so one row does not speak for the others. A bucket has
`bucket_max` rows at most, which bounds what is read for a key; and the rows of a crowd are compared
once for all pages of a batch, some thousand at a time. What is left to chance is that another of
the row's own keys has the same lower half: one in 2^32, where 40 bits agree by chance already.

The table holds all keys that are not frozen, and is never older than the flushes; it is filled
from them when an index is opened. Where memory is bounded, a table that is full goes on as it is
while a thread freezes it (frozen.py), and a new one takes its place.
"""

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from streamer.errors import StreamerError
from streamer.index import postings
from streamer.index.ports import FoundUrls, Hits, KeptRows, no_hits
from streamer.index.postings import PARTS, ROWS_MAX, Keys, Places, Postings
from streamer.index.url_versions import url_keys
from streamer.stored.frozen import FrozenKeys, Stopped
from streamer.stored.key_table import KeyTable
from streamer.stored.row_blocks import SLOTS_A_KEY_BLOCK
from streamer.stored.rows import Mask, RowNumbers, StoredRows
from streamer.stored.store import FlushedBlocks, Store

_log = logging.getLogger(__name__)

_CROWD = 8  # more rows under a key than these are compared once, not for each page that has it
_ROWS_AT_ONCE = 4096  # that are compared: their blocks take about 13 MB at the worst
_ROWS_A_PART = 32_768  # whose keys are read at once when an index is opened
_ROUNDS = 4  # in which the table is filled; memory also holds the postings of one round
_ROUND_POSTINGS_MIN = 1 << 22
_POSTING_BYTES = 12  # of a table, about
GENERATIONS_MAX = 28  # about: more are merged before another table is frozen
_FROZEN_AT_THE_END = 1 << 25  # postings of a table: to read the keys again would take a second


class SharedLock:
    """A readers-writer lock; a thread must not take it twice.

    Who waits to have it alone comes before others that would share it, so that a change need not
    wait for a moment without look-ups.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it together with others that share it."""
        with self._changed:
            while self._waiting:
                self._changed.wait()
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it exclusively."""
        with self._changed:
            self._waiting += 1
            try:
                while self._sharing:
                    self._changed.wait()
                yield
            finally:
                self._waiting -= 1
                self._changed.notify_all()


class StoredLookup:
    """The look-ups in an open store; from any thread, except `refresh`.

    `secret` is what URLs are hashed with; an index has the same at each start. Tables and filters
    take `memory_max` bytes; where the filters leave less than a quarter of these, the tables take a
    quarter. Whoever gives a bound opens the store for writing, and closes the look-ups before it.

    Attributes:
        table: the keys that came last; frozen: those that had to leave it.
    """

    def __init__(self, store: Store, memory_max: int | None = None, secret: bytes = b"") -> None:
        self._lock = SharedLock()
        self._store = store
        self._memory_max = memory_max
        self._secret = secret
        self._rows = StoredRows(store)
        self.flushes = 0
        self._flushes_before = store.flushes
        self._first_slot = store.known.first_slot
        self.table = KeyTable()
        self._full: KeyTable | None = None  # a table that freezes
        self.frozen = FrozenKeys(store, self._rows, self._lock.alone)
        self._freezer = ThreadPoolExecutor(1, "freeze")
        self._freezing: Future[None] | None = None
        self._is_awaited = False  # by a table that is full, too
        self._fill()

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of tables and filters."""
        full = self._full
        both = self.table.size_bytes + (full.size_bytes if full is not None else 0)
        return both + self.frozen.note.filter_bytes

    def close(self) -> None:
        """End what goes on in a thread of its own; before the store is closed.

        A large table is frozen, where memory is bounded, so that the next start need not read all
        keys.
        """
        self.frozen.stopped = True
        self._freezer.shutdown()
        is_whole = self._full is None and self.flushes == self._store.flushes - self._flushes_before
        is_large = self.table.count >= _FROZEN_AT_THE_END
        if self._memory_max is not None and is_whole and is_large and self._store.meta is not None:
            with self._lock.alone():
                self._full, self.table = self.table, KeyTable()
            self.frozen.stopped = False
            try:
                self.frozen.freeze(self._full, self._store.meta.next_slot, self._release_flushed)
            except StreamerError as error:  # nothing is lost
                self._store.failed("freeze")
                _log.warning("The next start reads all keys: freezing them failed. %s", error)

    def refresh(self, flushed: FlushedBlocks, *, swept: bool = False) -> None:
        """Add what a flush has written; in the thread that flushes.

        Look-ups go on between the parts of the table. The flush's rows are found from the end on;
        until then they are in the memtable. What the store has dropped, or written over (`swept`),
        is not found any more: once this returns, it is not read.
        """
        for part in range(PARTS):
            with self._lock.alone():
                self.table.add(flushed.postings, postings.segments_of(part))
        with self._lock.alone():
            if len(flushed.rows):
                self._rows.slots.take(flushed.rows, flushed.slots)
            if swept:
                self._rows.reload()
            self.flushes = self._store.flushes - self._flushes_before
        self._drop()
        if self.table.count and self.table.size_bytes > self._tables_max() // 2:
            self.freeze()  # the other half is for the table that freezes

    def _tables_max(self) -> int:
        """Return the bytes that tables may take."""
        if self._memory_max is None:
            return 1 << 62
        return max(self._memory_max - self.frozen.note.filter_bytes, self._memory_max // 4)

    def freeze(self) -> None:
        """Have a thread freeze the table, when it is done with the one before.

        It goes on merging then, unless there are more than GENERATIONS_MAX.

        Raises:
            StoreUnavailable: it could not freeze that, for want of room on the disk.
        """
        self._is_awaited = True
        try:
            self.wait()
        finally:
            self._is_awaited = False
        with self._lock.alone():
            self._full, self.table = self.table, KeyTable()
        self._freezing = self._freezer.submit(self._freeze, self._store.known.next_slot)

    def wait(self) -> None:
        """Wait until nothing is being frozen or merged.

        Raises:
            StoreUnavailable: the disk refused to take it.
        """
        if self._freezing is not None:
            self._freezing.result()
            self._freezing = None

    def _freeze(self, slot: int) -> None:
        """Freeze the table that is full, which has all rows before a slot that are not frozen."""
        assert self._full is not None, "it stays until it is frozen"
        try:
            self.frozen.freeze(self._full, slot, self._release_flushed)
            while self.frozen.merge():
                if self._is_awaited and len(self.frozen.note.generations) < GENERATIONS_MAX:
                    break
        except Stopped:
            return
        except StreamerError as error:  # `wait` raises it, but that may never be called
            self._store.failed("freeze")
            _log.error("The keys of kept pages could not be frozen. %s", error)
            raise

    def _release_flushed(self) -> None:
        self._full = None

    def _drop(self) -> None:
        """Release what is stored before the store's first slot."""
        first_slot = self._store.known.first_slot
        if first_slot == self._first_slot:
            return
        self._first_slot = first_slot
        with self._lock.alone():
            self._rows.slots.drop(first_slot)
        rows = self._rows.slots.first_row, self._rows.slots.end
        for part in range(PARTS):
            with self._lock.alone():
                self.table.drop(rows, postings.segments_of(part))

    def _fill(self) -> None:
        """Fill the table when the store is opened: by all cores, in a few rounds.

        What is read of the keys in a round is put into the table's segments, and sorted there.
        """
        self.frozen.take_up_runs()
        self._rows.slots.drop(self._first_slot)
        room = self._tables_max() // _POSTING_BYTES
        expected = min(max(0, self._store.known.postings - self.frozen.note.count), room)
        a_round = max(expected // _ROUNDS, _ROUND_POSTINGS_MIN)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            parts: list[Future[Postings]] = []
            count = 0
            slot, rows = self.frozen.note.slot, self._rows.slots.count
            for keys in self._store.keys(_ROWS_A_PART, slot, rows, whole=False):
                self._rows.slots.take(keys.rows, keys.slots)
                parts.append(pool.submit(postings.part_postings, keys.keys, keys.masks, keys.rows))
                count += keys.keys.size
                if count >= a_round:
                    self._fill_segments(pool, parts, expected)
                    parts, count = [], 0
                    if self.table.count > room:  # the bound was higher before
                        self._full, self.table = self.table, KeyTable()
                        blocks = -(-int(keys.slots[-1] + 1) // SLOTS_A_KEY_BLOCK)
                        self._freeze(blocks * SLOTS_A_KEY_BLOCK)
            self._fill_segments(pool, parts, expected)

    def _fill_segments(
        self, pool: ThreadPoolExecutor, parts: Sequence[Future[Postings]], expected: int
    ) -> None:
        if parts:
            found = [part.result() for part in parts]
            each = [postings.segments_of(part) for part in range(PARTS)]
            list(pool.map(lambda part: self.table.fill(found, part, expected), each))

    def find(self, keys: Keys, flushes: int = 0) -> Hits:
        """Return the postings of `keys`, given as [page, key]; the store has so many flushes."""
        flat = np.ascontiguousarray(keys).reshape(-1)
        self._rows.begin_batch()
        with self._lock.shared():
            assert self.flushes >= flushes, f"{self.flushes} flushes of {flushes}"
            seen = self.flushes
            places, rows = self._find(flat, keys.shape[1])
            if not len(places):
                return no_hits(seen)
            posted = self._read_posted(flat, places, rows)
        if not posted.all():
            places, rows = places[posted], rows[posted]
        starts = _starts(places)
        return Hits(places[starts], np.append(starts, len(rows)), rows, seen)

    def _find(self, keys: Keys, own_keys: int) -> tuple[Places, RowNumbers]:
        """Return (the place of a key, a row) as all tables have them: by place, rows ascending."""
        end = self._rows.slots.end
        parts = []
        for table in (self.table, self._full):
            if table is not None:
                at, numbers = table.find(keys)
                parts.append((at, postings.rows_before(end, numbers)))
        parts.append(self.frozen.find(keys, own_keys))
        places, rows = np.concatenate(parts, axis=1)
        known = self._rows.known(rows)
        if not known.all():  # a flush is being added, or was dropped
            places, rows = places[known], rows[known]
        if end <= ROWS_MAX and not any(len(part[0]) for part in parts[1:]):
            return places, rows  # they are in order
        order = np.lexsort((rows, places))
        return places[order], rows[order]

    def _read_posted(self, keys: Keys, places: Places, rows: RowNumbers) -> Mask:
        """Return which rows are posted under the key that led to them."""
        starts = _starts(places)
        lengths = np.diff(starts, append=len(places))
        crowds = np.flatnonzero(lengths > _CROWD)
        # Where a key comes again, its rows are those of the first place that has it.
        crowded = keys[places[starts[crowds]]]
        _, firsts, again = np.unique(crowded, return_index=True, return_inverse=True)
        compared_at = starts.copy()
        compared_at[crowds] = starts[crowds[firsts]][again]
        compared = np.flatnonzero(np.repeat(compared_at == starts, lengths))
        posted = np.empty(len(places), np.bool_)
        for begin in range(0, len(compared), _ROWS_AT_ONCE):
            part = compared[begin : begin + _ROWS_AT_ONCE]
            posted[part] = self._rows.posted(rows[part], keys[places[part]])
        return posted[np.arange(len(places)) + np.repeat(compared_at - starts, lengths)]

    @property
    def first_row(self) -> int | None:
        """Return the lowest row that is there."""
        return self._rows.slots.first_row if self._rows.slots.count else None

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        with self._lock.shared():
            return self._rows.rows(rows)

    def shingles(self, rows: RowNumbers) -> list[bytes]:
        """Return the sets of shingles of these rows; none of one that has been dropped."""
        with self._lock.shared():
            return self._rows.shingles(rows)

    def urls(self, urls: list[bytes], flushes: int = 0) -> FoundUrls:
        """Return the versions of URLs in the store, which has so many flushes."""
        assert self.flushes >= flushes, f"{self.flushes} flushes of {flushes}"
        seen = self.flushes  # it may have one more when it is read: what that has is in the shard
        keys = url_keys(urls, self._secret)
        return FoundUrls(urls, keys, self._store.url_versions(keys), seen)


def _starts(places: Places) -> Places:
    """Return where each place's postings begin; places ascend."""
    return np.flatnonzero(np.diff(places, prepend=-1))
