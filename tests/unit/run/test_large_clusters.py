"""Clusters that swallow a source, noticed while it is judged: against counting everything."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.index.messages import Verdicts
from streamer.index.rule import CONTENT
from streamer.model import page_ref
from streamer.run.large_clusters import LargeCluster, LargeClusters
from tests.helpers.signed_pages import made_pages, unlike

_ONE = made_pages([[1]], [unlike(0)])
UNIQUE = -1


def block(named: list[int], start: int = 0, source: int = 0, origin: int = 0) -> Verdicts:
    """Return verdicts of pages start, start + 1, ...; each names page `named` of `origin`."""
    pages = _ONE.take([0] * len(named))
    pages.refs = np.array([page_ref(source, start + i) for i in range(len(named))], np.uint64)
    refs = [0 if other == UNIQUE else page_ref(origin, other) for other in named]
    return Verdicts(
        pages,
        np.array([-1 if other == UNIQUE else 9_000 for other in named], np.int32),
        np.full(len(named), CONTENT, np.uint8),
        np.array(refs, np.uint64),
        [b"" if other == UNIQUE else b"http://%d.example/" % other for other in named],
    )


def fed(clusters: LargeClusters, named: list[int], size: int) -> list[LargeCluster]:
    """Count pages in blocks of `size`; return what was told on the way."""
    told = []
    for start in range(0, len(named), size):
        told += clusters.add(0, block(named[start : start + size], start))
    return told


def test_a_cluster_is_told_of_once_while_its_source_goes_on() -> None:
    clusters = LargeClusters(0.2)
    named = [UNIQUE, *([0, UNIQUE, UNIQUE] * 700)]
    told = fed(clusters, named, 200)
    assert [(each.representative, each.url) for each in told] == [(0, "http://0.example/")]
    assert told[0].pages == 1 + 333 + (1000 % 3 == 0), told  # at the end of the block of page 1,000
    assert clusters.of(0) == [LargeCluster(0, 0, "http://0.example/", 701, 701 / 2101)]


def test_the_first_pages_of_a_source_say_nothing_while_it_goes_on_but_all_at_its_end() -> None:
    clusters = LargeClusters(0.2)
    assert fed(clusters, [UNIQUE, *[0] * 9], 5) == []
    assert [each.pages for each in clusters.of(0)] == [10]
    fewer = LargeClusters(0.2)
    fed(fewer, [UNIQUE, *[0] * 8], 5)
    assert fewer.of(0) == []


@pytest.mark.parametrize(("pages", "large"), [(399, False), (400, True)])
def test_the_share_that_is_asked_for_is_large_and_a_page_less_is_not(
    pages: int, *, large: bool
) -> None:
    named = [UNIQUE] * 1_000
    named[1::3] = range(333)
    swallowed = [UNIQUE, *[1_000] * (pages - 1), *[UNIQUE] * (1_000 - pages)]
    clusters = LargeClusters(0.2)
    fed(clusters, [*named, *swallowed], 100)
    assert bool(clusters.of(0)) is large


def test_a_representative_of_another_source_or_run_is_not_counted_as_a_page() -> None:
    for origin, source, start in ((1, 0, 0), (0, 0, 500)):
        clusters = LargeClusters(0.2)
        clusters.add(7, block([3] * 20, start, source, origin))
        assert [(each.source, each.pages, each.share) for each in clusters.of(7)] == [(7, 20, 1.0)]


def test_sources_are_counted_apart_and_one_that_is_forgotten_is_gone() -> None:
    clusters = LargeClusters(0.2)
    clusters.add(0, block([UNIQUE, *[0] * 30]))
    clusters.add(1, block([UNIQUE] * 30, source=1))
    assert (len(clusters.of(0)), clusters.of(1), clusters.of(2)) == (1, [], [])
    clusters.forget(0)
    clusters.forget(2)
    assert clusters.of(0) == []


@example(seed=1, size=1, swallowers=2, crowd=300)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(30, 900),
    swallowers=st.integers(0, 4),
    crowd=st.sampled_from([10, 300, 3_000]),
)
def test_counts_are_those_of_counting_everything(
    seed: int, size: int, swallowers: int, crowd: int
) -> None:
    """A large cluster from the source's beginning is counted exactly, in any crowd of others."""
    random = Random(seed)
    named = [UNIQUE] * 300
    for _ in range(2_700):
        kind = random.random()
        if swallowers and kind < 0.6:
            named.append(random.randrange(swallowers))
        else:
            named.append(UNIQUE if kind < 0.7 else 5 + random.randrange(crowd))
    counts = Counter(named)
    clusters = LargeClusters(0.1)
    fed(clusters, named, size)
    expected = {
        ref: pages + 1
        for ref, pages in counts.items()
        if ref != UNIQUE and (pages + 1) / len(named) >= 0.1
    }
    assert {each.representative: each.pages for each in clusters.of(0)} == expected


def test_a_cluster_that_comes_late_in_a_crowd_is_counted_but_for_a_256th() -> None:
    random = Random(5)
    named = [random.randrange(50_000) for _ in range(60_000)]
    named += [60_000 if random.random() < 0.6 else random.randrange(50_000) for _ in range(30_000)]
    clusters = LargeClusters(0.15)
    fed(clusters, named, 700)
    exact = sum(other == 60_000 for other in named) + 1
    (found,) = clusters.of(0)
    assert exact - len(named) / 256 <= found.pages <= exact


def test_with_a_window_what_is_large_now_is_found_after_a_long_time_without() -> None:
    named = [UNIQUE] * 50_000 + [0, UNIQUE] * 2_000
    assert not fed(LargeClusters(0.2), named, 100)
    clusters = LargeClusters(0.2, window=4_000)
    (told,) = fed(clusters, named, 100)
    assert told.representative == 0
    fed(clusters, [UNIQUE] * 20_000, 100)
    assert clusters.of(0) == []
    assert [each.representative for each in fed(clusters, [0] * 2_000, 100)] == [0]  # again


def test_memory_is_bounded_in_a_crowd_without_end() -> None:
    clusters = LargeClusters(0.00001)  # also where almost anything is large
    blocks = [
        block([(number * 1_000 + i) // 20 for i in range(1_000)], number * 1_000)
        for number in range(400)
    ]
    for each in blocks[:20]:
        clusters.add(0, each)
    tracemalloc.start()
    for each in blocks[20:]:
        clusters.add(0, each)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 400_000, grown
