"""The memtable: the states of its entries, and what finds them."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamer.index.memtable import FLUSHED, FREE, KEPT, Memtable, add_posting, entry_of, find_slot
from streamer.index.ports import NO_HORIZON
from streamer.kernel import uint64

OWN_KEYS = 3
# By state: where it leads to be forgotten, when a flush begins, and when that one ends.
LIFECYCLE = {KEPT: (FREE, FLUSHED, KEPT), FLUSHED: (FREE, None, None), FREE: (FREE, FREE, None)}


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


class Lifecycle(RuleBasedStateMachine):
    """Entries that are kept, forgotten and flushed in any order, next to the table of states."""

    def __init__(self) -> None:
        super().__init__()
        self.memtable = Memtable(OWN_KEYS, 16)
        self.expected: dict[int, int] = {}  # states by row
        self.keys: dict[int, list[int]] = {}
        self.row = 0
        self.is_flushing = False

    @rule(keys=st.lists(st.integers(1, 6), min_size=3, max_size=3, unique=True))
    def keep(self, keys: list[int]) -> None:
        insert(self.memtable, self.row, keys)
        self.expected[self.row], self.keys[self.row] = KEPT, keys
        self.row += 1

    @rule(which=st.sets(st.integers(0, 30)))
    def forget(self, which: set[int]) -> None:
        rows = self.memtable.rows[: self.memtable.count].tolist()
        self.memtable.forget([place for place, row in enumerate(rows) if row in which])
        self._lead(0, which & self.expected.keys())

    @precondition(lambda self: not self.is_flushing)
    @rule()
    def begin_flush(self) -> None:
        flushed = self.memtable.take_kept(b"", NO_HORIZON)
        assert flushed.rows.tolist() == [row for row, at in self.expected.items() if at == KEPT]
        assert flushed.urls == [b"%d" % row for row in flushed.rows.tolist()]
        self._lead(1, set(self.expected))
        self.is_flushing = True

    @precondition(lambda self: self.is_flushing)
    @rule()
    def end_flush(self) -> None:
        self.memtable.retain_unflushed()
        self._lead(2, set(self.expected))
        self.is_flushing = False

    def _lead(self, event: int, rows: set[int]) -> None:
        for row in rows:
            state = LIFECYCLE[self.expected.pop(row)][event]
            if state is not None:
                self.expected[row] = state
        self.expected = dict(sorted(self.expected.items()))

    @invariant()
    def entries_are_in_their_states_and_found_by_their_keys(self) -> None:
        memtable, count = self.memtable, self.memtable.count
        states = dict(
            zip(memtable.rows[:count].tolist(), memtable.states[:count].tolist(), strict=True)
        )
        assert states == self.expected
        for key in range(1, 7):
            assert find(memtable, key) == [row for row in states if key in self.keys[row]]


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


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
