"""Frozen keys: what a table held is found again, in any generations, after merges and openings."""

import itertools
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamer.stored.generations
from streamer.errors import StoreDamaged
from streamer.index.codec import BANDS
from streamer.index.postings import (
    KEYS_END,
    ROWS_MAX,
    SEGMENTS,
    Keys,
    Places,
    Postings,
    Probed,
    cut,
    find_in_blocks,
    pack,
    probe,
    sort_postings,
    unpack,
)
from streamer.stored.frozen import FrozenKeys, Stopped
from streamer.stored.generations import MERGED, STEP_BYTES, Generation, read_generation
from streamer.stored.key_table import KeyTable
from streamer.stored.rows import RowSlots, StoredRows
from streamer.stored.store import Store
from tests.helpers.stored_rows import flush

Posting = tuple[int, int]
SHARED_BITS = 24  # of a key that its words do not have
few_keys = st.sampled_from([0, 1 << SHARED_BITS, 2**63, 2**64 - 1, (1 << 56) - 1, 7 << 60])
postings = st.tuples(few_keys | st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 2))
tables = st.lists(st.lists(postings, min_size=1, max_size=60), min_size=1, max_size=9)


def packed(listed: list[Posting]) -> Postings:
    keys = np.array([[key] for key, _ in listed], np.uint64)
    return sort_postings(keys, np.ones(len(keys), np.uint64), np.array([row for _, row in listed]))


def table_of(listed: list[Posting]) -> KeyTable:
    table = KeyTable()
    table.add(packed(listed), range(SEGMENTS))
    return table


@contextmanager
def a_store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder, "store"))
        flush(store, range(1))
        yield store
        store.close()


def freeze(frozen: FrozenKeys, listed: list[Posting]) -> None:
    frozen.freeze(table_of(listed), frozen.note.slot + 512, lambda: None)


class AnySlots(RowSlots):
    """Rows in any slots; those before the first are dropped."""

    first_row = 0
    runs = np.array([[0], [ROWS_MAX], [0]])

    def runs_from(self, _slot: int, _end: int) -> Places:
        return self.runs


class Unmarked(StoredRows):
    """Rows that have no halves of keys, so that each key is read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.slots = AnySlots()

    def halves(self, rows: Places, keys: int) -> npt.NDArray[np.uint32]:
        return np.zeros((len(rows), keys), np.uint32)


def opened(store: Store) -> FrozenKeys:
    return FrozenKeys(store, Unmarked(store), nullcontext)


def found(frozen: FrozenKeys, keys: Keys) -> list[Posting]:
    places, rows = frozen.find(keys, 1)
    return sorted(zip(places.tolist(), rows.tolist(), strict=True))


def expected(listed: list[Posting], keys: Keys) -> list[Posting]:
    by_key = defaultdict(list)
    for key, row in listed:
        by_key[key >> SHARED_BITS].append(row)
    return sorted((i, row) for i, key in enumerate(keys.tolist()) for row in by_key[key >> 24])


@contextmanager
def steps_of(step_bytes: int) -> Iterator[None]:
    """Have merges write so many bytes of blocks in a step."""
    with mock.patch.object(streamer.stored.generations, "STEP_BYTES", step_bytes):
        yield


some_bytes = st.sampled_from([40, 200, STEP_BYTES])


@settings(max_examples=20, deadline=None)
@given(tables, some_bytes, st.integers(0, 9))
def test_what_was_frozen_is_found_while_it_is_merged_and_in_an_index_opened_again(
    frozen_tables: list[list[Posting]], step_bytes: int, steps_max: int
) -> None:
    asked = np.array([key for table in frozen_tables for key, _ in table] + [5 << 40], np.uint64)
    with a_store() as store, steps_of(step_bytes):
        frozen = opened(store)
        until: list[Posting] = []
        for table in frozen_tables:
            freeze(frozen, table)
            until += table
            assert found(frozen, asked) == expected(until, asked)
            steps = 0
            while steps < steps_max and frozen.merge():
                steps += 1
                assert found(frozen, asked) == expected(until, asked)
                assert frozen.note.count == len(until)
            again = opened(store)
            assert found(again, asked) == expected(until, asked)
            for each in again.note.generations:
                assert sum(read_generation(store, each)), "it is as it was noted"
        while frozen.merge():
            pass
        assert len(frozen.note.generations) < 2 * MERGED
        assert all(whole(each) for each in frozen.note.generations)
        assert found(opened(store), asked) == expected(until, asked)
        assert stored_generations(store) == noted_generations(frozen)


def whole(generation: Generation) -> bool:
    return (generation.low, generation.high) == (0, KEYS_END)


@settings(max_examples=12, deadline=None)
@example(15, 0, STEP_BYTES)  # a merge is noted, but what was merged is not removed yet
@example(13, 0, 200)  # the first step is written, but not noted
@example(16, 0, 200)  # a later one
@given(st.integers(0, 45), st.integers(0, 2**32), some_bytes)
def test_a_step_that_fails_at_any_call_leaves_all_or_what_was_there(
    calls: int, seed: int, step_bytes: int
) -> None:
    """A kill looks as this does: what was written stays, and nothing is undone."""
    random = np.random.default_rng(seed)
    keys = random.integers(0, 2**64, (6, 40), np.uint64)
    listed = [
        [(key, 100 * i + j) for j, key in enumerate(own)] for i, own in enumerate(keys.tolist())
    ]
    asked = keys.reshape(-1)
    with a_store() as store, steps_of(step_bytes), pytest.MonkeyPatch.context() as patch:
        left = itertools.count(calls, -1)

        def counted(name: str) -> None:
            inner = getattr(store, name)

            def call(*args: object, **named: object) -> object:
                if next(left) == 0:
                    raise Stopped
                return inner(*args, **named)

            patch.setattr(store, name, call)

        for name in ("write_bands", "put_note", "drop_bands"):
            counted(name)
        frozen, done = opened(store), 0
        while done < len(listed):
            try:
                freeze(frozen, listed[done])
                done += 1
                while frozen.merge():
                    pass
            except Stopped:
                frozen = opened(store)
                noted = len(frozen.note.runs)
                assert noted in (done, done + 1), "nothing is noted before it is written"
                done = noted
            all_of_it = [each for own in listed[:done] for each in own]
            assert found(frozen, asked) == expected(all_of_it, asked)
            assert found(opened(store), asked) == found(frozen, asked)
        patch.undo()
        freeze(frozen, [(1 << 40, 3)])
        while frozen.merge():
            pass
        assert stored_generations(store) == noted_generations(frozen), "what was begun is gone"


RUNS = (1 << 24) - 1


def stored_blocks(store: Store) -> set[int]:
    family = store._to_write()._families[BANDS]  # noqa: SLF001 - nobody else asks for all
    return {int.from_bytes(key[1:], "big") for key in family.keys()}  # noqa: SIM118 - no dict


def stored_generations(store: Store) -> set[int]:
    return {block >> 32 for block in stored_blocks(store)} - {RUNS}


def noted_generations(frozen: FrozenKeys) -> set[int]:
    return {each.number for each in frozen.note.generations}


def test_a_block_that_is_missing_is_refused() -> None:
    with a_store() as store:
        frozen = opened(store)
        freeze(frozen, [(1 << 40, 3)])
        store.drop_bands([(0, 1 << 40)])
        with pytest.raises(StoreDamaged, match="of its bands is missing"):
            frozen.find(np.array([1 << 40], np.uint64), 1)
        with pytest.raises(StoreDamaged, match="of its bands is missing"):
            opened(store)


# ---- kernels, and what they are in plain Python ------------------------------------------------

any_words = st.builds(
    lambda tag, row: tag << 32 | row,
    st.integers(0, 2**32 - 1) | st.integers(0, 9).map(lambda tag: tag << 24),
    st.integers(0, ROWS_MAX - 1),
)
words = st.lists(any_words, min_size=1, max_size=300).map(
    lambda listed: np.array(sorted(listed), np.uint64)
)


def mixed(word: int) -> int:
    """Return MurmurHash3's finaliser: what it makes of a key of eight bytes tells."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word ^= word >> 33
        word = word * factor % 2**64
    return word ^ word >> 33


@given(words, st.integers(1, SEGMENTS - 1))
def test_a_filter_has_six_bits_of_each_tag_in_one_line_and_more_of_one_that_is_shared(
    listed: Keys, segment: int
) -> None:
    filled, _ = cut_words(listed, segment, blocks=1, lines=3)
    bits = set()
    for tag, count in Counter((listed >> np.uint64(32)).tolist()).items():
        line, chosen = 3 * segment + (tag * 3 >> 32), mixed(segment << 32 | tag)
        for each in [chosen, mixed(chosen)][: min(count, 2)]:
            bits |= {512 * line + (each >> 9 * j & 511) for j in range(6)}
    made = np.unpackbits(filled.view(np.uint8), bitorder="little")
    assert set(np.flatnonzero(made).tolist()) == bits


def cut_words(listed: Keys, segment: int, *, blocks: int, lines: int) -> tuple[Keys, list[int]]:
    """Cut words of a segment into blocks; return the filter and where each block ends."""
    filled = np.zeros(8 * SEGMENTS * lines, np.uint64)
    limits = np.zeros(2 * blocks, np.int64)  # of the segment before, which has no words, too
    starts = np.array([0, 0, len(listed)])
    begin = segment - 1, (segment - 1) * blocks
    cut(listed, starts, begin, blocks, lines, filled.ctypes.data, limits)
    assert limits[:blocks].tolist() == [0] * blocks
    return filled, limits[blocks:].tolist()


@given(words, st.integers(1, 9))
def test_a_key_tells_in_which_block_its_words_are(listed: Keys, blocks: int) -> None:
    _, limits = cut_words(listed, 5, blocks=blocks, lines=1)
    homes = [(word >> 32) * blocks >> 32 for word in listed.tolist()]
    assert limits == [sum(home <= block for home in homes) for block in range(blocks)]


@given(words, st.integers(1, 300), st.integers(0, 2**32), st.data())
def test_packed_words_are_unpacked_and_found(
    listed: Keys, blocks: int, first_row: int, data: st.DataObject
) -> None:
    rows = (listed & np.uint64(0xFFFFFFFF)).astype(np.int64)
    generation = Generation(
        0, 0, len(listed), min(first_row, *rows.tolist()), int(rows.max()), blocks, 1
    )
    _, ends = cut_words(listed, 1, blocks=blocks, lines=1)
    limits, out_limits = np.array([0, *ends]), np.zeros(blocks + 1, np.int64)
    out = np.zeros(9 * len(listed) + blocks + 9, np.uint8)
    pack(listed, limits, generation.shape, 3 * blocks, out, out_limits)
    assert generation.shape.bits * len(listed) <= 8 * out_limits[-1]
    assert 8 * out_limits[-1] <= generation.shape.bits * len(listed) + 7 * blocks
    words, word_limits = np.zeros(len(listed), np.uint64), np.zeros(blocks + 1, np.int64)
    unpack(out, out_limits, generation.shape, 3 * blocks, words, word_limits)
    assert words.tolist() == listed.tolist()
    assert word_limits.tolist() == limits.tolist()

    tags = data.draw(st.lists(st.sampled_from([*(listed >> np.uint64(32)).tolist(), 7])))
    keys, places = np.array([tag << SHARED_BITS for tag in tags], np.uint64), np.arange(len(tags))
    homes = np.array([tag * blocks >> 32 for tag in tags], np.int64)
    probed = Probed(places, np.zeros(len(tags), np.int64), homes, places)
    found_at, found_rows = np.empty((2, 1000), np.int64)
    shapes = np.array([generation.shape])
    count = find_in_blocks(out, out_limits, shapes, keys, probed, homes, (found_at, found_rows))
    wanted = [
        (i, word & 0xFFFFFFFF)
        for i, tag in enumerate(tags)
        for word in listed.tolist()
        if word >> 32 == tag
    ]
    assert count == len(wanted)
    assert [*zip(found_at[:count].tolist(), found_rows[:count].tolist(), strict=True)][
        :1000
    ] == wanted[:1000]


def test_a_filter_takes_one_key_in_two_hundred_for_one_that_is_there() -> None:
    random = np.random.default_rng(1)
    with a_store() as store:
        frozen = opened(store)
        keys = random.integers(0, 2**64, 300_000, np.uint64)
        table = KeyTable()
        table.add(
            sort_postings(keys[:, None], np.ones(len(keys), np.uint64), np.arange(300_000)),
            range(SEGMENTS),
        )
        frozen.freeze(table, 512, lambda: None)
        others = random.integers(0, 2**64, 300_000, np.uint64)
        assert len(frozen._probe(others).places) < 300_000 / 150  # noqa: SLF001 - a look-up tells of no miss
        assert len(frozen._probe(keys).places) == len(keys)  # noqa: SLF001 - as above
        few = Probed(*np.zeros((4, 3), np.int64))
        assert probe(*frozen._filters[:5], keys, few) == len(keys)  # noqa: SLF001 - as above
        assert few.places.tolist() == [0, 1, 2]
