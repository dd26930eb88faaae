"""The store: whole flushes or none, and every answer the same after merges and restarts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from streamer.index import run_parts, runs
from streamer.index.codec import POSTINGS, entry_key
from streamer.index.row_blocks import ROWS_A_BLOCK
from streamer.index.run_lookup import RunLookup
from streamer.index.runs import FAN_IN, Store
from tests.helpers.stored_rows import assert_holds, flush, flushed, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamer.index.codec import RunMeta
    from streamer.index.postings import Keys, Rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_new_store_has_no_state_and_finds_nothing(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        assert store.meta is None
        assert RunLookup(store, 0).find(keys_of(range(50))).rows.size == 0
        assert not store.merge()


def test_all_state_of_the_last_flush_comes_back(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        store.flush(
            {"bands": 14, "key": "ab"}, [flushed([0, 1], b"one"), flushed([], b"two")], b"first"
        )
        store.flush(
            {"bands": 14, "key": "ab"}, [flushed([2], b"three"), flushed([0], b"four")], b"second"
        )
        assert store.meta is not None
        before = msgspec.msgpack.encode(store.meta)
    with contextlib.closing(Store.open(folder)) as store:
        assert store.meta is not None
        assert msgspec.msgpack.encode(store.meta) == before
        assert (store.meta.owner, store.meta.identity) == (b"second", {"bands": 14, "key": "ab"})
        assert [shard.state for shard in store.meta.shards] == [b"three", b"four"]
        assert_holds(store, [0, 1, 2])


def test_a_flush_without_rows_still_brings_its_state(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [0])
        store.flush({}, [flushed([], b"later")], b"owner")
        assert store.meta is not None
        assert (store.meta.shards[0].state, store.meta.owner) == (b"later", b"owner")
        assert store.flushes == 2
        assert_holds(store, [0])


def test_a_flush_whose_rows_have_no_postings_is_opened_and_merged_like_any_other(
    folder: Path,
) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        for row in range(FAN_IN + 1):
            bare = flushed([row])
            bare.posting_keys, bare.posting_rows = bare.posting_keys[:0], bare.posting_rows[:0]
            store.flush({}, [bare], b"")
            store.merge()
        lookup = RunLookup(store, 0)
        assert lookup.find(keys_of(range(20))).rows.size == 0
        assert lookup.rows(np.arange(3)).refs == [7, 8, 9]


def test_rows_with_gaps_in_their_numbers_are_found(folder: Path) -> None:
    rows = [0, 3, 4, 9, *range(20, 60, 2), 1000]
    assert len(rows) > ROWS_A_BLOCK
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, rows)
        flush(store, [5, 1001])
        assert_holds(store, [*rows, 5, 1001])


def test_a_row_that_no_flush_brought_is_a_broken_invariant(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [0, 1])
        with pytest.raises(AssertionError, match="row 2 of shard 0 is in no flush"):
            RunLookup(store, 0).rows(np.array([2]))


def test_merging_keeps_every_posting_and_every_answer(folder: Path) -> None:
    parts = [list(range(at, at + 20)) for at in range(0, 20 * FAN_IN, 20)]
    with contextlib.closing(Store.open(folder)) as store:
        lookup = RunLookup(store, 0)
        for part in parts:
            assert not store.merge()
            flush(store, part, b"owner")
            lookup.refresh()
        assert store.merge()
        assert not store.merge()
        assert store.meta is not None
        assert [(run.level, run.postings) for run in store.meta.shards[0].runs] == [
            (1, 60 * FAN_IN)
        ]
        assert (store.meta.owner, store.meta.shards[0].state) == (b"owner", b"state")
        assert lookup.find(keys_of(range(2000))).rows.size == 60 * FAN_IN, "by the old runs"
        lookup.refresh()
        store.drop_garbage()
        assert not any(old_postings(store))
        assert lookup.find(keys_of(range(2000))).rows.size == 60 * FAN_IN
        assert_holds(store, range(20 * FAN_IN))
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, range(20 * FAN_IN))


def test_a_merged_run_is_merged_again_with_its_like(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "FAN_IN", 2)
    with contextlib.closing(Store.open(folder)) as store:
        for row in range(8):
            flush(store, [row])
            while store.merge():
                pass
            store.drop_garbage()
        assert store.meta is not None
        assert [run.level for run in store.meta.shards[0].runs] == [3]
        assert_holds(store, range(8))


class KilledBeforeDeleting(Store):
    """A writer that is killed when a merged run is in and the old ones are not yet deleted."""

    def drop_garbage(self) -> None:
        return


def old_postings(store: Store) -> list[bytes]:
    return store.read(
        [entry_key(seq, 0, POSTINGS, block) for seq in range(1, 2 * FAN_IN, 2) for block in (0, 1)]
    )


def test_postings_left_by_a_kill_after_a_merge_are_deleted_at_the_next_start(folder: Path) -> None:
    with contextlib.closing(KilledBeforeDeleting.open(folder)) as store:
        for row in range(FAN_IN):
            flush(store, [row])
        assert store.merge()
        assert any(old_postings(store))
    with contextlib.closing(Store.open(folder)) as store:
        assert not any(old_postings(store))
        assert_holds(store, range(FAN_IN))
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [FAN_IN])
        assert not any(old_postings(store))
        assert_holds(store, range(FAN_IN + 1))


def test_a_file_left_by_a_kill_within_a_flush_is_removed_and_changes_nothing(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [0])
    incoming = folder.parent / "incoming"
    incoming.mkdir(exist_ok=True)
    (incoming / f"{2:016x}.sst").write_bytes(b"half a file")
    with contextlib.closing(Store.open(folder)) as store:
        assert not incoming.exists()
        flush(store, [1])
        assert_holds(store, [0, 1])


def test_the_filter_over_all_runs_grows_with_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.index.run_lookup._FILTER_KEYS_MIN", 10)
    with contextlib.closing(Store.open(folder)) as store:
        lookup = RunLookup(store, 0)
        for at in range(0, 60, 10):
            flush(store, range(at, at + 10))
            lookup.refresh()
            assert lookup.find(keys_of(range(100))).rows.tolist() == sorted([*range(at + 10)] * 3)


def test_keys_that_were_never_posted_hardly_read_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def read(_store: Store, keys: list[bytes]) -> list[bytes]:
        asked.extend(keys)
        return [b""] * len(keys)

    with contextlib.closing(Store.open(folder)) as store:
        flush(store, range(100))
        lookup = RunLookup(store, 0)
        monkeypatch.setattr(Store, "read", read)
        lookup.find(keys_of(range(5000, 6000)))
        assert len(asked) < 0.01 * 3000
        lookup.find(keys_of(range(10)))
        assert len(asked) >= 30


def test_a_flush_within_a_merge_is_kept_beside_the_merged_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = range(20 * FAN_IN)
    with contextlib.closing(Store.open(folder)) as store:
        for part in np.array_split(np.array(rows), FAN_IN):
            flush(store, part.tolist())
        merged = store._merged  # noqa: SLF001 - between its beginning and its end

        def with_a_flush(shard: int, old: list[RunMeta]) -> Iterator[tuple[Keys, Rows]]:
            flush(store, [500, 501], b"within")
            yield from merged(shard, old)

        monkeypatch.setattr(store, "_merged", with_a_flush)
        assert store.merge()
        assert store.meta is not None
        assert store.meta.owner == b"within"
        assert [run.level for run in store.meta.shards[0].runs] == [0, 1]
        assert_holds(store, [*rows, 500, 501])
    with contextlib.closing(Store.open(folder)) as store:
        assert store.meta is not None
        assert (store.meta.owner, store.meta.garbage) == (b"within", [])
        assert_holds(store, [*rows, 500, 501])


def test_runs_of_many_blocks_are_merged_in_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_parts, "PART_POSTINGS", 50)
    with contextlib.closing(Store.open(folder)) as store:
        lookup = RunLookup(store, 0)
        for at in range(0, 120 * FAN_IN, 120):
            flush(store, range(at, at + 120))
        assert store.merge()
        lookup.refresh()
        store.drop_garbage()
        assert lookup.find(keys_of(range(120 * FAN_IN))).rows.size == 3 * 120 * FAN_IN
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, range(120 * FAN_IN))
