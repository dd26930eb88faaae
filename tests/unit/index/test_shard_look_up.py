"""What a shard finds of pages: look-ups ahead of it, and what misses the threshold by a little."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamer.index import shard as module
from streamer.index.messages import Corpus, IndexSettings, Keys, Pages, config_record
from streamer.index.ports import Found, Hits, KeptRows, Nearest, nothing_near
from streamer.index.shard import Shard
from streamer.index.url_versions import CHANGE_NAMES, split_changes
from streamer.model import Change
from tests.helpers.memory_index import MemoryIndex, MemoryLookup, page_record, said
from tests.helpers.shard_cases import BANDS, SAME, apart, index, judge, representatives, shares
from tests.helpers.signed_pages import made_pages

# The first two are kept; the third is like both, and more like the second.
PAGES = made_pages(
    [shares(1, 0, 0, 0), shares(2, 0, 0, 0), shares(1, 2, 0, 0)], [apart(100), apart(50, 500), SAME]
)


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


class OneShard:
    """A shard with what it has flushed."""

    def __init__(self, kept: int, settings: IndexSettings | None = None) -> None:
        self.lookup = CountedLookup()
        self.shard = Shard(BANDS, self.lookup)
        self.shard.apply(config_record(settings or IndexSettings(), 0))
        for place in range(kept):
            self.give(place)
        self.flush()

    def give(self, place: int, found: Found | None = None) -> list[int | None]:
        """Let it take one of PAGES; return the representative."""
        record = page_record(PAGES, place, place + 1)
        return representatives(said(self.shard.apply(record, found)))

    def flush(self) -> None:
        """Move what is kept to the store."""
        self.lookup.add(self.shard.begin_flush())
        self.shard.end_flush()


def ahead(shard: Shard, place: int) -> Found:
    """Find what one of PAGES will be judged by."""
    return shard.look_up(PAGES.take([place]))


def test_the_store_is_not_asked_again_for_what_was_found() -> None:
    one = OneShard(kept=2)
    found = ahead(one.shard, 2)
    before = one.lookup.asked
    assert one.give(2, found) == [1]
    assert one.lookup.asked == before


def test_what_was_found_before_a_flush_is_not_used_once_its_entries_have_left_the_head() -> None:
    one = OneShard(kept=1)
    found = ahead(one.shard, 2)
    one.give(1)
    one.flush()
    assert one.give(2, found) == [1]


def test_what_was_found_before_a_flush_is_used_while_its_entries_are_in_the_head() -> None:
    one = OneShard(kept=1)
    found = ahead(one.shard, 2)
    one.give(1)
    one.lookup.add(one.shard.begin_flush())
    before = one.lookup.asked
    assert one.give(2, found) == [1]
    assert one.lookup.asked == before


def test_what_was_found_for_other_pages_is_not_used() -> None:
    one = OneShard(kept=2)
    assert one.give(2, ahead(one.shard, 0)) == [1]


def test_versions_that_were_found_for_other_urls_are_not_used() -> None:
    one = OneShard(2, IndexSettings(track_changes=True))
    found = one.shard.look_up(replace(PAGES.take([2]), urls=PAGES.take([0]).urls))
    output = one.shard.apply(page_record(PAGES, 2, 3), found)
    assert output is not None
    assert output.verdicts.changes is not None
    codes, _ = split_changes(output.verdicts.changes)
    assert [CHANGE_NAMES[code] for code in codes] == [Change.NEW]


def test_what_was_found_is_not_used_for_a_rest_of_its_pages() -> None:
    one = OneShard(kept=1)
    found = one.shard.look_up(PAGES.take([1, 2]))
    one.give(1)
    assert representatives(said(one.shard.apply(page_record(PAGES, 1, 3), found))) == [1]


def test_rows_of_crowded_buckets_are_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AHEAD_MAX", 1)
    one = OneShard(kept=2)
    found = ahead(one.shard, 2)
    assert found.rows is None
    assert one.give(2, found) == [1]


def alike(changed: int) -> int:
    """Return the resemblance of SAME and apart(changed)."""
    return 10_000 * (2048 - 3 * changed) // 2048


@pytest.mark.parametrize(("changed", "is_near"), [(136, False), (137, True), (204, True)])
def test_a_near_miss_is_within_the_margin(flush: bool, changed: int, is_near: bool) -> None:
    keys = [shares(1, 0, 0, 0), shares(1, 0, 0, 0)]
    pages = made_pages(keys, [apart(changed), SAME])
    found = judge(index(threshold=0.8, near_misses=0.1), pages, flush=flush)
    assert (found[1].similarity < 0) == is_near
    assert found[1].near == ((alike(changed), 0, False, "") if is_near else None)
    pages = made_pages(keys, [apart(changed + 68), SAME])
    [_, last] = judge(index(threshold=0.8, near_misses=0.1), pages, flush=flush)
    assert last.similarity < 0
    assert (last.near is None) == (alike(changed + 68) < 7000)


@pytest.mark.parametrize(("margin", "is_near"), [(0.0989, True), (0.0988, False)])
def test_a_page_that_misses_by_the_margin_is_near(*, margin: float, is_near: bool) -> None:
    pages = made_pages([shares(1, 0, 0, 0)] * 2, [apart(204), SAME])
    found = judge(index(threshold=0.8, near_misses=margin), pages)
    assert (found[1].near is not None) == is_near, alike(204)


@pytest.mark.parametrize("order", [(150, 200), (200, 150), (150, 150)])
def test_the_most_similar_and_earliest_is_nearest(flush: bool, order: tuple[int, int]) -> None:
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


class Elsewhere:
    """Another index, of which the first page shares a key with each page and is not alike."""

    def nearest(self, pages: Pages, _masks: Keys, settings: IndexSettings) -> Nearest:
        found, (corpus,) = nothing_near(len(pages)), settings.also
        found.similarities[:] = 0
        index: Any = SimpleNamespace(corpus=corpus, locate=str)
        return replace(found, references=[index] * len(pages), urls=[b"other"] * len(pages))


def test_a_page_elsewhere_that_is_not_alike_is_near_where_the_margin_is_all() -> None:
    shard = Shard(3, MemoryLookup(), references=Elsewhere())
    also = (Corpus(name="clean", digest="1"),)
    shard.apply(config_record(IndexSettings(near_misses=0.8, also=also), 0))
    [found] = said(shard.apply(page_record(made_pages([shares(1, 0, 0, 0)], [SAME]), 0, 1)))
    assert found.near is not None
    assert found.near[0] == 0


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
    machine = MemoryIndex(rules, 3)
    assert judge(machine, pages)[1].near == (alike(100), 0, False, "")
    lowest = [output.verdicts.nearest_min for output in machine.outputs]
    assert [None if each is None else each.tolist() for each in lowest] == [[7000], [8500]]
