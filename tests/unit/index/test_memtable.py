"""The memtable: what finds its entries; the property tests of the index have their states."""

import numpy as np
import pytest

from streamer.index.memtable import KEPT, Memtable, add_posting, entry_of, find_slot
from streamer.machine import uint64

OWN_KEYS = 3


def insert(memtable: Memtable, row: int, keys: list[int], mask: int = 0b111) -> None:
    """Enter a page as the judging kernel does."""
    memtable.reserve(1)
    entry = memtable.count
    memtable.rows[entry], memtable.refs[entry], memtable.times[entry] = row, row, row
    memtable.keys[entry], memtable.masks[entry] = keys, mask
    memtable.sketches[entry], memtable.states[entry] = row, KEPT
    memtable.urls.append(b"%d" % row)
    for place, key in enumerate(keys):
        if mask >> place & 1:
            slot = find_slot(memtable.table, key)
            add_posting(memtable.table, slot, uint64(key), entry, place)
    memtable.count += 1


def find(memtable: Memtable, key: int) -> list[int]:
    """Return the rows that are posted under a key."""
    rows, slot = [], find_slot(memtable.table, key)
    while memtable.table[slot] != np.uint64(0xFFFFFFFFFFFFFFFF):
        if (entry := entry_of(memtable.table[slot], uint64(key), memtable.keys)) >= 0:
            rows.append(int(memtable.rows[entry]))
        slot = (slot + 1) % len(memtable.table)
    return sorted(rows)


def test_only_the_keys_of_its_mask_find_an_entry() -> None:
    memtable = Memtable(OWN_KEYS, 16)
    insert(memtable, 7, [1, 2, 3], mask=0b101)
    assert [find(memtable, key) for key in (1, 2, 3)] == [[7], [], [7]]


def test_entries_that_were_added_last_can_be_taken_back() -> None:
    memtable = Memtable(OWN_KEYS, 16)
    for row in range(3):
        insert(memtable, row, [1, 2, 10 + row])
    memtable.remove_last(2)
    assert (memtable.count, memtable.urls) == (1, [b"0"])
    assert [find(memtable, key) for key in (1, 10, 12)] == [[0], [0], []]


@pytest.mark.parametrize("entries", [16, 17, 100])
def test_a_memtable_grows_and_finds_all_that_it_had(entries: int) -> None:
    memtable = Memtable(OWN_KEYS, 16)
    for row in range(entries):
        insert(memtable, row, [1, 1000 + row, 2000 + row])
    assert memtable.capacity >= entries
    assert find(memtable, 1) == [*range(entries)]
    assert find(memtable, 1000 + entries - 1) == [entries - 1]
