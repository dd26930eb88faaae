"""What is nearest to a unique page: of what is kept, and misses the threshold by the margin."""

from __future__ import annotations

import pytest

from streamer.index.codec import pack_pages
from streamer.index.forgetting import BEFORE, HOST, URL
from streamer.index.messages import Forget, Pages, Term, Verdicts, forget_record
from streamer.index.settings import IndexSettings
from tests.helpers.shard_cases import SAME, apart, index, judge, shares
from tests.helpers.shard_network import Network, page_record
from tests.helpers.signed_pages import made_pages

flushing = pytest.mark.parametrize("flush", [False, True], ids=["in the memtable", "in the store"])
Near = tuple[int, int, bool, str]


def alike(changed: int) -> int:
    """Return the resemblance of SAME and apart(changed)."""
    return 10_000 * (2048 - 3 * changed) // 2048


@flushing
@pytest.mark.parametrize(("changed", "is_near"), [(136, False), (137, True), (204, True)])
def test_a_near_miss_is_below_the_threshold_by_the_margin_at_most(
    *, flush: bool, changed: int, is_near: bool
) -> None:
    keys = [shares(1, 0, 0, 0), shares(1, 0, 0, 0)]
    pages = made_pages(keys, [apart(changed), SAME])
    found = judge(index(threshold=0.8, near_misses=0.1), pages, flush=flush)
    assert (found[1].similarity < 0) == is_near
    assert found[1].near == ((alike(changed), 0, False, "") if is_near else None)
    pages = made_pages(keys, [apart(changed + 68), SAME])
    [_, last] = judge(index(threshold=0.8, near_misses=0.1), pages, flush=flush)
    assert last.similarity < 0
    assert (last.near is None) == (alike(changed + 68) < 7000)


@flushing
@pytest.mark.parametrize("order", [(150, 200), (200, 150), (150, 150)])
def test_the_most_similar_page_is_nearest_and_of_equals_the_earliest(
    *, flush: bool, order: tuple[int, int]
) -> None:
    first, second = order
    pages = made_pages(
        [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(1, 2, 0, 0)],
        [apart(first), apart(second, 500), SAME],
    )
    found = judge(index(threshold=0.8, near_misses=0.2), pages, flush=flush)
    assert found[2].near == (alike(150), order.index(150), False, "")


def test_a_page_that_is_a_duplicate_or_too_short_has_no_nearest_one() -> None:
    pages = made_pages([shares(1, 0, 0, 0)] * 3, [apart(150), SAME, SAME])
    pages.distinct[2] = 1
    pages.keys[2, -1] = 12345
    found = judge(index(threshold=0.8, near_misses=0.2, shingles_min=5), pages)
    assert [v.near is None for v in found] == [True, False, True]
    again = made_pages([shares(1, 0, 0, 0)] * 3, [apart(150), SAME, SAME])
    assert judge(index(threshold=0.8, near_misses=0.2), again)[2].near is None


def test_each_rule_of_a_site_has_its_own_threshold() -> None:
    rules = IndexSettings.model_validate(
        {
            "threshold": 0.8,
            "near_misses": 0.1,
            "rules": [{"host": "strict.example", "threshold": 0.95}],
        }
    )
    pages = made_pages([shares(1, 0, 0, 0), shares(1, 0, 0, 0)], [apart(100), SAME])
    pages.urls = [b"http://a.example/", b"http://strict.example/"]
    network = Network(rules, 3)
    found = judge(network, pages)
    assert found[1].near == (alike(100), 0, False, "")
    blocks = [output.items for output in network.outputs]
    lowest = [
        block.nearest_min.tolist()
        for block in blocks
        if isinstance(block, Verdicts) and block.nearest_min is not None
    ]
    assert lowest == [[7000], [8500]]


def test_without_near_misses_the_log_and_the_state_are_those_of_the_version_before() -> None:
    plain, asked = IndexSettings(), IndexSettings(near_misses=0.1)
    assert (plain.version, asked.version) == (5, 6)
    assert "near_misses" not in plain.packed()
    assert asked.packed()["near_misses"] == 0.1
    assert [IndexSettings.model_validate(each.packed()) for each in (plain, asked)] == [
        plain,
        asked,
    ]
    network = index(shards=2)
    judge(network, made_pages([shares(1, 0, 0, 0)] * 2, [apart(150), SAME]))
    sent = [pack_pages(each.items) for each in network.outputs if isinstance(each.items, Pages)]
    assert [each.nearest for each in sent] == [[], []]
    assert b"near" not in network.shards[0].state()


class ThreeShards:
    """Page 0 is near to page 3, and page 1 is kept; 2 is undecided, and 3 waits for it."""

    def __init__(self) -> None:
        self.pages = made_pages(
            [shares(1, 0, 0, 0), shares(0, 0, 3, 0), shares(0, 2, 3, 0), shares(1, 2, 0, 0)],
            [apart(170), apart(100, 500), apart(100, 500), SAME],
        )
        self.pages.urls = [b"http://h%d.example/" % i for i in range(4)]
        self.pages.times[:] = [1000, 2000, 3000, 4000]
        self.network = Network(IndexSettings(shards=3, near_misses=0.2), 3)
        judge(self.network, self.pages.take([0, 1]))
        for place in (2, 3):
            self.network.logs[0].append(page_record(self.pages, place, place + 1))
            self.network.step(0)
            self.network.step(1)
        assert self.network.shards[1].open_pages == 2

    def forget(self, term: Term) -> None:
        """Have shards 0 and 1 forget what a term names."""
        self.network.logs[0].append(forget_record(Forget([term])))
        self.network.step(0)
        self.network.step(1)

    def last(self) -> Near | None:
        """Return what is nearest to page 3 once all are judged."""
        self.network.restart()
        while waiting := self.network.waiting():
            self.network.step(waiting[-1])
        found = {verdict.ref: verdict for verdict in self.network.verdicts}
        assert [found[ref].similarity >= 0 for ref in range(4)] == [False, False, True, False]
        return found[3].near


def test_what_an_earlier_shard_has_found_is_told_by_the_last_one() -> None:
    assert ThreeShards().last() == (alike(170), 0, False, "")


@pytest.mark.parametrize(
    "term",
    [(URL, b"http://h0.example/"), (HOST, b"h0.example"), (BEFORE, 1500)],
    ids=lambda t: t[0],
)
def test_what_is_forgotten_while_a_page_is_held_is_not_told(term: Term) -> None:
    shards = ThreeShards()
    shards.forget(term)
    assert shards.last() is None


@pytest.mark.parametrize("term", [(URL, b"http://h9.example/"), (BEFORE, 900)], ids=lambda t: t[0])
def test_what_is_not_forgotten_is_told(term: Term) -> None:
    shards = ThreeShards()
    shards.forget(term)
    assert shards.last() == (alike(170), 0, False, "")


def test_an_undecided_page_is_not_nearest_and_a_kept_one_is() -> None:
    network = Network(IndexSettings(shards=2, near_misses=0.2), 3)
    keys = [shares(1, 0, 0, 0) for _ in range(3)]
    pages = made_pages(keys, [apart(170), SAME, apart(140, 800)])
    for place in (0, 1):
        network.logs[0].append(page_record(pages, place, place + 1))
        network.step(0)
    while waiting := network.waiting():
        network.step(waiting[-1])
    [last] = network.give(pages, 2, 3)
    assert [v.near for v in network.verdicts[:2]] == [None, None]
    assert last.near == (alike(140), 1, False, "")
