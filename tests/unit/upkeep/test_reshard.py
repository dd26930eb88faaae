"""An index is given other shards only at rest: nothing is on its way between those it has."""

from __future__ import annotations

import contextlib
from random import Random
from typing import TYPE_CHECKING

import pytest

from streamer.errors import StoreMismatch, StoreUnavailable
from streamer.index.messages import config_record
from streamer.index.settings import IndexSettings
from streamer.stored.store import Store
from streamer.upkeep.reshard import Destination, Old, _exchange, write
from tests.helpers.shard_network import Network, page_record
from tests.helpers.signed_pages import BANDS, family_pages

if TYPE_CHECKING:
    from pathlib import Path

    from streamer.index.ports import FlushedRows

RULES = IndexSettings(shards=2)


def old_of(folder: Path, flushed: list[FlushedRows]) -> Old:
    """Return the index that has these states of two shards."""
    with contextlib.closing(Store.open(folder / "store")) as store:
        store.flush({"shards": 2, "bands": BANDS}, flushed, b"")
    return Old(folder)


def refused(folder: Path, flushed: list[FlushedRows], why: str) -> None:
    with contextlib.closing(old_of(folder, flushed)) as old:
        with pytest.raises(StoreMismatch, match=why) as caught:
            old.check_at_rest()
        assert "Start its owners" in str(caught.value)


def test_pages_without_a_verdict_are_waited_for(tmp_path: Path) -> None:
    network = Network(RULES, BANDS)
    network.logs[0].append(page_record(family_pages(Random(1), 30), 0, 30))
    network.step(0)
    flushed = [shard.begin_flush() for shard in network.shards]
    refused(tmp_path / "index", flushed, "pages have no verdict yet at shard 0")


def test_what_one_shard_has_sent_the_other_must_have_taken(tmp_path: Path) -> None:
    network = Network(RULES, BANDS)
    before = Network(RULES, BANDS).shards[0].begin_flush()
    network.give(family_pages(Random(1), 30), 0, 30)
    flushed = [before, network.shards[1].begin_flush()]
    refused(tmp_path / "index", flushed, "shard 1 has taken [1-9][0-9]* of 0 of shard 0")


def test_all_shards_must_have_the_same_settings(tmp_path: Path) -> None:
    network = Network(RULES, BANDS)
    network.give(family_pages(Random(1), 30), 0, 30)
    network.shards[1].apply(config_record(RULES.model_copy(update={"threshold": 0.9}), 1))
    flushed = [shard.begin_flush() for shard in network.shards]
    refused(tmp_path / "index", flushed, "shard 1 has not been told of all settings")


def test_what_fails_leaves_nothing_that_fills_the_disk(tmp_path: Path) -> None:
    network = Network(RULES, BANDS)
    network.give(family_pages(Random(1), 30), 0, 30)
    flushed = [shard.begin_flush() for shard in network.shards]

    def fail(_rows: int) -> None:
        raise StoreUnavailable("The disk is full.")

    with contextlib.closing(old_of(tmp_path / "index", flushed)) as old:
        with pytest.raises(StoreUnavailable):
            write(old, 3, tmp_path / "new", old.owners, fail)
        assert not (tmp_path / "new").exists()
        write(old, 3, tmp_path / "new", old.owners, lambda _rows: None)
    with contextlib.closing(Store.open(tmp_path / "new" / "store")) as store:
        assert store.meta is not None
        assert store.meta.identity["shards"] == len(store.meta.shards) == 3


def test_a_part_of_an_index_is_refused(tmp_path: Path) -> None:
    network = Network(RULES, BANDS)
    with contextlib.closing(Store.open(tmp_path / "shard-1" / "store")) as store:
        store.flush({"shards": 2, "bands": BANDS}, [network.shards[1].begin_flush()], b"")
    with pytest.raises(StoreMismatch, match=r"the shards \[1\] of an index of 2"):
        Old(tmp_path)
    network.shards[1].flushed()
    with contextlib.closing(Store.open(tmp_path / "shard-0" / "store")) as store:
        store.flush({"shards": 2, "bands": BANDS}, [network.shards[0].begin_flush()], b"")
    with contextlib.closing(Old(tmp_path)) as old:
        old.check_at_rest()


def test_a_folder_of_somebody_in_the_place_of_the_new_index_stays_and_is_refused(
    tmp_path: Path,
) -> None:
    thesis = tmp_path / "index.resharding" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("mine")
    (tmp_path / "index").mkdir()
    with pytest.raises(StoreUnavailable, match=r"index\.resharding is in the way"):
        Destination(tmp_path / "index").begin(3)
    assert thesis.read_text() == "mine"


def test_an_old_index_that_a_kill_has_left_is_kept_whatever_number_comes_next(
    tmp_path: Path,
) -> None:
    network = Network(RULES, BANDS)
    network.give(family_pages(Random(1), 30), 0, 30)
    index = tmp_path / "index"
    place = Destination(index)
    with contextlib.closing(old_of(index, [s.begin_flush() for s in network.shards])) as old:
        place.begin(3)
        write(old, 3, place.new, old.owners, lambda _rows: None)
        _exchange(place.new, index)  # and here it is killed
    place.end()
    assert not Destination(index).finish_killed(5)
    with contextlib.closing(Old(index)) as new, contextlib.closing(Old(place.before)) as old:
        assert (new.shards, old.shards) == (3, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"index", "index.before"}
