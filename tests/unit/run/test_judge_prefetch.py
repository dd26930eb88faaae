"""Look-ups ahead: used while they hold, never after the runs have changed."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streamer.index.types import IndexSettings
from streamer.run import judge as module
from streamer.run.judge import PrefetchedLookup
from tests.helpers.serial_index import Judged, judged, serial_verdicts
from tests.helpers.shard_network import MemoryLookup
from tests.helpers.signed_pages import family_pages
from tests.helpers.stored_rows import flushed, keys_of
from tests.unit.run.test_judge import a_judge

if TYPE_CHECKING:
    import numpy.typing as npt

    from streamer.index.postings import Keys
    from streamer.index.types import Hits, KeptRows


class CountedLookup(MemoryLookup):
    """Dictionaries that count how often they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def find(self, keys: Keys, flushes: int = 0) -> Hits:
        self.asked += 1
        return super().find(keys, flushes)

    def rows(self, rows: npt.NDArray[np.int64]) -> KeptRows:
        self.asked += 1
        return super().rows(rows)


@pytest.fixture
def plain() -> CountedLookup:
    lookup = CountedLookup()
    lookup.add(flushed(range(20)))
    return lookup


def test_what_was_found_ahead_is_given_without_asking_again(plain: CountedLookup) -> None:
    lookup = PrefetchedLookup(plain)
    found = lookup.ahead(keys_of([3, 30, 5]))
    before = plain.asked
    lookup.expect(found)
    hits = lookup.find(keys_of([3, 30, 5]))
    assert sorted(set(hits.rows.tolist())) == [3, 5]
    kept = lookup.rows(np.array([5]))
    assert (kept.refs, kept.urls) == ([12], [b"https://example.org/5"])
    assert kept.sketches[:, 0].tolist() == [5]
    assert plain.asked == before


def test_what_was_found_before_a_flush_is_found_again_only_if_that_flush_is_asked_for(
    plain: CountedLookup,
) -> None:
    lookup = PrefetchedLookup(plain)
    found = lookup.ahead(keys_of([3, 30]))
    plain.add(flushed([30]))
    lookup.expect(found)
    hits = lookup.find(keys_of([3, 30]), plain.flushes - 1)
    assert (sorted(set(hits.rows.tolist())), hits.flushes) == ([3], plain.flushes - 1)
    hits = lookup.find(keys_of([3, 30]), plain.flushes)
    assert (sorted(set(hits.rows.tolist())), hits.flushes) == ([3, 30], plain.flushes)
    assert lookup.rows(np.array([3, 30])).refs == [10, 37]


def test_other_keys_than_expected_are_looked_up(plain: CountedLookup) -> None:
    lookup = PrefetchedLookup(plain)
    lookup.expect(lookup.ahead(keys_of([3])))
    assert set(lookup.find(keys_of([4])).rows.tolist()) == {4}
    assert lookup.rows(np.array([4])).refs == [11]


def test_rows_of_crowded_buckets_are_not_read_ahead(
    plain: CountedLookup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_AHEAD_MAX", 1)
    lookup = PrefetchedLookup(plain)
    found = lookup.ahead(keys_of([3, 5]))
    assert found.rows is None
    lookup.expect(found)
    lookup.find(keys_of([3, 5]))
    assert lookup.rows(np.array([3, 5])).refs == [10, 12]


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_do_not_depend_on_when_pages_were_looked_up(seed: int) -> None:
    random, rules = Random(seed), IndexSettings()
    pages = family_pages(random, 150)
    verdicts: list[Judged] = []
    with a_judge(rules, head_pages=20) as judge:
        cuts = [*range(0, 150, 7), 150]
        batches = [pages.take(range(*pair)) for pair in itertools.pairwise(cuts)]
        found = [judge.look_up(batch) for batch in batches[:4]]
        at = 0
        for i, batch in enumerate(batches):
            if i + 4 < len(batches):
                found.append(judge.look_up(batches[i + 4]))
            for block in judge.judge(0, at, at + len(batch), batch, found[i]):
                verdicts += judged(block)
            at += len(batch)
            if judge.flush_is_due:
                judge.begin_flush(lambda: b"")
    assert verdicts == serial_verdicts(pages, rules)
