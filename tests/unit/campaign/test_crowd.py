"""The campaign of a crowd: what its memory may be, and how its pages are mixed."""

from __future__ import annotations

from pathlib import Path

from tests.campaign import crowd
from tests.helpers.replayed import Replayed


def test_memory_of_a_crowd_is_told_from_what_kept_pages_take() -> None:
    def run(kept: int, step: int) -> Replayed:
        memory = [(1_000 * i, (200 << 20) + step * 1_000 * i) for i in range(1_001)]
        return Replayed({"unique": kept}, Path(), memory)

    assert crowd.growth(run(1_000_000, crowd.KEPT_BYTES)) < 1 << 20
    assert crowd.growth(run(1, crowd.KEPT_BYTES)) > crowd.SLACK_BYTES


def test_the_crawl_is_spread_over_the_crowd() -> None:
    mixed = list(crowd.between(iter([b"c"] * 100), 100, [b"%d" % i for i in range(7)]))
    assert [line for line in mixed if line != b"c"] == [b"%d" % i for i in range(7)]
    assert mixed.count(b"c") == 100
    assert b"6" in mixed[70:]
