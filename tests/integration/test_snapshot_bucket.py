"""Snapshots in an object store: an index comes back from it as it was, or not at all."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.errors import SettingsError, StoreDamaged, StoreUnavailable
from streamer.run.index_folder import own_key, store_folder
from streamer.stored.store import Store
from streamer.upkeep.snapshot_places import SnapshotStopped
from streamer.upkeep.snapshots import SnapshotFolder, StoreCheckpoint, take_snapshot
from tests.helpers.commands import ended
from tests.helpers.growing_index import TAKING_SNAPSHOTS, grow, holds
from tests.helpers.kills import answers_until_killed
from tests.helpers.object_store import ObjectStore


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def snapshots(store: ObjectStore) -> SnapshotFolder:
    return SnapshotFolder(store.url)


def objects(store: ObjectStore) -> set[str]:
    return {path.name for path in (store.files / "index" / "files").iterdir()}


def test_an_index_comes_back_as_it_was_with_its_key_for_its_owner_only(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    assert snapshots.numbers() == []
    grow(index, range(10), range(10, 900))
    own_key(index).write_text("a secret")
    taken = take_snapshot(index, snapshots, 0)
    assert taken.size == taken.snapshot.size
    grow(index, range(900, 905))
    second = take_snapshot(index, snapshots, 0)
    assert second.size < 30_000 < second.snapshot.size, "what has not changed is uploaded once"
    for number, rows in ((1, 900), (2, 905)):
        again = tmp_path / str(number)
        [(_, made)] = snapshots.restore(again, number)
        assert made.pages == rows
        holds(again, rows)
        assert own_key(again).read_text() == "a secret"
        assert own_key(again).stat().st_mode & 0o777 == 0o600
        assert snapshots.check(number).owner == str(rows).encode()
    grow(tmp_path / "2", range(905, 1000))
    holds(tmp_path / "2", 1000)


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


@pytest.mark.parametrize("damage", ["flip", "cut", "missing"])
def test_a_snapshot_that_is_damaged_anywhere_is_refused_and_leaves_nothing(
    tmp_path: Path, index: Path, store: ObjectStore, snapshots: SnapshotFolder, damage: str
) -> None:
    grow(index, range(600))
    take_snapshot(index, snapshots, 0)
    for path in [path for path in store.files.rglob("*") if path.is_file()]:
        data = path.read_bytes()
        if not data and damage != "missing":
            continue
        middle = len(data) // 2
        if damage == "missing":
            path.unlink()
        elif damage == "cut":
            os.truncate(path, len(data) - 1)
        else:
            with path.open("r+b") as file:
                file.seek(middle)
                file.write(bytes([data[middle] ^ 1]))
        with pytest.raises((StoreDamaged, StoreUnavailable)):
            snapshots.restore(tmp_path / "again")
        assert not (tmp_path / "again").exists()
        path.write_bytes(data)
    snapshots.restore(tmp_path / "again")
    holds(tmp_path / "again", 600)


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


def test_a_snapshot_that_is_given_up_leaves_no_object(
    index: Path, store: ObjectStore, snapshots: SnapshotFolder
) -> None:
    grow(index, range(50))
    stopping = threading.Event()
    stopping.set()
    with contextlib.closing(Store.open(store_folder(index))) as opened:
        checkpoint = StoreCheckpoint(index, opened)
        with pytest.raises(SnapshotStopped):
            snapshots.take(checkpoint, 0, stopping)
        checkpoint.remove()
    assert snapshots.numbers() == []
    assert not any(path.is_file() for path in store.files.rglob("*"))


def test_a_kill_at_any_moment_leaves_whole_snapshots(
    tmp_path: Path, index: Path, store: ObjectStore, snapshots: SnapshotFolder
) -> None:
    draw = random.Random(2)
    for _ in range(5):
        told = answers_until_killed(
            TAKING_SNAPSHOTS, index, store.url, 40,
            lines=draw.randrange(1, 4), pause=draw.uniform(0, 0.1),
        )  # fmt: skip
        assert snapshots.read().pages >= told[-1], "one that was told of is lost"
        for number in snapshots.numbers():
            assert int(snapshots.check(number).owner) == snapshots.read(number).pages
    taken = take_snapshot(index, snapshots, 3)
    snapshots.restore(tmp_path / "last")
    holds(tmp_path / "last", taken.snapshot.pages)


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


def test_the_commands_copy_and_make_all_shards_of_a_worker(
    tmp_path: Path, store: ObjectStore
) -> None:
    for shard in (0, 1):
        grow(tmp_path / "index" / f"shard-{shard}", range(10 + shard))
    code, said = ended("snapshot", tmp_path / "index", store.url, "--keep", 1)
    assert (code, said.count(f"Snapshot 1 in {store.url}/shard-")) == (0, 2)
    code, said = ended("restore", store.url, tmp_path / "again")
    assert (code, said.count("Snapshot 1 in ")) == (0, 2)
    for shard in (0, 1):
        holds(tmp_path / "again" / f"shard-{shard}", 10 + shard)
