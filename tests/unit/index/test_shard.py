"""The rules of a shard, case by case; what a shard keeps and refuses."""

import copy

import numpy as np
import pytest

from streamer.errors import StoreMismatch
from streamer.index.messages import CONFIG, FORGET, MACHINE_VERSION, Forget, IndexSettings, Record
from streamer.index.rule import CONTENT, SIGNATURE, TOO_SHORT
from streamer.index.shard import Shard
from streamer.sketch.hash_sets import pack_set
from tests.helpers.memory_index import SOURCE, MemoryLookup, page_record, said
from tests.helpers.serial_index import Judged
from tests.helpers.shard_cases import BANDS, FAR, SAME, apart, index, judge, representatives, shares
from tests.helpers.signed_pages import EMPTY_SKETCH, made_pages


@pytest.mark.parametrize(("changed", "match"), [(0, True), (136, True), (137, False), (600, False)])
def test_a_candidate_matches_at_the_threshold(flush: bool, changed: int, match: bool) -> None:
    pages = made_pages([shares(1, 0, 0, 0), shares(1, 0, 0, 0)], [SAME, apart(changed)])
    verdicts = judge(index(threshold=0.8), pages, flush=flush)
    assert representatives(verdicts) == [None, 0 if match else None]
    assert verdicts[1].similarity == (10_000 * (2048 - 3 * changed) // 2048 if match else -1)


@pytest.mark.parametrize("order", [(50, 100), (100, 50)])
def test_the_most_similar_page_represents_another(flush: bool, order: tuple[int, int]) -> None:
    first, second = order
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(1, 2, 0, 0)],
        [apart(first), apart(second, 500), SAME],
    )
    assert representatives(judge(index(), pages, flush=flush)) == [None, None, order.index(50)]


@pytest.mark.parametrize("flushed", range(4))
def test_the_earliest_of_equals_wins_wherever_each_of_them_lies(flushed: int) -> None:
    machine = index()
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(3, 0, 0, 0), [3, 2, 1, 9]],
        [apart(100), apart(100, 300), apart(100, 600), SAME],
    )
    verdicts: list[Judged] = []
    for place in range(4):
        if place == flushed:
            machine.flush()
        verdicts += machine.give(pages, place, place + 1)
    assert representatives(verdicts) == [None, None, None, 0]


@pytest.mark.parametrize("late", [0, 1], ids=["flushed at once", "while it is judged"])
@pytest.mark.parametrize("flushed", [(), (0,), (1,), (0, 2)])
def test_a_bucket_of_head_and_runs_keeps_the_earliest(flushed: tuple[int, ...], late: int) -> None:
    machine = index(bucket_max=2)
    pages = made_pages(
        [shares(1, 0, 0, 0) for _ in range(6)], [FAR[1], FAR[2], FAR[3], FAR[3], FAR[1], FAR[2]]
    )
    verdicts: list[Judged] = []
    for place in range(6):
        verdicts += machine.give(pages, place, place + 1)
        if place in flushed:
            machine.memory.add(machine.shard.begin_flush())
        if place - late in flushed:
            machine.shard.end_flush()
    assert representatives(verdicts) == [None, None, None, None, 0, 1]
    assert machine.shard.refused == 2


def test_only_the_earliest_candidates_are_looked_at(flush: bool) -> None:
    pages = made_pages(
        [shares(0, 0, 3, 0), shares(0, 2, 0, 0), shares(1, 0, 0, 0), shares(1, 2, 3, 0)],
        [FAR[1], FAR[2], FAR[3], FAR[3]],
    )
    assert representatives(judge(index(candidates_max=2), pages, flush=flush)) == [None] * 4
    assert representatives(judge(index(candidates_max=3), pages, flush=flush)) == [
        None, None, None, 2,
    ]  # fmt: skip


@pytest.mark.parametrize(("first", "match"), [(0, 0), (10, None)], ids=["equal", "disjoint"])
def test_sets_decide_what_sketches_leave_in_doubt(first: int, match: int | None) -> None:
    pages = made_pages([shares(1, 0, 0, 0)] * 2, [apart(136), SAME])
    own = [np.arange(at, at + 10, dtype=np.uint64) << np.uint64(40) for at in (0, first)]
    pages.shingles = [*map(pack_set, own)]
    assert representatives(judge(index(exact=True), pages)) == [None, match]


def test_a_page_that_was_forgotten_is_no_candidate(flush: bool) -> None:
    machine, pages = index(), made_pages([shares(1, 0, 0, 0)] * 2, [SAME, SAME])
    judge(machine, pages.take([0]), flush=flush)
    terms = Forget([("url", pages.urls[0])], "an id")
    machine.take(Record(FORGET, 0, 0, np.array([0]), terms))
    assert representatives(machine.give(pages, 1, 2)) == [None]
    own = machine.shard.forgetting.pack().counts
    assert own == ({} if flush else {"an id": 1}), "a sweep counts what is stored"


def test_the_basis_is_content_where_the_representative_has_the_same(flush: bool) -> None:
    pages = made_pages([[1, 2, 3, 7], shares(0, 0, 0, 7), [1, 2, 3, 8]], [SAME, SAME, SAME])
    verdicts = judge(index(), pages, flush=flush)
    assert representatives(verdicts) == [None, 0, 0]
    assert [verdict.basis for verdict in verdicts] == [SIGNATURE, CONTENT, SIGNATURE]


def test_a_short_page_matches_equal_content_only(flush: bool) -> None:
    pages = made_pages([[1, 2, 3, 7], [1, 2, 3, 8], [4, 5, 6, 7]], [SAME, SAME, SAME])
    pages.distinct[:] = 7
    verdicts = judge(index(shingles_min=8), pages, flush=flush)
    assert representatives(verdicts) == [None, None, 0]
    assert [verdict.basis for verdict in verdicts] == [TOO_SHORT] * 3


def test_an_empty_page_is_unique_and_leaves_no_trace(flush: bool) -> None:
    machine = index()
    pages = made_pages([[1, 2, 3, 7]] * 3, [EMPTY_SKETCH] * 3, distinct=0, tokens=0)
    verdicts = judge(machine, pages, flush=flush)
    assert representatives(verdicts) == [None] * 3
    assert [verdict.basis for verdict in verdicts] == [TOO_SHORT] * 3
    assert (machine.shard.next_row, machine.shard.memtable.count) == (0, 0)


def test_a_hole_in_the_log_is_known_over_restarts_until_it_is_filled() -> None:
    machine = index()
    pages = made_pages([shares(0, 0, 0, 0) for _ in FAR], FAR)
    assert len(machine.give(pages, 0, 1)) == 1
    assert machine.shard.missing == {}
    assert machine.give(pages, 4, 6) == []
    assert machine.give(pages, 2, 3) == []
    assert machine.shard.missing == {SOURCE: 6}, "the furthest end"
    machine.restart()
    assert machine.shard.missing == {SOURCE: 6}
    assert len(machine.give(pages, 1, 4)) == 3
    assert machine.shard.missing == {SOURCE: 6}, "the pages from 4 on were skipped"
    assert machine.give(pages, 0, 2) == []
    assert machine.shard.missing == {SOURCE: 6}, "a repeat is no hole, and fills none"
    assert len(machine.give(pages, 4, 6)) == 2
    assert machine.shard.missing == {}


def config(version: int = MACHINE_VERSION, at: int = 0) -> Record:
    return Record(CONFIG, at, at + 1, np.array([at]), IndexSettings(version=version))


@pytest.mark.parametrize("other", [MACHINE_VERSION - 1, MACHINE_VERSION + 1])
def test_settings_of_another_version_are_refused_with_the_remedy(other: int) -> None:
    remedy = rf"version {other} .* {MACHINE_VERSION}\. Run the .* that wrote it"
    with pytest.raises(StoreMismatch, match=remedy):
        Shard(BANDS, MemoryLookup()).apply(config(other))


def test_a_state_of_another_version_is_refused_too() -> None:
    shard = Shard(BANDS, MemoryLookup())
    shard.apply(config())
    assert shard.settings is not None
    shard.settings = shard.settings.model_copy(update={"version": MACHINE_VERSION + 1})
    with pytest.raises(StoreMismatch, match=r"Run the .* that wrote it"):
        Shard(BANDS, MemoryLookup(), state=shard.state())


def test_new_settings_hold_from_their_place_in_the_log_on() -> None:
    shard = Shard(BANDS, MemoryLookup())
    pages = made_pages([[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 6]], [SAME, apart(100), apart(100)])
    strict = IndexSettings(threshold=0.9)
    shard.apply(Record(CONFIG, 0, 1, np.array([0]), strict))
    found = said(shard.apply(page_record(pages, 0, 2)))
    assert shard.apply(config(at=1)) is None
    found += said(shard.apply(page_record(pages, 2, 3)))
    assert representatives(found) == [None, None, 1]
    assert shard.apply(config(at=1)) is None
    assert shard.skipped_records == 1


@pytest.mark.parametrize(("next_row", "is_full"), [(2**32 - 1, False), (2**32, True)])
def test_a_shard_has_so_many_rows_and_says_when_it_is_full(next_row: int, *, is_full: bool) -> None:
    lookup = MemoryLookup()
    shard = Shard(BANDS, lookup)
    shard.apply(config())
    shard.apply(page_record(made_pages([[1, 2, 3, 4]], [SAME]), 0, 1))
    shard.next_row = 1 + next_row  # row 0 has expired, row 2 is stored
    lookup.kept = {2: (np.zeros(0, np.uint64), 0, b"", 0)}
    record = page_record(made_pages([[0, 0, 0, 0], [5, 6, 7, 8]], [SAME] * 2), 1, 2)
    if is_full:
        with pytest.raises(StoreMismatch, match=r"has 4,294,967,295 kept pages.* --also"):
            shard.apply(record)
    else:
        assert representatives(said(shard.apply(record))) == [None]


def test_what_a_flush_takes_stays_as_it_is_until_it_is_flushed() -> None:
    shard = Shard(BANDS, MemoryLookup(), memtable_capacity=16)
    shard.apply(config())
    pages = made_pages([shares(0, 0, 0, 0) for _ in range(40)], [SAME] * 40)
    shard.apply(page_record(pages, 0, 4))
    flushed = shard.begin_flush()
    before = copy.deepcopy(flushed)
    for start in range(4, 40, 4):  # the memtable grows
        shard.apply(page_record(pages, start, start + 4))
    assert (len(before.rows), shard.memtable.count, shard.memtable.capacity >= 40) == (4, 40, True)
    for name in ("rows", "refs", "sketches", "keys", "masks", "urls"):
        assert np.array_equal(getattr(flushed, name), getattr(before, name)), name
