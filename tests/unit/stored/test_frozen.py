"""Frozen keys at their bounds; tests/property/test_frozen_keys.py has what is found by chance."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from streamer.errors import StoreDamaged
from streamer.index.postings import TAG_BITS
from streamer.stored.frozen import (
    MERGED,
    MERGED_MAX,
    FrozenKeys,
    Generation,
    generations_to_merge,
    read_generation,
    thaw,
)
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from tests.helpers.stored_rows import POSTINGS_A_ROW, flush, keys_of
from tests.property.test_frozen_keys import AnySlots, a_store, found, freeze, opened, table_of
from tests.unit.index.test_shard_expiry import after

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


def test_of_a_table_the_rows_from_the_first_slot_to_the_last_are_frozen() -> None:
    with a_store() as store:
        frozen = opened(store)
        slots(frozen).runs = np.array([[5], [9], [0]])
        freeze(frozen, postings(4, 5, 8, 9))
        assert found(frozen, KEYS) == [(1, 5), (2, 8)]
        [own] = frozen.note.generations
        assert (own.count, own.first_row, own.last_row) == (2, 5, 8)


def test_a_merge_keeps_the_rows_from_the_first_that_is_left_to_the_last() -> None:
    with a_store() as store:
        frozen = opened(store)
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


def test_so_many_generations_of_a_level_are_merged_unless_they_are_large() -> None:
    share = MERGED_MAX // MERGED
    fitting = [generation(share)] * MERGED
    assert generations_to_merge(fitting) == fitting
    assert generations_to_merge([*fitting, generation(1)]) == []
    assert generations_to_merge([generation(share)] * (MERGED - 1)) == []
    above = [generation(2, level=1)] * MERGED
    assert generations_to_merge([*above, *[generation(1)] * (MERGED - 1)]) == above


def test_a_generation_goes_when_its_last_row_is_dropped() -> None:
    with a_store() as store:
        frozen = opened(store)
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


def test_what_a_kill_left_between_generations_goes_and_these_stay() -> None:
    with a_store() as store:
        frozen = opened(store)
        for number in range(3):
            freeze(frozen, [(number << 40, number)])
        again = opened(store)
        again.note.generations.pop(1)  # as if it had not been noted
        freeze(again, [(3 << 40, 3)])
        assert found(again, KEYS) == [(0, 0), (2, 2), (3, 3)]
        for number, is_there in ((0, True), (1, False), (2, True)):
            own = frozen.note.generations[number]
            if is_there:
                assert sum(read_generation(store, own)) > 0
            else:
                with pytest.raises(StoreDamaged):
                    list(read_generation(store, own))


def test_a_posting_takes_as_many_bits_as_its_tag_and_row_need() -> None:
    assert Generation(0, 0, 0, 0, 1, 1, 1).shape.bits == TAG_BITS + 1
    assert Generation(0, 0, 0, 0, 7, 2, 1).shape.bits == TAG_BITS - 1 + 3


@pytest.mark.parametrize(("counted", "size"), [(0, 0), (1, 0), (0, 1)])
def test_a_generation_that_is_not_as_noted_is_damaged(counted: int, size: int) -> None:
    with a_store() as store:
        frozen = opened(store)
        freeze(frozen, postings(1, 2, 3))
        [own] = frozen.note.generations
        own.count += counted
        own.lines += size
        if counted or size:
            with pytest.raises(StoreDamaged):
                list(read_generation(store, own))
        else:
            assert sum(read_generation(store, own)) > own.filter_bytes


def test_each_posting_is_found_once_and_one_block_is_read_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(Store.open(tmp_path / "store")) as store,
        closing(StoredLookup(store, 0)) as lookup,
    ):
        lookup.refresh(flush(store, range(100)))
        lookup.wait()
        assert lookup.table.count == 0
        read: list[int] = []
        blocks = store.band_blocks

        def noted(own: list[int]) -> list[bytes]:
            read.extend(own)
            return blocks(own)

        monkeypatch.setattr(store, "band_blocks", noted)
        assert lookup.find(keys_of([0, 1, 99])).rows.tolist() == [
            row for row in (0, 1, 99) for _ in range(POSTINGS_A_ROW)
        ]
        assert len(read) <= 5, "of 9 keys: that of each page, and what the filter takes for several"


def test_nothing_of_what_is_thawed_is_left() -> None:
    with a_store() as store:
        freeze(opened(store), postings(1))
        thaw(store)
        assert opened(store).note.count == 0
        for block in (0, ((1 << 24) - 1) << 32):
            with pytest.raises(StoreDamaged):
                store.band_blocks([block])
