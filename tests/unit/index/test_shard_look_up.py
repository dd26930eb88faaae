"""What a shard has found for pages before they come: used where it holds, and only there."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from streamer.index import shard as module
from streamer.index.messages import IndexSettings, Keys, config_record
from streamer.index.ports import Found, Hits, KeptRows
from streamer.index.shard import Shard
from streamer.index.url_versions import CHANGE_NAMES, split_changes
from streamer.model import Change
from tests.helpers.memory_index import MemoryLookup, page_record, said
from tests.helpers.shard_cases import BANDS, SAME, apart, representatives, shares
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
