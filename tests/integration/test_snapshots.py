"""Snapshots of workers, replays and buckets: a lost index comes back, as it was or not at all."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from streamer.errors import SettingsError, StoreUnavailable
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from streamer.run.index_folder import store_folder
from streamer.stored.store import Store
from streamer.upkeep.snapshots import SnapshotFolder, StoreCheckpoint, take_snapshot
from tests.helpers.broker import messages_of
from tests.helpers.fleet import Fleet, fleet, streamer
from tests.helpers.growing_index import files_of_two_snapshots, grow, holds
from tests.helpers.object_store import ObjectStore
from tests.helpers.wait import wait_until
from tests.integration.chaos import load


class Snapshots(NamedTuple):
    """What `--snapshot-to` is given, and the folder with the files then."""

    name: str
    files: Path


def verdicts_of(brokers: str, names: Names) -> dict[tuple[int, int], bytes]:
    """Return the verdicts by page; each that comes again must be the same."""
    found: dict[tuple[int, int], bytes] = {}
    for held in messages_of(brokers, names.verdicts).values():
        for message in held:
            page = json.loads(message.value)["page"]
            place = page["partition"], page["offset"]
            assert found.setdefault(place, message.value) == message.value
    return found


def log_bounds(brokers: str, names: Names) -> tuple[int, int]:
    async def run() -> tuple[int, int]:
        async with open_reader({"bootstrap_servers": brokers}) as reader:
            return await reader.bounds(names.log(0), 0)

    return asyncio.run(run())


def lose_and_restore(workers: Fleet, index: Path, to: str) -> int:
    """Kill the worker, restore its index, start it; return where it began in its log."""
    workers.kill("all", signal.SIGKILL)
    shutil.rmtree(index)
    done = streamer("restore", to, index)
    assert done.returncode == 0, done.stderr
    workers.start("all")
    workers.wait_for_log("all", "shard_caught_up")
    log = workers.log("all")[workers.marks["all"] :]
    [assigned] = [json.loads(line) for line in log.splitlines() if "shard_assigned" in line]
    return int(assigned["position"])


@pytest.fixture
def to(store: ObjectStore) -> Snapshots:
    """Return where snapshots are put in an object store, and the folder that has its files."""
    return Snapshots(store.url, store.files / "index")


def test_a_lost_index_comes_back_from_a_snapshot_and_logs_without_a_beginning(
    brokers: str, names: Names, crawl: Path, tmp_path: Path, to: Snapshots
) -> None:
    index = tmp_path / "index"
    trimming = ["trim-log", "--snapshots", to.name]
    trimming += ["--brokers", brokers, "--index-name", names.index]
    load(brokers, names, crawl)
    with fleet(tmp_path, brokers, names) as workers:
        snapshots = ("--snapshot-to", to.name, "--snapshot-every", "1s", "--snapshot-keep", "2")
        workers.settle("all", "--index", index, *snapshots)
        before = verdicts_of(brokers, names)
        kept = sum(json.loads(value)["verdict"] == "unique" for value in before.values())
        shard = SnapshotFolder(to.name).below("shard-0")
        wait_until(lambda: bool(shard.numbers()) and shard.read().pages >= kept)
        whole = shard.numbers()[-1]
        load(brokers, names, crawl)  # the oldest that is kept has a place in the log then
        wait_until(lambda: shard.numbers()[0] >= whole)
        workers.wait_until_settled()
        before = verdicts_of(brokers, names)
        assert lose_and_restore(workers, index, to.name) > 1
        assert verdicts_of(brokers, names) == before

        start, end = log_bounds(brokers, names)
        done = streamer(*trimming, "--dry-run")
        assert (done.returncode, "would be deleted" in done.stdout) == (0, True), done.stderr
        assert log_bounds(brokers, names) == (start, end) == (0, end)
        done = streamer(*trimming)
        assert done.returncode == 0, done.stderr
        assert 0 < log_bounds(brokers, names)[0] < end

        position = lose_and_restore(workers, index, to.name)
        assert position > log_bounds(brokers, names)[0]
        load(brokers, names, crawl)
        workers.wait_until_settled()
        after = verdicts_of(brokers, names)
        assert before.items() < after.items()
        assert 2 * len(after) == 3 * len(before)
        again = [json.loads(value) for place, value in after.items() if place not in before]
        judged = [each["verdict"] for each in again if each.get("basis") != "too_short"]
        assert {*judged} == {"duplicate"}

        workers.kill("all", signal.SIGTERM)
        shutil.rmtree(index)
        assert workers.start("all").wait(timeout=300) == 3
        assert "Restore a newer snapshot" in workers.log("all")

    for file in (to.files / "shard-0" / "files").iterdir():
        file.write_bytes(b"")
    start, end = log_bounds(brokers, names)
    done = streamer(*trimming)
    assert (done.returncode, "is damaged" in done.stderr) == (3, True), done.stderr
    assert log_bounds(brokers, names) == (start, end)


def test_a_replay_goes_on_from_a_snapshot_of_its_index(crawl: Path, tmp_path: Path) -> None:
    lines = crawl.read_bytes().splitlines(keepends=True)[:600]
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(b"".join(lines[:300]))
    second.write_bytes(b"".join(lines[300:]))
    index, to, verdicts = tmp_path / "index", tmp_path / "snapshots", tmp_path / "verdicts.jsonl"
    replay = ("--index", index, "--verdicts", verdicts, "--head-pages", 100)
    assert streamer("replay", first, *replay).returncode == 0
    assert streamer("snapshot", index, to).returncode == 0
    assert streamer("replay", first, second, *replay).returncode == 0
    wanted = verdicts.read_bytes()
    shutil.rmtree(index)
    assert streamer("restore", to, index).returncode == 0
    done = streamer("replay", first, second, *replay)
    assert done.returncode == 0, done.stderr
    assert verdicts.read_bytes() == wanted
    assert len(wanted.splitlines()) > 500


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
    needed = files_of_two_snapshots(index, snapshots)
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
                self.__dict__ |= checkpoint.__dict__

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
