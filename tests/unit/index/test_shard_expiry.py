"""Which kept pages answer no page any more, by their times and by their number."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

from streamer.index.messages import IndexSettings, Pages, config_record
from streamer.index.ports import BEFORE_ALL, Horizon
from streamer.index.postings import ROWS_MAX
from streamer.stored.deep_check import check_index
from streamer.stored.lookup import StoredLookup
from streamer.stored.rows import scan_rows
from streamer.stored.store import Store
from tests.helpers.shard_cases import FAR, SAME, index, judge, representatives, shares
from tests.helpers.signed_pages import made_pages
from tests.helpers.stored_rows import assert_holds, flush, keys_of, stored_postings

HOUR = 3_600_000  # of the first day of 1970, of which each date is believed


def same_pages(*hours: float) -> Pages:
    """Return pages with one key and one content each, of these hours."""
    pages = made_pages([shares(1, 0, 0, 9)] * len(hours), [SAME] * len(hours))
    pages.times[:] = [int(hour * HOUR) for hour in hours]
    return pages


def crowd(*pages: tuple[float, int]) -> Pages:
    """Return pages that share a key, each of an hour and with one of the unlike sketches."""
    made = made_pages([shares(1, 0, 0, 0) for _ in pages], [FAR[which] for _, which in pages])
    made.times[:] = [int(hour * HOUR) for hour, _ in pages]
    return made


def test_a_page_answers_until_it_is_older_than_the_age(flush: bool) -> None:
    machine = index(expire_after_ms=3 * HOUR)
    verdicts = judge(machine, same_pages(10, 12, 13, 13.001, 15), flush=flush)
    assert representatives(verdicts) == [None, 0, 0, None, 3]


def test_the_newest_kept_pages_answer(flush: bool) -> None:
    machine = index(keep_pages=2)
    pages = made_pages(
        [
            *(shares(1, 0, 0, 9), shares(2, 0, 0, 8), shares(1, 0, 0, 9)),
            *(shares(3, 0, 0, 7), shares(1, 0, 0, 9), shares(2, 0, 0, 8)),
        ],
        [SAME, FAR[1], SAME, FAR[2], SAME, FAR[1]],
    )
    verdicts = judge(machine, pages, flush=flush)
    assert representatives(verdicts) == [None, None, 0, None, None, None]


def test_what_has_expired_takes_no_place_in_its_bucket(flush: bool) -> None:
    machine = index(expire_after_ms=HOUR, bucket_max=2)
    pages = crowd((1, 0), (1.1, 1), (1.2, 2), (3, 3), (3.1, 4), (3.2, 4))
    verdicts = judge(machine, pages, flush=flush)
    assert representatives(verdicts) == [None, None, None, None, None, 4]
    assert machine.shard.refused == 1


def test_what_has_expired_is_none_of_the_earliest_candidates(flush: bool) -> None:
    machine = index(expire_after_ms=HOUR, candidates_max=1)
    pages = crowd((1, 0), (1.1, 1), (3, 2), (3.5, 2), (3.5, 2))
    found = judge(machine, pages.take(range(4)), flush=flush)
    assert representatives(found) == [None, None, None, 2]
    machine.shard.apply(config_record(IndexSettings(candidates_max=1), 1))
    assert representatives(machine.give(pages, 4, 5)) == [2], "it still hides what had expired"


def test_what_has_expired_stays_so_under_other_settings(flush: bool) -> None:
    machine = index(expire_after_ms=HOUR)
    pages = same_pages(1, 3, 3.5, 4.5, 7)
    before = judge(machine, pages.take(range(3)), flush=flush)
    shard = machine.shard
    assert shard.settings is not None
    longer = shard.settings.model_copy(update={"expire_after_ms": 30 * HOUR})
    shard.apply(config_record(longer, 1))
    if flush:
        machine.restart()
    assert representatives(before) == [None, None, 1]
    after = machine.give(pages, 3, 4) + machine.give(pages, 4, 5)
    assert representatives(after) == [1, 1]
    assert machine.shard.horizon.time == int(2.5 * HOUR)


# ---- the store ----------------------------------------------------------------------------------


def after(row: int) -> Horizon:
    """Return the horizon behind which all rows before this one lie."""
    return Horizon(1000 * row)


many_rows_ago = pytest.mark.parametrize(
    "zero", [0, ROWS_MAX - 37, 5 * ROWS_MAX - 150], ids=["new", "one round", "five rounds"]
)


@many_rows_ago
def test_what_is_past_the_horizon_is_dropped_with_its_flush(tmp_path: Path, zero: int) -> None:
    folder = tmp_path / "store"

    def rows(first: int, end: int) -> range:
        return range(zero + first, zero + end)

    with contextlib.closing(Store.open(folder)) as store:
        lookup = StoredLookup(store)
        for first, horizon in ((0, 0), (10, 0), (20, 15), (30, 30)):
            lookup.refresh(flush(store, rows(first, first + 10), horizon=after(zero + horizon)))
            store.delete_dropped()
        assert store.meta is not None
        assert (store.meta.rows, store.meta.postings) == (10, 30)
        assert lookup.table.count == 30
        assert lookup.first_row == zero + 30
        found = lookup.find(keys_of(rows(0, 50))).rows
        assert found.tolist() == [row for row in rows(30, 40) for _ in range(3)]
        gone = lookup.rows(np.array([zero + 12, zero + 33]))
        assert gone.times.tolist() == [BEFORE_ALL, 1000 * (zero + 33)]
        assert gone.refs == [0, zero + 40]
        assert_holds(store, rows(30, 40))
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, rows(30, 40))
        assert len(stored_postings(store)) == 30
        flush(store, rows(40, 50), horizon=after(zero + 40))
        assert_holds(store, rows(40, 50))


@many_rows_ago
def test_frozen_keys_expire_too(tmp_path: Path, zero: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.stored.generations.STEP_BYTES", 200)  # a merge takes some steps
    folder = tmp_path / "store"

    def found(lookup: StoredLookup) -> list[int]:
        asked = keys_of(range(zero, zero + 400))
        return [row - zero for row in np.unique(lookup.find(asked).rows).tolist()]

    with (
        contextlib.closing(Store.open(folder)) as store,
        contextlib.closing(StoredLookup(store, 0)) as lookup,
    ):
        for end in range(10, 310, 10):
            first = max(0, end - 40)
            rows = range(zero + end - 10, zero + end)
            lookup.refresh(flush(store, rows, horizon=after(zero + first)))
            store.delete_dropped()
            lookup.wait()
            assert found(lookup) == [*range(first, end)]
            assert lookup.frozen.note.count <= 80 * 3, "twice as many as answer"
            assert len(lookup.frozen.note.runs) <= 6
        opened = StoredLookup(store)
        assert found(opened) == [*range(260, 300)]
        assert opened.rows(np.array([zero + 262, zero + 7])).refs == [zero + 269, 0]
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, range(zero + 260, zero + 300))
    assert not any(finding.damage for finding in check_index(tmp_path))


def test_of_a_flush_that_has_not_expired_as_a_whole_nothing_is_dropped(tmp_path: Path) -> None:
    with contextlib.closing(Store.open(tmp_path / "store")) as store:
        flush(store, range(10))
        flush(store, range(10, 20), horizon=after(5))
        assert_holds(store, range(20))
        assert [ref - 7 for part in scan_rows(store) for ref in part.rows.refs] == [*range(5, 20)]


def test_what_a_kill_has_left_of_dropped_rows_goes_with_the_next_flush(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(600))
        flush(store, range(600, 1200), horizon=after(600))
        assert store.row_blocks([0])  # and here the process ends
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [1200])
        store.delete_dropped()
        with pytest.raises(Exception, match="block 0 of its rows is missing"):
            store.row_blocks([0])
        assert_holds(store, range(600, 1201))
