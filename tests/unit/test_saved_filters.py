"""Filters that a clean stop leaves: read where they fit, ignored where anything is amiss."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streamer.index import run_lookup, saved_filters
from streamer.index.run_lookup import RunLookup
from streamer.index.runs import FAN_IN, Store
from streamer.index.saved_filters import saved_filters_path
from tests.helpers.stored_rows import assert_holds, flush, keys_of

if TYPE_CHECKING:
    from pathlib import Path

    from streamer.index.codec import RunMeta
    from streamer.index.run_parts import Parts

ROWS = range(60)


@pytest.fixture(autouse=True)
def _small_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lookup, "POSTINGS_MIN", 1)
    monkeypatch.setattr(run_lookup, "_FILTER_KEYS_MIN", 50)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the seqs of the runs that are read as a whole from here on."""
    seqs: list[int] = []
    whole = Store.run_parts

    def noted(store: Store, shard: int, run: RunMeta) -> Parts:
        seqs.append(run.seq)
        return whole(store, shard, run)

    monkeypatch.setattr(Store, "run_parts", noted)
    return seqs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a store of three runs that was stopped cleanly."""
    stopped(tmp_path / "store")
    return tmp_path / "store"


def stopped(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        for at in range(0, len(ROWS), 20):
            flush(store, ROWS[at : at + 20])
        RunLookup(store, 0).save()


def assert_ignored(folder: Path, read: list[int], rows: range = ROWS) -> None:
    """Check that every run is read, and that all answers are right."""
    with contextlib.closing(Store.open(folder)) as store:
        assert store.meta is not None
        assert_holds(store, rows)
        assert sorted(read) == [run.seq for run in store.meta.shards[0].runs]


def test_a_start_after_a_clean_stop_reads_no_run(folder: Path, read: list[int]) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, ROWS)
    assert read == []


def test_filters_that_are_read_are_those_that_were_built(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        loaded = RunLookup(store, 0)
        saved_filters_path(folder, 0).unlink()
        built = RunLookup(store, 0)
    assert built.filter.count == loaded.filter.count == 3 * len(ROWS)
    keys = keys_of(range(5000)).reshape(-1)
    assert built.filter.places(keys).tolist() == loaded.filter.places(keys).tolist()


def test_keys_of_several_postings_are_known_after_a_clean_stop(tmp_path: Path) -> None:
    with contextlib.closing(Store.open(tmp_path / "store")) as store:
        flush(store, [0, 0, 1])
        RunLookup(store, 0).save()
    with contextlib.closing(Store.open(tmp_path / "store")) as store:
        known = RunLookup(store, 0)._run_keys  # noqa: SLF001 - shows only in how much is read
        (keys,) = known.values()
        assert keys.crowded(keys_of([0, 1]).reshape(-1)).tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("place", [0, 16, 20, 60, 0.25, 0.5, 0.75, -1])
def test_one_damaged_byte_makes_the_file_be_ignored(
    folder: Path, read: list[int], place: float
) -> None:
    path = saved_filters_path(folder, 0)
    data = bytearray(path.read_bytes())
    data[int(place * len(data)) if isinstance(place, float) else place] ^= 0x10
    path.write_bytes(data)
    assert_ignored(folder, read)


@pytest.mark.parametrize("kept", [0, 10, 30, 0.5, 0.999])
def test_a_file_that_ends_early_is_ignored(folder: Path, read: list[int], kept: float) -> None:
    path = saved_filters_path(folder, 0)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    assert_ignored(folder, read)


def test_runs_flushed_after_the_file_are_all_that_is_read(folder: Path, read: list[int]) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [70, 71])  # and the process is killed
        assert store.meta is not None
        newest = store.meta.shards[0].runs[-1].seq
    with contextlib.closing(Store.open(folder)) as store:
        assert_holds(store, [*ROWS, 70, 71])
    assert read == [newest]


def test_a_file_is_ignored_where_runs_were_merged_since(folder: Path, read: list[int]) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        for row in range(60, 60 + FAN_IN):
            flush(store, [row])
        assert store.merge()
    read.clear()
    assert_ignored(folder, read, range(60 + FAN_IN))


def test_the_file_of_a_store_that_was_removed_is_ignored(folder: Path, read: list[int]) -> None:
    old = saved_filters_path(folder, 0).read_bytes()
    shutil.rmtree(folder)
    stopped(folder)
    read.clear()
    saved_filters_path(folder, 0).write_bytes(old)
    assert_ignored(folder, read)


def test_the_file_of_a_state_that_a_restored_copy_does_not_have_is_ignored(
    folder: Path, read: list[int]
) -> None:
    copy = shutil.copytree(folder, folder.parent / "copy")
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [80])
        RunLookup(store, 0).save()
    shutil.rmtree(folder)
    copy.rename(folder)
    with contextlib.closing(Store.open(folder)) as store:
        flush(store, [60])  # under the number that the lost flush had
    read.clear()
    assert_ignored(folder, read, range(61))


def test_the_file_of_a_version_with_other_filters_is_ignored(
    folder: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_filters, "_layout", lambda: b"another")
    assert_ignored(folder, read)


def test_a_disk_that_refuses_leaves_no_file_and_no_error(folder: Path) -> None:
    path = saved_filters_path(folder, 0)
    path.unlink()
    path.mkdir()  # cannot be replaced by a file
    with contextlib.closing(Store.open(folder)) as store:
        RunLookup(store, 0).save()
        assert_holds(store, ROWS)
    assert [file.name for file in folder.parent.iterdir() if "part" in file.name] == []


def test_nothing_is_written_again_where_nothing_has_changed(folder: Path) -> None:
    path = saved_filters_path(folder, 0)
    before = path.stat().st_mtime_ns
    with contextlib.closing(Store.open(folder)) as store:
        RunLookup(store, 0).save()
    assert path.stat().st_mtime_ns == before


def test_a_small_index_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lookup, "POSTINGS_MIN", 3 * len(ROWS) + 1)
    stopped(tmp_path / "store")
    assert not saved_filters_path(tmp_path / "store", 0).exists()


def test_filters_grow_on_after_they_were_read(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        lookup = RunLookup(store, 0)
        flush(store, range(60, 90))
        lookup.refresh()
        lookup.save()
    with contextlib.closing(Store.open(folder)) as store:
        found = RunLookup(store, 0).find(keys_of(range(200)))
        assert np.unique(found.rows).tolist() == [*range(90)]
