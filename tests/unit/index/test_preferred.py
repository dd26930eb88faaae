"""With `prefers`, a duplicate that is the best copy of its cluster says which one it supersedes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.index import ask
from streamer.index.codec import pack_pages, unpack_pages
from streamer.index.forgetting import URL
from streamer.index.messages import Forget, Match, forget_record
from streamer.index.settings import MACHINE_VERSION, IndexSettings
from streamer.sketch.preference import stamp
from tests.helpers.shard_cases import SAME, index, judge, representatives, shares
from tests.helpers.shard_network import page_record
from tests.helpers.signed_pages import made_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamer.index.messages import Pages
    from tests.helpers.serial_index import Judged
    from tests.helpers.shard_network import Network

flushing = pytest.mark.parametrize("flush", [False, True], ids=["in the memtable", "in the store"])
EACH = shares(1, 2, 3, 9)  # found by any shard


def copies(*ranks: int, keys: Sequence[list[int]] | None = None) -> Pages:
    """Return copies of one page, of these ranks, that share keys."""
    pages = made_pages(keys or [EACH] * len(ranks), [SAME] * len(ranks))
    stamp(pages.sketches, np.array(ranks, np.uint64))
    return pages


def preferring(*, shards: int = 1, **rules: float) -> Network:
    return index(prefers=True, shards=shards, **rules)


def superseded(verdicts: list[Judged]) -> list[int | None]:
    return [verdict.over and verdict.over[0] for verdict in verdicts]


@flushing
@pytest.mark.parametrize("shards", [1, 3])
def test_a_better_copy_supersedes_the_best_one_until_then(*, flush: bool, shards: int) -> None:
    network = preferring(shards=shards)
    said = judge(network, copies(3, 3, 2, 5, 4, 5, 7), flush=flush)
    assert representatives(said) == [None, 0, 0, 0, 0, 0, 0]
    assert superseded(said) == [None, None, None, 0, None, None, 3]
    assert said[-1].over == (3, b"u3")


@flushing
def test_shard_0_has_the_order_of_copies_that_other_shards_find(*, flush: bool) -> None:
    keys = [EACH, shares(0, 2, 0, 0), shares(1, 0, 0, 0), shares(0, 0, 3, 0)]
    network = preferring(shards=3)
    said = judge(network, copies(1, 2, 3, 4, keys=keys), flush=flush)
    assert representatives(said) == [None, 0, 0, 0]
    assert superseded(said) == [None, 0, 1, 2]
    assert not any(shard.open_pages for shard in network.shards)
    assert [shard.sent.get("verdicts", 0) for shard in network.shards] == [3, 0, 1]


def test_a_page_has_no_verdict_and_stays_open_until_shard_0_has_it_back() -> None:
    network, pages = preferring(shards=2), copies(1, 2, keys=[EACH, shares(0, 0, 3, 0)])
    network.give(pages, 0, 1)
    network.logs[0].append(page_record(pages, 1, 2))
    network.step(0)
    while network.logs[1]:
        network.step(1)
    assert [len(network.verdicts), network.shards[0].open_pages] == [1, 1]
    network.step(0)
    assert superseded(network.verdicts) == [None, 0]


@flushing
@pytest.mark.parametrize("shards", [1, 2])
def test_the_kept_page_is_the_best_copy_again_if_the_better_one_is_forgotten(
    *, flush: bool, shards: int
) -> None:
    network, pages = preferring(shards=shards), copies(1, 5, 3, 4)
    network.give(pages, 0, 2)
    if flush:
        network.flush()
    network.logs[0].append(forget_record(Forget([(URL, b"u1")])))
    network.give(pages, 2, 4)
    assert superseded(network.verdicts) == [None, 0, 0, 2]


@flushing
def test_a_better_copy_is_known_as_long_as_the_kept_page_answers(*, flush: bool) -> None:
    pages = copies(1, 5, 3, 7, 4, 8)
    pages.times[:] = [0, 900, 1000, 1000, 1001, 1002]
    said = judge(preferring(expire_after_ms=1000), pages, flush=flush)
    assert representatives(said) == [None, 0, 0, 0, None, 4]
    assert superseded(said) == [None, 0, None, 1, None, 4]


def test_a_query_tells_what_a_page_would_supersede_and_changes_nothing() -> None:
    network, pages = preferring(shards=2), copies(1, 2, 3)
    network.give(pages, 0, 2)
    for _ in range(2):
        asked = ask.verdict_on(network.shards, pages.take([2]))
        assert asked.supersedes == [(1, b"u1")]
    assert superseded(network.give(pages, 2, 3)) == [1]


def test_without_the_setting_ranks_are_nothing() -> None:
    network = index()
    assert superseded(judge(network, copies(1, 2, 3), flush=False)) == [None] * 3
    assert not network.shards[0].unflushed > 1


def test_matches_come_back_as_they_were() -> None:
    pages = copies(1, 2)
    assert unpack_pages(pack_pages(pages)).matches is None
    pages.matches = [Match(9000, 1, 7, b"u7", 3, exact=True), Match(8000, 0, 1, b"", 1)]
    assert unpack_pages(pack_pages(pages)).matches == pages.matches


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prefer": "newest"}, "Give longest, https, or field:NAME"),
        ({"prefer": "https", "scope_not": "host"}, "without --scope-not"),
        ({"prefer": "https", "method": "simhash"}, "minhash, one_permutation or words"),
        ({"prefer": "https", "renew_on_match": True, "keep_pages": 9}, "--renew-on-match"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(**given)


def test_logs_say_which_rules_they_need_and_indexes_by_what_copies_are_better() -> None:
    settings = load_settings(prefer="longest")
    assert (settings.index.prefers, settings.index.version) == (True, MACHINE_VERSION)
    assert settings.signature.identity()["prefer"] == "longest"
    assert "prefers" not in IndexSettings().packed()
    assert load_settings(method="words", prefer="https").signature.prefer == "https"
