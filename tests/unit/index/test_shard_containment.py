"""What contains a unique page: of what is kept and shares a key, the page with most of it."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.index.codec import pack_pages, unpack_pages
from streamer.index.forgetting import BEFORE, URL
from streamer.index.messages import Forget, Pages, Term, forget_record
from streamer.index.settings import IndexSettings
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from tests.helpers.shard_cases import SAME, apart, index, judge, shares
from tests.helpers.shard_network import Network, page_record
from tests.helpers.signed_pages import made_pages

flushing = pytest.mark.parametrize("flush", [False, True], ids=["in the memtable", "in the store"])
PARTS = [" ".join(f"part{n}word{i}" for i in range(200)) for n in range(4)]


def of_parts(*each: str) -> Pages:
    """Return pages of parts of text, which share a band key each with the one before."""
    texts = [" ".join(PARTS[int(n)] for n in parts) for parts in each]
    keys = [shares(at, at + 1, 0, 0) for at in range(1, len(texts) + 1)]
    sketches = NativeSigner(SignatureSettings(), bytes(32)).sign(
        [text.encode() for text in texts], [0] * len(texts)
    )
    return made_pages(keys, list(sketches.sketches))


def inside_equal(changed: int) -> int:
    """Return the containment of SAME in apart(changed), which is as large."""
    alike = 10_000 * (2048 - 3 * changed) // 2048
    return 20_000 * alike // (10_000 + alike)


@flushing
def test_a_page_that_lies_in_a_kept_one_is_told_and_the_other_way_it_is_not(*, flush: bool) -> None:
    pages = of_parts("01", "1", "123")
    first, second, third = judge(index(contained=0.9), pages, flush=flush)
    assert first.inside is None
    assert second.inside is not None
    assert second.inside[0] > 9500
    assert second.inside[1] == 0
    assert third.inside is None


@flushing
@pytest.mark.parametrize("least", [0.9, 0.87, 0.5])
def test_the_share_must_be_reached_and_the_page_be_unique(*, flush: bool, least: float) -> None:
    pages = made_pages([shares(1, 0, 0, 0)] * 2, [apart(150), SAME])
    [_, last] = judge(index(threshold=0.8, contained=least), pages, flush=flush)
    assert last.inside == ((inside_equal(150), 0) if least < 0.8765 else None)
    again = judge(index(threshold=0.7, contained=least), pages, flush=flush)
    assert (again[1].similarity >= 0, again[1].inside) == (True, None)


@flushing
@pytest.mark.parametrize("order", [(150, 200), (200, 150), (150, 150)])
def test_of_several_the_one_with_most_is_told_and_of_equals_the_earliest(
    *, flush: bool, order: tuple[int, int]
) -> None:
    first, second = order
    keys = [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(1, 2, 0, 0)]
    pages = made_pages(keys, [apart(first), apart(second, 500), SAME])
    found = judge(index(contained=0.5), pages, flush=flush)
    assert found[2].inside == (inside_equal(150), order.index(150))


def test_without_the_setting_the_log_and_the_state_are_those_of_the_version_before() -> None:
    plain, asked = IndexSettings(), IndexSettings(contained=0.9)
    assert (plain.version, asked.version) == (5, 9)
    assert "contained" not in plain.packed()
    assert IndexSettings.model_validate(asked.packed()) == asked
    pages = made_pages([shares(1, 0, 0, 0)] * 2, [apart(150), SAME])
    for rules, expected in (({}, None), ({"contained": 0.5}, [None, (inside_equal(150), 0)])):
        network = index(shards=2, **rules)
        judge(network, pages)
        sent = [each.items for each in network.outputs if isinstance(each.items, Pages)]
        found = [near for each in sent for near in unpack_pages(pack_pages(each)).containers or ()]
        told = [near and (near.similarity, near.ref) for near in found]
        assert told == (expected or [])
        assert b"contain" not in network.shards[0].state() or bool(rules)


class ThreeShards:
    """Page 0 contains page 3, and page 1 is kept; 2 is undecided, and 3 waits for it."""

    def __init__(self) -> None:
        keys = [shares(1, 0, 0, 0), shares(0, 0, 3, 0), shares(0, 2, 3, 0), shares(1, 2, 0, 0)]
        sketches = [apart(170), apart(100, 500), apart(100, 500), SAME]
        self.pages = made_pages(keys, sketches)
        self.pages.urls = [b"http://h%d.example/" % i for i in range(4)]
        self.pages.times = np.array([1000, 2000, 3000, 4000])
        self.network = Network(IndexSettings(shards=3, contained=0.5, near_misses=0.2), 3)
        judge(self.network, self.pages.take([0, 1]))
        for place in (2, 3):
            self.network.logs[0].append(page_record(self.pages, place, place + 1))
            self.network.step(0)
            self.network.step(1)
        assert self.network.shards[1].open_pages == 2

    def last(self) -> tuple[int, int] | None:
        """Return what contains page 3 once all are judged."""
        self.network.restart()
        while waiting := self.network.waiting():
            self.network.step(waiting[-1])
        found = {verdict.ref: verdict for verdict in self.network.verdicts}
        assert found[3].similarity < 0
        return found[3].inside


@pytest.mark.parametrize(
    ("term", "is_told"),
    [
        (None, True), ((URL, b"http://h0.example/"), False), ((BEFORE, 1500), False),
        ((URL, b"http://h9.example/"), True),
    ],
    ids=str,
)  # fmt: skip
def test_what_an_earlier_shard_has_found_is_told_unless_it_is_forgotten(
    term: Term | None, *, is_told: bool
) -> None:
    shards = ThreeShards()
    if term:
        shards.network.logs[0].append(forget_record(Forget([term])))
        shards.network.step(0)
        shards.network.step(1)
    assert shards.last() == ((inside_equal(170), 0) if is_told else None)


def test_an_undecided_page_contains_none_and_a_kept_one_does() -> None:
    network = Network(IndexSettings(shards=2, contained=0.5), 3)
    pages = made_pages([shares(1, 0, 0, 0) for _ in range(3)], [apart(170), SAME, apart(140, 800)])
    for place in (0, 1):
        network.logs[0].append(page_record(pages, place, place + 1))
        network.step(0)
    while waiting := network.waiting():
        network.step(waiting[-1])
    [last] = network.give(pages, 2, 3)
    assert [v.inside for v in network.verdicts[:2]] == [None, None]
    assert last.inside == (inside_equal(140), 1)
