"""The memtable: the newest kept pages, in memory.

Entries are stored in arrays in the order of insertion. A hash table with open addressing maps a key
to its entries, one slot a posting. A slot is one word, so a probe is one memory access: 32 bits of
the key, the entry, and the place of the key among the entry's own. A flush moves the entries to the
store and the key table.

An entry has one of three states, and an event leads from one to the next:

    state      a page is kept   it is forgotten   a flush begins   that flush ends
    (none)     KEPT
    KEPT                        FREE              FLUSHED          KEPT
    FLUSHED                     FREE              -                (none)
    FREE                        FREE              FREE             (none)

An entry that is kept while a flush is written waits for the next one. FLUSHED entries answer
look-ups that do not have the flush yet; FREE ones answer nothing.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.ports import FlushedRows, Horizon
from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, uint64
from streamer.sketch.resemblance import SKETCH_WORDS

HEAD_PAGES = 32_768  # kept pages that make a flush due, unless another number is set
EMPTY_SLOT = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_PLACE_BITS = 6
ENTRIES_MAX = 1 << 26

FREE, KEPT, FLUSHED = range(3)

Words = npt.NDArray[np.uint64]


class MemtableColumns(NamedTuple):
    """The arrays of a memtable's entries, one element an entry, and the hash table that finds them.

    Attributes:
        rows: int64; keys: uint64[n, own keys]; masks: uint64, which keys are posted, by bit.
        sketches: uint64[n, 33]; states: uint8; times: int64.
        table: uint64, a power of two.
    """

    rows: npt.NDArray[np.int64]
    keys: Words
    masks: Words
    sketches: Words
    states: npt.NDArray[np.uint8]
    times: npt.NDArray[np.int64]
    table: Words


@inline_kernel
def find_slot(table: Words, key: int) -> int:
    """Return the slot where the search for `key` begins; the size is a power of two."""
    mixed = uint64(key) * uint64(_GOLDEN)
    slot: int = int64((mixed >> uint64(24)) & uint64(table.shape[0] - 1))
    return slot


@inline_kernel
def entry_of(slot: int, key: int, keys: Words) -> int:
    """Return the entry that a slot posts under `key`, -1 if it posts another one's.

    `keys` are those of all entries, uint64[n, own keys].
    """
    entry = int64(-1)
    if (slot ^ key << uint64(32)) >> uint64(32) == 0:
        posted = int64((slot & uint64(0xFFFFFFFF)) >> uint64(_PLACE_BITS))
        if keys[posted, int64(slot & uint64((1 << _PLACE_BITS) - 1))] == key:
            entry = posted
    return entry


@inline_kernel
def add_posting(table: Words, slot: int, key: int, entry: int, place: int) -> None:
    """Put a posting of an entry's key at `place` into the first free slot from `slot` on."""
    while table[slot] != uint64(EMPTY_SLOT):
        slot = (slot + 1) & (table.shape[0] - 1)
    table[slot] = key << uint64(32) | uint64(entry << _PLACE_BITS | place)


@kernel
def remove_last(table: Words, keys: Words, masks: Words, entry: int) -> None:
    """Take back the postings of the entry that was added last: its slots are free again."""
    for j in range(keys.shape[1]):
        if masks[entry] >> uint64(j) & uint64(1):
            key = keys[entry, j]
            slot = find_slot(table, key)
            posting = key << uint64(32) | uint64(entry << _PLACE_BITS | j)
            while table[slot] != posting:
                slot = (slot + 1) & (table.shape[0] - 1)
            table[slot] = uint64(EMPTY_SLOT)


@kernel
def rebuild_table(table: Words, keys: Words, masks: Words, count: int) -> None:
    """Empty the table and add the postings of the first `count` entries."""
    table[:] = uint64(EMPTY_SLOT)
    for entry in range(count):
        for j in range(keys.shape[1]):
            if masks[entry] >> uint64(j) & uint64(1):
                key = keys[entry, j]
                add_posting(table, find_slot(table, key), key, entry, j)


class Memtable:
    """Arrays of the entries, and their hash table; `own_keys` is how many keys a page has here.

    A forgotten entry is only marked; it leaves at the next flush.
    """

    def __init__(self, own_keys: int, capacity: int) -> None:
        self.own_keys = own_keys
        self.count = 0
        self.urls: list[bytes] = []
        self.shingles: list[bytes] = []  # sets of the entries, if the index has them
        self._allocate(max(capacity, 16))

    def _allocate(self, capacity: int) -> None:
        slots = 1 << max(6, (2 * capacity * self.own_keys - 1).bit_length())
        self.rows = np.empty(capacity, np.int64)
        self.refs = np.empty(capacity, np.uint64)
        self.keys = np.empty((capacity, self.own_keys), np.uint64)
        self.masks = np.empty(capacity, np.uint64)
        self.sketches = np.empty((capacity, SKETCH_WORDS), np.uint64)
        self.states = np.empty(capacity, np.uint8)
        self.times = np.empty(capacity, np.int64)
        self.table = np.full(slots, EMPTY_SLOT, np.uint64)

    @property
    def capacity(self) -> int:
        """Return the entries that fit."""
        return len(self.rows)

    def columns(self) -> MemtableColumns:
        """Return what the judging kernel works on."""
        return MemtableColumns(
            self.rows, self.keys, self.masks, self.sketches, self.states, self.times, self.table
        )

    def _columns(self) -> Sequence[npt.NDArray[Any]]:
        return self.refs, *self.columns()[:-1]

    def reserve(self, entries: int) -> None:
        """Make room for so many more entries, by doubling where the memtable may not be flushed."""
        if self.count + entries <= self.capacity:
            return
        assert self.count + entries <= ENTRIES_MAX, f"{self.count} pages that no flush takes"
        old, count = self._columns(), self.count
        self._allocate(max(self.count + entries, 2 * self.capacity))
        for grown, column in zip(self._columns(), old, strict=True):
            grown[:count] = column[:count]
        rebuild_table(self.table, self.keys, self.masks, count)

    def remove_last(self, entries: int = 1) -> None:
        """Remove so many entries, those that were added last."""
        count = self.count - entries
        for entry in reversed(range(count, self.count)):
            remove_last(self.table, self.keys, self.masks, entry)
        self.count = count
        del self.urls[count:], self.shingles[count:]

    def retain(self, places: npt.NDArray[np.int64]) -> None:
        """Keep only the entries at `places` (ascending), in their order."""
        for column in self._columns():
            column[: len(places)] = column[places]
        self.urls = [self.urls[i] for i in places.tolist()]
        if self.shingles:
            self.shingles = [self.shingles[i] for i in places.tolist()]
        self.count = len(places)
        rebuild_table(self.table, self.keys, self.masks, self.count)

    def forget(self, places: Sequence[int]) -> None:
        """Have the entries at `places` answer nothing from now on."""
        self.states[[*places]] = FREE

    def take_kept(self, state: bytes, horizon: Horizon) -> FlushedRows:
        """Mark the kept entries as flushed, and return them, with the state of their shard."""
        is_kept = self.states[: self.count] == KEPT
        kept = slice(self.count) if is_kept.all() else np.flatnonzero(is_kept)
        self.states[kept] = FLUSHED
        return FlushedRows(
            self.rows[kept],
            self.refs[kept],
            self.sketches[kept],
            self.keys[kept],
            self.masks[kept],
            list(itertools.compress(self.urls, is_kept.tolist())),
            self.times[kept],
            state,
            horizon,
            list(itertools.compress(self.shingles, is_kept.tolist())),
        )
