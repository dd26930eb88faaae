"""Snapshots in an object store: an index comes back from it as it was, or not at all."""

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.errors import SettingsError, StoreUnavailable
from streamer.run.index_folder import store_folder
from streamer.stored.store import Store
from streamer.upkeep.snapshots import SnapshotFolder, StoreCheckpoint, take_snapshot
from tests.helpers.growing_index import grow, holds
from tests.helpers.object_store import ObjectStore


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def snapshots(store: ObjectStore) -> SnapshotFolder:
    return SnapshotFolder(store.url)


def objects(store: ObjectStore) -> set[str]:
    return {path.name for path in (store.files / "index" / "files").iterdir()}


def test_only_what_nobody_needs_and_has_been_there_for_a_day_is_removed(
    tmp_path: Path, index: Path, store: ObjectStore, snapshots: SnapshotFolder
) -> None:
    for rows in range(0, 60, 10):
        grow(index, range(rows, rows + 10))
        take_snapshot(index, snapshots, 2)
    assert snapshots.numbers() == [5, 6]
    needed = {file.digest for number in (5, 6) for file in snapshots.read(number).files}
    young = objects(store) - needed
    assert young, "another may be about to need it"
    then = time.time() - 25 * 3600
    for path in (store.files / "index" / "files").iterdir():
        os.utime(path, (then, then))
    grow(index, range(60, 70))
    take_snapshot(index, snapshots, 2)
    needed = {file.digest for number in (6, 7) for file in snapshots.read(number).files}
    assert objects(store) == needed
    for number in (6, 7):
        snapshots.restore(tmp_path / str(number), number)
        holds(tmp_path / str(number), number * 10)


def test_of_two_who_write_the_same_snapshot_the_later_is_refused(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    # One after the other at the last step: the gateway looks, and then writes, so of two at the
    # same moment both may pass (26 of 300). S3 itself does both in one.
    grow(index, range(50))
    with contextlib.closing(Store.open(store_folder(index))) as opened:
        checkpoint = StoreCheckpoint(index, opened)

        class Overtaken(StoreCheckpoint):
            def __init__(self) -> None:
                self.flush, self.pages = checkpoint.flush, checkpoint.pages

            def files(self) -> Iterator[tuple[str, Path]]:
                snapshots.take(checkpoint, 0, threading.Event())
                yield from checkpoint.files()

        with pytest.raises(StoreUnavailable, match="Another process writes snapshots to s3://"):
            snapshots.take(Overtaken(), 0, threading.Event())
        checkpoint.remove()
    assert snapshots.numbers() == [1]
    snapshots.restore(tmp_path / "again")
    holds(tmp_path / "again", 50)


def test_a_store_that_cannot_be_used_is_told_with_the_remedy(
    index: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(index, range(5))
    with pytest.raises(StoreUnavailable, match=r"s3://nobody/x cannot be used: .*Check the name"):
        take_snapshot(index, SnapshotFolder("s3://nobody/x"), 0)
    with pytest.raises(SettingsError, match=r"Name a folder, or s3://BUCKET/PATH"):
        SnapshotFolder("what://bucket/index")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(StoreUnavailable, match=r"cannot be used: .*Check the name, the rights"):
            take_snapshot(index, SnapshotFolder(store.url), 0)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "obstore", None)
        patch.delitem(sys.modules, "streamer.upkeep.snapshot_bucket", raising=False)
        with pytest.raises(SettingsError, match=re.escape("pip install '.[object-store]'")):
            SnapshotFolder(store.url)
