"""Read kept rows by their numbers, a block at a time, from the slots that a flush gave them.

A batch asks for the same rows more than once: whether they are posted under a key, and for the data
that a verdict needs. So the blocks of a batch are cached until the next batch.

Row numbers have gaps where pages were forgotten before a flush, and slots where a flush ends within
a block. So all rows are described by runs, sorted by their first row. One binary search finds a
row, however many flushes there are.
"""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.forgetting import Forgetting
from streamer.index.ports import BEFORE_ALL, KeptRows
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored import row_blocks
from streamer.stored.store import Store

ROWS_A_PART = 4096
BLOCKS_KEPT = 4096  # of a batch, about 13 MB

RowNumbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class RowSlots:
    """The slots of rows: a run is rows [first, end) in consecutive slots.

    Any thread may ask; one at a time may `take`, `put` and `drop`. Rows before `dropped_end` may
    have been dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.dropped_end = 0
        # Runs in memory that grows by doubling, after one that no row is in.
        self._room = np.array([[-1], [-1], [0]]).repeat(64, axis=1)
        self._used = 1

    @property
    def _runs(self) -> RowNumbers:
        """Return the runs, by their first rows: these, their ends, and the first slots."""
        return self._room[:, 1 : self._used]

    def _write(self, at: int, runs: RowNumbers) -> None:
        """Write runs over those from the place `at` on; the last is the last."""
        self._used = end = at + runs.shape[1]
        if end > self._room.shape[1]:
            room = np.empty((3, 2 * end - at), np.int64)
            self._room = np.concatenate((self._room[:, :at], room), axis=1)
        self._room[:, at:end] = runs

    def take(self, rows: RowNumbers, slots: RowNumbers) -> None:
        """Take up rows, and the slots that they have; slots ascend."""
        gaps = np.flatnonzero((np.diff(rows) != 1) | (np.diff(slots) != 1)) + 1
        starts, ends = np.append(0, gaps), np.append(gaps, len(rows))
        self.put(np.stack((rows[starts], rows[ends - 1] + 1, slots[starts])))

    def put(self, runs: RowNumbers) -> None:
        """Take up runs: their first rows, their ends, and the first slots, int64[3, n]."""
        if not runs.shape[1]:
            return
        with self._lock:
            # Only the last of those that are there come after one of the new ones.
            at = 1 + int(np.searchsorted(self._runs[0], runs[0].min()))
            both = np.concatenate((self._room[:, at : self._used], runs), axis=1)
            self._write(at, both[:, np.argsort(both[0], kind="stable")])

    def drop(self, first_slot: int) -> None:
        """Drop the rows in slots before this one."""
        with self._lock:
            first, end, slot = self._runs
            length = np.clip(first_slot - slot, 0, end - first)
            self.dropped_end = max(self.dropped_end, int((first + length).max(initial=0)))
            left = np.stack((first + length, end, slot + length))
            self._write(1, left[:, left[0] < end])

    def runs_from(self, slot: int, end: int) -> RowNumbers:
        """Return the runs in slots from this one on, before the end, as `put` takes them."""
        with self._lock:
            runs = self._runs
            return runs[:, (runs[2] >= slot) & (runs[2] < end)]

    @property
    def count(self) -> int:
        """Return how many rows were taken up, and not dropped."""
        first, end, _ = self._runs
        return int((end - first).sum())

    @property
    def first_row(self) -> int:
        """Return the lowest row that is there; where there is none, the one after the dropped."""
        firsts = self._runs[0]
        return int(firsts[0]) if len(firsts) else self.dropped_end

    @property
    def end(self) -> int:
        """Return the row after the last that was taken up."""
        return int(self._room[1, self._used - 1]) if self._used > 1 else self.dropped_end

    def of(self, rows: RowNumbers) -> RowNumbers:
        """Return the slot of each row, -1 of one that was not taken up, or dropped."""
        with self._lock:
            first, end, slot = self._room[:, : self._used]
            run = np.searchsorted(first, rows, side="right") - 1
            slots: RowNumbers = slot[run] + rows - first[run]
            slots[rows >= end[run]] = -1
            return slots


class Blocks(NamedTuple):
    """Blocks that were read: their numbers, ascending, their bytes, and where each begins."""

    numbers: RowNumbers
    data: npt.NDArray[np.uint8]
    starts: RowNumbers


_NO_BLOCKS = Blocks(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int64))


class StoredRows:
    """The rows in an open store, as far as `slots` has them; from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._local = threading.local()
        self.slots = RowSlots()

    def reload(self) -> None:
        """Drop all blocks that threads have cached; while none of them reads."""
        self._local = threading.local()

    def known(self, rows: RowNumbers) -> Mask:
        """Return which rows are there: added, and not dropped."""
        return self.slots.of(rows) >= 0

    def posted(self, rows: RowNumbers, keys: npt.NDArray[np.uint64]) -> Mask:
        """Return whether each row is posted under keys[i], by the lower half of the key."""
        slots = self._slots_of(rows)
        there = slots >= 0
        posted = np.zeros(len(rows), np.bool_)
        posted[there] = row_blocks.agree(self._read(slots[there]), keys[there])
        return posted

    def halves(self, rows: RowNumbers, keys: int) -> npt.NDArray[np.uint32]:
        """Return the lower halves of so many keys of rows; of one that was dropped, zeros."""
        slots = self._slots_of(rows)
        there = slots >= 0
        halves = np.zeros((len(rows), keys), np.uint32)
        halves[there] = row_blocks.gather_halves(self._read(slots[there]), keys)
        return halves

    def begin_batch(self) -> None:
        """Forget the blocks of the last batch in this thread."""
        self._local.blocks = _NO_BLOCKS

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        slots = self._slots_of(rows)
        there = np.flatnonzero(slots >= 0)
        found = row_blocks.gather_rows(self._read(slots[there]))
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

    def shingles(self, rows: RowNumbers) -> list[bytes]:
        """Return the sets of shingles of these rows; none of one that has been dropped."""
        slots = self._slots_of(rows)
        found = iter(self._store.shingles(slots[slots >= 0].tolist()))
        return [next(found) if slot >= 0 else b"" for slot in slots.tolist()]

    def _slots_of(self, rows: RowNumbers) -> RowNumbers:
        """Return the slot of each row, -1 of one that was dropped."""
        slots = self.slots.of(rows)
        missing = rows[(slots < 0) & ((rows < 0) | (rows >= self.slots.dropped_end))]
        assert not len(missing), f"row {missing[0]} is in no flush"
        return slots

    def _read(self, slots: RowNumbers) -> row_blocks.RowPlaces:
        """Read the blocks of slots, if they are not there yet."""
        blocks: Blocks = getattr(self._local, "blocks", _NO_BLOCKS)
        numbers, places = np.divmod(slots, row_blocks.ROWS_A_BLOCK)
        new = np.setdiff1d(numbers, blocks.numbers)
        if len(blocks.numbers) + len(new) > BLOCKS_KEPT:
            blocks, new = _NO_BLOCKS, np.unique(numbers)
        if len(new):
            data, starts = row_blocks.join_blocks(self._store.row_blocks(new.tolist()))
            blocks = self._local.blocks = _join(blocks, Blocks(new, data, starts[:-1]))
        at = np.searchsorted(blocks.numbers, numbers)
        return row_blocks.RowPlaces(blocks.data, blocks.starts[at], places)


def _join(some: Blocks, others: Blocks) -> Blocks:
    if not len(some.numbers):
        return others
    numbers = np.concatenate((some.numbers, others.numbers))
    starts = np.concatenate((some.starts, others.starts + len(some.data)))
    order = np.argsort(numbers)
    return Blocks(numbers[order], np.concatenate((some.data, others.data)), starts[order])


class ScannedRows(NamedTuple):
    """Some rows, the lower halves of their keys, and their slots.

    Halves are uint32[n, keys]; 0: not posted.
    """

    rows: KeptRows
    halves: npt.NDArray[np.uint32]
    slots: RowNumbers


def scan_rows(store: Store, forgetting: Forgetting | None = None) -> Iterator[ScannedRows]:
    """Yield the rows that have not expired, some thousand at a time, as they came.

    Those that `forgetting` hides are left out.
    """
    for part in store.keys(ROWS_A_PART, whole=False):
        rows = row_blocks.rows_at(part.slots, store.row_blocks)
        found = row_blocks.gather_rows(rows)
        halves = row_blocks.gather_halves(rows, part.keys.shape[1])
        if forgetting is not None:
            found = forgetting.hide(found, part.rows)
        left = store.known.horizon.has(found.times, part.rows)
        left &= found.times > BEFORE_ALL
        yield ScannedRows(found.take(np.flatnonzero(left)), halves[left], part.slots[left])
