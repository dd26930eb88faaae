"""Frozen keys at their bounds; tests/property/test_frozen_keys.py has what is found by chance."""

import itertools
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamer.errors import StoreDamaged
from streamer.index.codec import BANDS
from streamer.index.postings import KEYS_END, TAG_BITS
from streamer.stored.database import Database
from streamer.stored.frozen import FrozenKeys
from streamer.stored.generations import (
    FILES,
    MERGED,
    STEP_BYTES,
    Generation,
    make_generation,
    next_merge,
    read_generation,
)
from streamer.stored.store import Store
from tests.helpers.stored_rows import flush
from tests.property.test_frozen_keys import (
    AnySlots,
    found,
    freeze,
    noted_generations,
    opened,
    stored_blocks,
    stored_generations,
    table_of,
)
from tests.unit.index.test_shard_expiry import after


@pytest.fixture
def store(store: Store) -> Store:
    flush(store, range(1))
    return store


@pytest.fixture
def frozen(store: Store) -> FrozenKeys:
    return opened(store)


KEYS = np.array([n << 40 for n in range(8)], np.uint64)


def postings(*rows: int) -> list[tuple[int, int]]:
    """Return a posting of each row, under a key of its own."""
    return [(int(key), row) for key, row in zip(KEYS, rows, strict=False)]


def generation(count: int, *, level: int = 0, number: int = 0) -> Generation:
    return Generation(number, level, count, 0, 1, 1, 1)


def slots(frozen: FrozenKeys) -> AnySlots:
    own = frozen._rows.slots  # noqa: SLF001 - which the test has made
    assert isinstance(own, AnySlots)
    return own


def test_of_a_table_the_rows_from_the_first_slot_to_the_last_are_frozen(frozen: FrozenKeys) -> None:
    slots(frozen).runs = np.array([[5], [9], [0]])
    freeze(frozen, postings(4, 5, 8, 9))
    assert found(frozen, KEYS) == [(1, 5), (2, 8)]
    [own] = frozen.note.generations
    assert (own.count, own.first_row, own.last_row) == (2, 5, 8)


def test_a_merge_keeps_the_rows_from_the_first_that_is_left_to_the_last(frozen: FrozenKeys) -> None:
    for row in (9, 10, 11, 12):
        slots(frozen).runs = np.array([[row], [row + 1], [0]])
        freeze(frozen, [(row << 40, row)])
    slots(frozen).first_row = 10
    assert frozen.merge()
    [own] = frozen.note.generations
    assert (own.level, own.number, own.count, own.first_row, own.last_row) == (1, 4, 3, 10, 12)
    keys = np.array([row << 40 for row in range(9, 13)], np.uint64)
    assert found(frozen, keys) == [(1, 10), (2, 11), (3, 12)]
    assert not frozen.merge()
    assert frozen.note.next == 5


def test_so_many_generations_of_a_level_are_merged_the_lowest_level_first() -> None:
    few, many = [generation(1)] * (MERGED - 1), [generation(1)] * (MERGED + 1)
    above = [generation(1 << 40, level=1)] * MERGED
    assert next_merge([*few, *above[1:]]) == ([], None)
    assert next_merge([*few, *above]) == (above, None)
    assert next_merge([*above, *many]) == (many, None)


def test_what_a_merge_began_with_goes_on_being_merged_without_what_came_later() -> None:
    begun = [msgspec.structs.replace(each, low=9) for each in [generation(1)] * MERGED]
    into = msgspec.structs.replace(generation(1, level=1), high=9)
    later = [generation(1)] * MERGED
    assert next_merge([*later, *begun, into]) == (begun, into)
    three = [generation(1, level=1)] * (MERGED - 1)
    assert next_merge([*three, into]) == ([], None), "what is not whole is not merged"


def test_a_merge_that_is_too_large_for_a_step_takes_as_many_as_it_needs() -> None:
    rows, count = (0, 1 << 32), 1 << 30
    new = make_generation(7, 3, count, rows)
    size = count * new.shape.bits // 8
    assert size / 2 < STEP_BYTES * new.steps / 2 < size
    assert new.filter_bytes == new.steps * new.step_filter_bytes
    ranges = [keys for step in range(new.steps) for keys in new.parts(step)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == KEYS_END
    blocks = [new.numbers(*keys) for keys in ranges]
    for (keys, own), (later, following) in itertools.pairwise(zip(ranges, blocks, strict=True)):
        assert (keys[1], own.stop) == (later[0], following.start), "no block is of two parts"


def files_of(store: Store) -> dict[str, int]:
    """Return the files of frozen keys, once those that are not needed are gone; and their sizes."""
    database = store._to_write()  # noqa: SLF001 - a store does not say which files it has
    database._merger.submit(lambda: None).result()  # noqa: SLF001 - as above
    live = database._opened.live_files()  # noqa: SLF001 - as above
    return {each["name"]: each["size"] for each in live if each["start_key"].startswith(BANDS)}


def four_generations(store: Store) -> FrozenKeys:
    frozen = opened(store)
    keys = np.random.default_rng(5).integers(0, 2**64, 4000, np.uint64).tolist()
    for number in range(MERGED):
        freeze(frozen, [(key, number) for key in keys[number::MERGED]])
    return frozen


def test_a_step_of_a_merge_gives_space_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.stored.generations.STEP_BYTES", 1000)
    frozen = four_generations(store)
    before, filters = stored_blocks(store), frozen.note.filter_bytes
    assert frozen.merge()
    *old, new = frozen.note.generations
    size = KEYS_END // new.steps
    assert [(each.low, each.high) for each in old] == [(size, KEYS_END)] * MERGED
    assert (new.low, new.high, new.level) == (0, size, 1)
    gone = before - stored_blocks(store)
    assert {block >> 32 for block in gone} == {each.number for each in old}
    assert len(gone) >= sum(size * each.blocks >> TAG_BITS for each in old)
    assert frozen.note.filter_bytes <= filters + new.step_filter_bytes
    assert sum(each.count for each in frozen.note.generations) == 4000


def test_what_a_step_has_not_passed_of_a_block_is_there(
    store: Store, frozen: FrozenKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.arange(4000, dtype=np.uint64) << np.uint64(44)  # all of the first segment
    for number in range(MERGED):
        freeze(frozen, [(key, number) for key in keys[number::MERGED].tolist()])
    monkeypatch.setattr("streamer.stored.generations.STEP_BYTES", 60)
    assert frozen.merge()
    assert all(0 < each.count < 1000 for each in frozen.note.generations[:-1])
    for each in frozen.note.generations:
        assert sum(read_generation(store, each))
    assert found(frozen, keys) == [(i, i % MERGED) for i in range(4000)]


def test_a_merge_gives_back_whole_files(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.stored.generations.STEP_BYTES", 2000)
    frozen = four_generations(store)
    files = [files_of(store)]
    while frozen.merge():
        files.append(files_of(store))
    new = sum(len(after.keys() - before.keys()) for before, after in itertools.pairwise(files))
    gone = sum(len(before.keys() - after.keys()) for before, after in itertools.pairwise(files))
    [own] = frozen.note.generations
    assert (new, gone >= 4 * 5) == (own.steps * (FILES + 1), True)


def test_space_that_a_kill_left_comes_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = four_generations(store)
    before = files_of(store)
    with monkeypatch.context() as patch:
        patch.setattr(Database, "_compact", lambda *_: None)  # which is where it is killed
        assert frozen.merge()
        assert before.keys() < files_of(store).keys()
    freeze(opened(store), [(1, 9)])
    assert len(before.keys() & files_of(store).keys()) == MERGED, "the runs of rows"


def test_a_generation_goes_when_its_last_row_is_dropped(store: Store, frozen: FrozenKeys) -> None:
    slots(frozen).runs = np.array([[0], [8], [0]])
    freeze(frozen, postings(6, 7))
    slots(frozen).runs = np.array([[0], [1 << 31], [0]])
    slots(frozen).first_row = 7
    freeze(frozen, [(9 << 40, 20)])
    assert [each.last_row for each in frozen.note.generations][:1] == [7]
    assert found(frozen, KEYS) == [(0, 6), (1, 7)]
    slots(frozen).first_row = 8
    freeze(frozen, [(10 << 40, 30)])
    assert len(frozen.note.generations) == 2
    assert found(frozen, KEYS) == []
    assert stored_generations(store) == noted_generations(frozen)


def test_runs_stay_as_long_as_a_slot_of_theirs(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "store")) as store:
        flush(store, range(600))
        flush(store, range(600, 1200), horizon=after(600))
        assert store.meta is not None
        first_slot = store.meta.first_slot
        frozen = opened(store)
        for slot in (first_slot, first_slot + 1, first_slot + 2):
            frozen.freeze(table_of(postings(1)), slot, lambda: None)
        assert frozen.note.runs == [(1, first_slot + 1), (2, first_slot + 2)]
        assert store.band_blocks([(((1 << 24) - 1) << 32) + 1]), "of the run that stays"
        with pytest.raises(StoreDamaged):
            store.band_blocks([((1 << 24) - 1) << 32])


def test_a_posting_takes_as_many_bits_as_its_tag_and_row_need() -> None:
    assert Generation(0, 0, 0, 0, 1, 1, 1).shape.bits == TAG_BITS + 1
    assert Generation(0, 0, 0, 0, 7, 2, 1).shape.bits == TAG_BITS - 1 + 3


def test_a_generation_that_is_not_as_noted_is_damaged(store: Store, frozen: FrozenKeys) -> None:
    freeze(frozen, postings(1, 2, 3))
    [own] = frozen.note.generations
    assert sum(read_generation(store, own)) > own.filter_bytes
    for counted, lines in ((4, own.lines), (3, own.lines + 1)):
        own.count, own.lines = counted, lines
        with pytest.raises(StoreDamaged):
            list(read_generation(store, own))
