"""The rules of a shard, case by case; two shards in a row; what a shard keeps and refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from streamer.errors import StoreMismatch
from streamer.index.codec import ShardState, Undecided, pack_state
from streamer.index.messages import CONFIG, Decisions, Pages, Record, Verdicts, shard_name
from streamer.index.rule import CONTENT, SIGNATURE, TOO_SHORT
from streamer.index.settings import MACHINE_VERSION, IndexSettings
from streamer.index.shard import Shard
from tests.helpers.serial_index import Judged
from tests.helpers.shard_cases import BANDS, FAR, SAME, apart, index, judge, representatives, shares
from tests.helpers.shard_network import SOURCE, MemoryLookup, page_record, said
from tests.helpers.signed_pages import EMPTY_SKETCH, made_pages

flushing = pytest.mark.parametrize("flush", [False, True], ids=["in the memtable", "in the store"])


class TwoShards:
    """Two shards whose logs are read one record at a time."""

    def __init__(self, *, restart: bool) -> None:
        self.network = index(shards=2)
        self._restart = restart

    def at_first(self, pages: Pages, place: int) -> list[int | None]:
        """Let shard 0 take a page; return the verdicts that come of it."""
        self.network.logs[0].append(page_record(pages, place, place + 1))
        return self._step(0)

    def _step(self, number: int) -> list[int | None]:
        before = len(self.network.verdicts)
        self.network.step(number)
        if self._restart:
            self.network.restart()
        return representatives(self.network.verdicts[before:])

    def rest(self) -> list[tuple[int, int | None]]:
        """Let both shards read on to the end; return (ref, representative) in order."""
        before = len(self.network.verdicts)
        while waiting := self.network.waiting():
            self._step(waiting[-1])
        return [
            (v.ref, v.representative if v.similarity >= 0 else None)
            for v in self.network.verdicts[before:]
        ]


restarting = pytest.mark.parametrize("restart", [False, True], ids=["steady", "restarted"])


@flushing
@pytest.mark.parametrize(("changed", "match"), [(0, True), (136, True), (137, False), (600, False)])
def test_a_candidate_matches_from_the_threshold_on(
    *, flush: bool, changed: int, match: bool
) -> None:
    pages = made_pages([shares(1, 0, 0, 0), shares(1, 0, 0, 0)], [SAME, apart(changed)])
    verdicts = judge(index(threshold=0.8), pages, flush=flush)
    assert representatives(verdicts) == [None, 0 if match else None]
    assert verdicts[1].similarity == (10_000 * (2048 - 3 * changed) // 2048 if match else -1)


@flushing
def test_equal_pages_that_share_no_key_never_meet(*, flush: bool) -> None:
    pages = made_pages([shares(0, 0, 0, 0), shares(0, 0, 0, 0)], [SAME, SAME])
    assert representatives(judge(index(), pages, flush=flush)) == [None, None]


@flushing
@pytest.mark.parametrize("order", [(50, 100), (100, 50)])
def test_the_most_similar_page_is_the_representative(
    *, flush: bool, order: tuple[int, int]
) -> None:
    first, second = order
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(1, 2, 0, 0)],
        [apart(first), apart(second, 500), SAME],
    )
    assert representatives(judge(index(), pages, flush=flush)) == [None, None, order.index(50)]


@flushing
def test_of_equally_similar_pages_the_earliest_is_the_representative(*, flush: bool) -> None:
    pages = made_pages(
        [shares(0, 0, 1, 0), shares(2, 0, 0, 0), shares(2, 0, 1, 0)],
        [apart(100), apart(100, 500), SAME],
    )
    assert representatives(judge(index(), pages, flush=flush)) == [None, None, 0]


@pytest.mark.parametrize("flushed", range(4))
def test_the_earliest_of_equals_wins_wherever_each_of_them_lies(flushed: int) -> None:
    network = index()
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(3, 0, 0, 0), [3, 2, 1, 9]],
        [apart(100), apart(100, 300), apart(100, 600), SAME],
    )
    verdicts: list[Judged] = []
    for place in range(4):
        if place == flushed:
            network.flush()
        verdicts += network.give(pages, place, place + 1)
    assert representatives(verdicts) == [None, None, None, 0]


@flushing
def test_a_duplicate_is_not_indexed_and_represents_nobody(*, flush: bool) -> None:
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(1, 2, 0, 0), shares(0, 2, 0, 0)], [SAME, apart(100), apart(100)]
    )
    assert representatives(judge(index(), pages, flush=flush)) == [None, 0, None]


@pytest.mark.parametrize("flushed", [(), (0,), (1,), (0, 1), (0, 1, 2)])
def test_a_bucket_counts_head_and_runs_together_and_keeps_the_earliest(
    flushed: tuple[int, ...],
) -> None:
    network = index(bucket_max=2)
    pages = made_pages(
        [shares(1, 0, 0, 0) for _ in range(6)], [FAR[1], FAR[2], FAR[3], FAR[3], FAR[1], FAR[2]]
    )
    verdicts: list[Judged] = []
    for place in range(6):
        verdicts += network.give(pages, place, place + 1)
        if place in flushed:
            network.flush()
    assert representatives(verdicts) == [None, None, None, None, 0, 1]
    assert network.shards[0].refused == 2


@flushing
def test_only_the_earliest_candidates_are_looked_at(*, flush: bool) -> None:
    pages = made_pages(
        [shares(0, 0, 3, 0), shares(0, 2, 0, 0), shares(1, 0, 0, 0), shares(1, 2, 3, 0)],
        [FAR[1], FAR[2], FAR[3], FAR[3]],
    )
    assert representatives(judge(index(candidates_max=2), pages, flush=flush)) == [None] * 4
    assert representatives(judge(index(candidates_max=3), pages, flush=flush)) == [
        None,
        None,
        None,
        2,
    ]


@flushing
def test_the_basis_is_content_where_the_representative_has_the_same(*, flush: bool) -> None:
    pages = made_pages([[1, 2, 3, 7], shares(0, 0, 0, 7), [1, 2, 3, 8]], [SAME, SAME, SAME])
    verdicts = judge(index(), pages, flush=flush)
    assert representatives(verdicts) == [None, 0, 0]
    assert [verdict.basis for verdict in verdicts] == [SIGNATURE, CONTENT, SIGNATURE]


@flushing
def test_a_representative_without_a_posting_under_its_content_gives_no_content_basis(
    *, flush: bool
) -> None:
    pages = made_pages(
        [shares(1, 0, 0, 7), shares(2, 0, 0, 7), shares(2, 0, 0, 7)], [FAR[1], FAR[2], FAR[2]]
    )
    verdicts = judge(index(bucket_max=1), pages, flush=flush)
    assert representatives(verdicts) == [None, None, 1]
    assert verdicts[2].basis == SIGNATURE


@flushing
def test_a_short_page_matches_equal_content_only(*, flush: bool) -> None:
    pages = made_pages([[1, 2, 3, 7], [1, 2, 3, 8], [4, 5, 6, 7]], [SAME, SAME, SAME])
    pages.distinct[:] = 7
    verdicts = judge(index(shingles_min=8), pages, flush=flush)
    assert representatives(verdicts) == [None, None, 0]
    assert [verdict.basis for verdict in verdicts] == [TOO_SHORT] * 3


@flushing
def test_a_page_with_just_enough_shingles_is_compared(*, flush: bool) -> None:
    pages = made_pages([[1, 2, 3, 7], [1, 2, 3, 8]], [SAME, SAME], distinct=8)
    verdicts = judge(index(shingles_min=8), pages, flush=flush)
    assert representatives(verdicts) == [None, 0]
    assert verdicts[1].basis == SIGNATURE


@flushing
def test_a_long_page_does_not_find_a_short_one_by_its_bands(*, flush: bool) -> None:
    pages = made_pages([[1, 2, 3, 7], [1, 2, 3, 8]], [SAME, SAME])
    pages.distinct[0] = 3
    assert representatives(judge(index(), pages, flush=flush)) == [None, None]


def test_a_short_page_finds_equal_content_however_many_pages_share_its_bands() -> None:
    network = index(candidates_max=2)
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(1, 0, 0, 0), shares(0, 0, 0, 7), [1, 8, 9, 7]],
        [FAR[1], FAR[2], SAME, SAME],
    )
    pages.distinct[2:] = 3
    assert representatives(judge(network, pages, flush=True)) == [None, None, None, 2]


@flushing
@pytest.mark.parametrize("shards", [1, 2])
def test_an_empty_page_is_unique_and_leaves_no_trace(*, flush: bool, shards: int) -> None:
    network = index(shards=shards)
    pages = made_pages([[1, 2, 3, 7]] * 3, [EMPTY_SKETCH] * 3, distinct=0, tokens=0)
    verdicts = judge(network, pages, flush=flush)
    assert representatives(verdicts) == [None] * 3
    assert [verdict.basis for verdict in verdicts] == [TOO_SHORT] * 3
    assert [(shard.next_row, shard.memtable.count) for shard in network.shards] == [(0, 0)] * shards


def test_a_hole_in_the_log_is_known_over_restarts_until_it_is_filled() -> None:
    network = index()
    pages = made_pages([shares(0, 0, 0, 0) for _ in FAR], FAR)
    assert len(network.give(pages, 0, 1)) == 1
    assert network.shards[0].missing == {}
    assert network.give(pages, 4, 6) == []
    assert network.give(pages, 2, 3) == []
    assert network.shards[0].missing == {SOURCE: 6}, "the furthest end"
    network.restart()
    assert network.shards[0].missing == {SOURCE: 6}
    assert len(network.give(pages, 1, 4)) == 3
    assert network.shards[0].missing == {SOURCE: 6}, "the pages from 4 on were skipped"
    assert network.give(pages, 0, 2) == []
    assert network.shards[0].missing == {SOURCE: 6}, "a repeat is no hole, and fills none"
    assert len(network.give(pages, 4, 6)) == 2
    assert network.shards[0].missing == {}


@restarting
def test_a_page_that_matches_an_undecided_one_is_its_duplicate_once_that_is_kept(
    *, restart: bool
) -> None:
    two = TwoShards(restart=restart)
    pages = made_pages(
        [shares(1, 0, 0, 7), shares(1, 0, 0, 7), shares(1, 0, 0, 0)], [SAME, SAME, SAME]
    )
    assert [two.at_first(pages, place) for place in range(3)] == [[], [], []]
    assert two.network.shards[0].open_pages == 3
    assert len(two.network.logs[1]) == 1
    assert two.rest() == [(0, None), (1, 0), (2, 0)]
    assert [verdict.basis for verdict in two.network.verdicts] == [SIGNATURE, CONTENT, SIGNATURE]
    assert two.network.shards[0].open_pages == 0


@restarting
def test_a_page_that_was_held_is_looked_at_again_when_the_other_is_dropped(
    *, restart: bool
) -> None:
    """Page 1 is dropped for page 0 at shard 1; page 2 resembles page 1, but not page 0."""
    two = TwoShards(restart=restart)
    pages = made_pages(
        [shares(5, 2, 0, 0), shares(1, 2, 0, 0), shares(1, 0, 0, 0), shares(1, 0, 0, 0)],
        [SAME, apart(100), apart(200), apart(210)],
    )
    for place in range(4):
        assert two.at_first(pages, place) == []
    assert two.network.shards[0].open_pages == 4
    assert two.rest() == [(0, None), (1, 0), (2, None), (3, 2)]
    assert two.network.shards[0].open_pages == 0


@restarting
def test_a_kept_match_is_preferred_to_waiting_for_a_better_one(*, restart: bool) -> None:
    two = TwoShards(restart=restart)
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(1, 0, 0, 0), shares(1, 0, 0, 0)],
        [apart(100), apart(100, 500), SAME],
    )
    two.at_first(pages, 0)
    assert two.rest() == [(0, None)]
    assert two.at_first(pages, 1) == []
    assert two.at_first(pages, 2) == [0]
    assert two.rest() == [(1, None)]


def test_a_decision_that_comes_twice_changes_nothing() -> None:
    two = TwoShards(restart=False)
    pages = made_pages([shares(1, 0, 0, 0), shares(1, 0, 0, 0)], [SAME, SAME])
    two.at_first(pages, 0)
    two.network.step(1)
    decision = two.network.logs[0][0]
    two.rest()
    first = two.network.shards[0]
    assert first.apply(decision) == []
    assert first.skipped_records == 1
    assert two.at_first(pages, 1) == [0]


def test_a_content_key_is_looked_up_at_the_first_shard_only() -> None:
    network = index(shards=2)
    pages = made_pages([shares(1, 0, 0, 7), shares(2, 0, 7, 8)], [SAME, SAME])
    assert representatives(judge(network, pages)) == [None, None]
    assert [shard.memtable.own_keys for shard in network.shards] == [2, 2]


def config(version: int = MACHINE_VERSION, shards: int = 1, at: int = 0) -> Record:
    return Record(CONFIG, at, at + 1, np.array([at]), IndexSettings(version=version, shards=shards))


LATER = rf"version {MACHINE_VERSION + 1} .* {MACHINE_VERSION}\. Run the .* that wrote it"


@pytest.mark.parametrize(
    ("record", "remedy"),
    [
        (config(version=MACHINE_VERSION + 1), LATER),
        (config(shards=2), r"has 1 shards, the settings ask for 2\. Use --shards 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_remedy(record: Record, remedy: str) -> None:
    with pytest.raises(StoreMismatch, match=remedy):
        Shard(0, 1, BANDS, MemoryLookup()).apply(record)


def test_a_state_of_a_later_version_is_refused_too() -> None:
    shard = Shard(0, 1, BANDS, MemoryLookup())
    shard.apply(config())
    assert shard.settings is not None
    shard.settings = shard.settings.model_copy(update={"version": MACHINE_VERSION + 1})
    with pytest.raises(StoreMismatch, match=r"Run the .* that wrote it"):
        Shard(0, 1, BANDS, MemoryLookup(), state=shard.state())


def test_pages_before_the_first_settings_are_a_broken_invariant() -> None:
    shard = Shard(0, 1, BANDS, MemoryLookup())
    pages = made_pages([[1, 2, 3, 4]], [SAME])
    with pytest.raises(AssertionError, match="before the first CONFIG"):
        shard.apply(page_record(pages, 0, 1))


def test_new_settings_hold_from_their_place_in_the_log_on() -> None:
    shard = Shard(0, 1, BANDS, MemoryLookup())
    pages = made_pages([[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 6]], [SAME, apart(100), apart(100)])
    strict = IndexSettings(threshold=0.9)
    shard.apply(Record(CONFIG, 0, 1, np.array([0]), strict))
    outputs = [*shard.apply(page_record(pages, 0, 2)), *shard.apply(config(at=1))]
    outputs += shard.apply(page_record(pages, 2, 3))
    assert representatives(said(outputs)) == [None, None, 1]
    assert shard.apply(config(at=1)) == []
    assert shard.skipped_records == 1


def test_a_shard_that_is_full_says_so_before_row_numbers_run_out() -> None:
    shard = Shard(0, 1, BANDS, MemoryLookup())
    shard.apply(config())
    shard.next_row = 2**32 - 1
    with pytest.raises(StoreMismatch, match=r"numbered 4,294,967,296 .* --also"):
        shard.apply(page_record(made_pages([[1, 2, 3, 4]], [SAME]), 0, 1))


def test_what_a_flush_takes_stays_as_it_is_until_it_is_flushed() -> None:
    shard = Shard(0, 1, BANDS, MemoryLookup(), memtable_capacity=16)
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


def test_a_message_key_and_carried_fields_survive_being_held() -> None:
    network = index(shards=2)
    pages = made_pages([shares(1, 0, 0, 0), shares(1, 0, 0, 0)], [SAME, SAME])
    pages.message_keys[1], pages.carried[1] = b"key\xff", b'{"a":1}'
    for place in range(2):
        network.logs[0].append(page_record(pages, place, place + 1))
        network.step(0)
    network.restart()
    while waiting := network.waiting():
        network.step(waiting[-1])
    last = network.outputs[-1].items
    assert isinstance(last, Verdicts)
    assert (last.pages.message_keys, last.pages.carried) == ([b"key\xff"], [b'{"a":1}'])


def test_equal_states_give_equal_bytes_in_whatever_order_they_came_about() -> None:
    nothing = Undecided(b"", [], b"", b"", b"", [], b"")
    one, other = (
        ShardState(None, dict(marks), {}, 0, 0, 0, nothing, [])
        for marks in ([("pages:0", 1), ("config", 2)], [("config", 2), ("pages:0", 1)])
    )
    assert pack_state(one) == pack_state(other)


@pytest.mark.parametrize("restart", [False, True])
def test_no_page_that_comes_behind_is_older_than_what_is_told_while_one_is_held(
    *, restart: bool
) -> None:
    shard = Shard(0, 2, BANDS, MemoryLookup())
    shard.apply(config(shards=2))
    keys = [shares(1, 0, 0, 7), shares(1, 0, 0, 7), *(shares(n, 0, 0, n) for n in (2, 3, 4, 5))]
    pages = made_pages(keys, [SAME] * len(keys))
    pages.times[:] = range(10, 70, 10)

    def told(place: int) -> list[int]:
        """Return the watermark that the page at a place is sent on with."""
        outputs = shard.apply(page_record(pages, place, place + 1))
        sent = [output.items for output in outputs if isinstance(output.items, Pages)]
        return [watermark for each in sent for watermark in each.watermarks.tolist()]

    assert [told(place) for place in range(4)] == [[0], [], [20], [20]]  # the second is held
    if restart:
        shard = Shard(0, 2, BANDS, MemoryLookup(), state=shard.state())
    assert told(4) == [20]
    decision = Decisions(np.zeros(1, np.uint64), np.ones(1, np.bool_))
    assert len(shard.apply(Record(shard_name(1), 0, 1, np.zeros(1, np.int64), decision))) == 1
    assert told(5) == [50]
