"""With `renew_on_match`, a duplicate renews the page that it is a duplicate of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.index.codec import pack_pages, unpack_pages
from streamer.index.forgetting import URL
from streamer.index.messages import Forget, forget_record
from streamer.index.settings import IndexSettings
from tests.helpers.shard_cases import FAR, SAME, apart, index, judge, representatives, shares
from tests.helpers.shard_network import Network
from tests.helpers.signed_pages import Sketch, made_pages

if TYPE_CHECKING:
    from streamer.index.messages import Pages

DAY = 86_400_000
flushing = pytest.mark.parametrize("flush", [False, True], ids=["in the memtable", "in the store"])


def renewing(*, shards: int = 1, age: int = 4, **rules: float) -> Network:
    return index(expire_after_ms=age * DAY, renew_on_match=True, shards=shards, **rules)


def pages_of(*pages: tuple[float, list[int]], sketches: list[Sketch] | None = None) -> Pages:
    """Return pages of a day and with keys each."""
    made = made_pages([keys for _, keys in pages], sketches or [SAME] * len(pages))
    made.times[:] = [int(day * DAY) for day, _ in pages]
    return made


def same_pages(*days: float) -> Pages:
    return pages_of(*((day, shares(1, 2, 3, 9)) for day in days))


@flushing
def test_a_page_answers_for_half_of_the_age_at_least_once_it_was_met(*, flush: bool) -> None:
    network = renewing()
    days = (10, 12.5, 16, 18.5, 22.5, 26.6)  # 12.5, 16 and 18.5 renew it, and so does 22.5
    said = representatives(judge(network, same_pages(*days), flush=flush))
    assert said == [None, 0, 0, 0, 0, None]


@flushing
def test_a_page_that_is_young_is_not_renewed(*, flush: bool) -> None:
    network = renewing()
    assert representatives(judge(network, same_pages(10, 12, 14.5), flush=flush)) == [None, 0, None]
    assert network.shards[0].next_row == 2


@flushing
def test_a_page_is_renewed_once_in_half_of_its_age(*, flush: bool) -> None:
    network = renewing()
    said = judge(network, same_pages(10, *np.linspace(12.1, 13.9, 20)), flush=flush)
    assert representatives(said) == [None] + [0] * 20
    assert (network.shards[0].next_row, network.shards[0].renewed) == (2, 1)
    network.restart()
    assert network.shards[0].renewed == 1


@flushing
def test_of_the_newest_pages_one_that_is_met_stays(*, flush: bool) -> None:
    for renews, last in ((True, 0), (False, None)):
        network = index(keep_pages=4, renew_on_match=renews)
        keys = [shares(1, 2, 3, 9), *(shares(0, 0, 0, 0) for _ in range(5))]
        keys[4:4] = [keys[0]]  # once three others are kept
        made = made_pages([*keys, keys[0]], [SAME, *FAR[:3], SAME, *FAR[3:5], SAME])
        assert representatives(judge(network, made, flush=flush))[-1] == last


@flushing
def test_it_is_posted_again_under_its_own_keys_and_not_those_of_the_duplicate(
    *, flush: bool
) -> None:
    mine, other = shares(1, 2, 3, 9), shares(1, 5, 6, 0)
    pages = pages_of((10, mine), (13, other), (15, shares(0, 0, 3, 0)), (16, shares(0, 5, 0, 0)))
    assert representatives(judge(renewing(), pages, flush=flush)) == [None, 0, 0, None]


@flushing
def test_the_similarity_is_that_to_the_page_that_is_renewed(*, flush: bool) -> None:
    sketches = [SAME, apart(100), apart(100, 500)]
    pages = pages_of(*((day, shares(1, 2, 3, 0)) for day in (10, 13, 16)), sketches=sketches)
    said = judge(renewing(), pages, flush=flush)
    assert representatives(said) == [None, 0, 0]
    assert said[1].similarity == said[2].similarity


@flushing
def test_a_page_whose_buckets_are_full_is_not_renewed_and_takes_no_row(*, flush: bool) -> None:
    network = renewing(bucket_max=1)
    said = judge(network, same_pages(10, 13, 13.5, 15), flush=flush)
    assert representatives(said) == [None, 0, 0, None]
    assert network.shards[0].next_row == 2


@flushing
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_what_is_forgotten_is_so_however_often_it_was_renewed(*, flush: bool, shards: int) -> None:
    network, pages = renewing(shards=shards), same_pages(10, 13, 14, 15, 15.5, 16)
    for place in range(len(pages)):
        if place == 4:
            network.logs[0].append(forget_record(Forget([(URL, pages.urls[0])])))
        network.give(pages, place, place + 1)
        if flush:
            network.flush()
    assert representatives(network.verdicts) == [None, 0, 0, 0, None, 4]


@flushing
def test_shards_behind_renew_it_under_the_keys_that_they_have(*, flush: bool) -> None:
    network = renewing(shards=3)
    days = [(10, shares(1, 2, 3, 9)), (13, shares(1, 2, 0, 0))]  # found by the first of three
    later = [(15, shares(0, 2, 0, 0)), (16, shares(0, 0, 3, 0))]  # the last did not see the 13th
    said = judge(network, pages_of(*days, *later), flush=flush)
    assert representatives(said) == [None, 0, 0, None]
    assert [shard.next_row for shard in network.shards] == [4, 3, 2]
    assert not any(shard.open_pages for shard in network.shards)


def test_pages_that_renew_come_back_as_they_were() -> None:
    pages = same_pages(1, 2)
    assert unpack_pages(pack_pages(pages)).renews is None
    pages.renews = np.array([7, 1 << 60], np.uint64)
    assert unpack_pages(pack_pages(pages)).renews.tolist() == [7, 1 << 60]  # type: ignore[union-attr]


def test_pages_without_an_age_cannot_be_renewed_and_logs_say_which_rules_they_need() -> None:
    with pytest.raises(SettingsError, match="Give --expire-after or --keep-pages"):
        load_settings(renew_on_match=True)
    settings = load_settings(renew_on_match=True, expire_after="1d").index
    assert (settings.renew_on_match, settings.version) == (True, 10)
    assert "renew_on_match" not in IndexSettings().packed()
