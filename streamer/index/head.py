"""The head: the newest kept pages, and every undecided one, in memory.

Entries lie in arrays in the order of insertion; a hash table with open addressing leads from a key
to its entries, one slot a posting. The head is our memtable: a flush moves its kept entries to the
store and the key table, and only undecided ones stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamer.kernel import inline_kernel, int32, int64, kernel, uint64
from streamer.sketch.compact import SKETCH_WORDS

HEAD_PAGES = 32_768  # kept pages that make a flush due, unless another number is set
EMPTY_SLOT = -1
_GOLDEN = 0x9E3779B97F4A7C15


@inline_kernel
def find_slot(entries: npt.NDArray[np.int32], key: int) -> int:
    """Return the slot where the search for `key` begins; the size is a power of two."""
    mixed = uint64(key) * uint64(_GOLDEN)
    slot: int = int64((mixed >> uint64(24)) & uint64(entries.shape[0] - 1))
    return slot


@inline_kernel
def add_posting(
    table_keys: npt.NDArray[np.uint64], entries: npt.NDArray[np.int32], key: int, entry: int
) -> None:
    """Put a posting into the first free slot; the table is never full."""
    slot = find_slot(entries, key)
    while entries[slot] >= 0:
        slot = (slot + 1) & (entries.shape[0] - 1)
    table_keys[slot] = key
    entries[slot] = int32(entry)


@kernel
def rebuild_table(
    table_keys: npt.NDArray[np.uint64],
    entries: npt.NDArray[np.int32],
    keys: npt.NDArray[np.uint64],
    masks: npt.NDArray[np.uint64],
    count: int,
) -> None:
    """Empty the table and add the postings of the first `count` entries."""
    entries[:] = EMPTY_SLOT
    for entry in range(count):
        for j in range(keys.shape[1]):
            if masks[entry] >> uint64(j) & uint64(1):
                add_posting(table_keys, entries, keys[entry, j], entry)


class Head:
    """Arrays of the head's entries, and their table; `own_keys` is how many keys a page has here.

    A dropped entry is only marked; it leaves at the next flush.
    """

    def __init__(self, own_keys: int, capacity: int) -> None:
        self.own_keys = own_keys
        self.count = 0
        self.urls: list[bytes] = []
        self._allocate(max(capacity, 16))

    def _allocate(self, capacity: int) -> None:
        slots = 1 << max(6, (2 * capacity * self.own_keys - 1).bit_length())
        self.rows = np.empty(capacity, np.int64)
        self.refs = np.empty(capacity, np.uint64)
        self.keys = np.empty((capacity, self.own_keys), np.uint64)
        self.masks = np.empty(capacity, np.uint64)
        self.sketches = np.empty((capacity, SKETCH_WORDS), np.uint64)
        self.states = np.empty(capacity, np.uint8)
        self.table_keys = np.empty(slots, np.uint64)
        self.table_entries = np.full(slots, EMPTY_SLOT, np.int32)

    @property
    def capacity(self) -> int:
        """Return the entries that fit."""
        return len(self.rows)

    def arrays(
        self,
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint8],
    ]:
        """Return the columns that the placing kernel works on."""
        return self.rows, self.keys, self.masks, self.sketches, self.states

    def table(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
        """Return the hash table's columns."""
        return self.table_keys, self.table_entries

    def _columns(self) -> Sequence[npt.NDArray[Any]]:
        return (self.refs, *self.arrays())

    def reserve(self, entries: int) -> None:
        """Make room for so many more entries, by doubling where the head may not be flushed."""
        if self.count + entries <= self.capacity:
            return
        old, count = self._columns(), self.count
        self._allocate(max(self.count + entries, 2 * self.capacity))
        for grown, column in zip(self._columns(), old, strict=True):
            grown[:count] = column[:count]
        rebuild_table(self.table_keys, self.table_entries, self.keys, self.masks, count)

    def retain(self, places: npt.NDArray[np.int64]) -> None:
        """Keep only the entries at `places` (ascending), in their order."""
        for column in self._columns():
            column[: len(places)] = column[places]
        self.urls = [self.urls[i] for i in places.tolist()]
        self.count = len(places)
        rebuild_table(self.table_keys, self.table_entries, self.keys, self.masks, self.count)
