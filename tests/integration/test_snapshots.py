"""Snapshots of a running worker: a lost index comes back, and logs lose their beginning."""

import asyncio
import json
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from streamer.upkeep.snapshots import SnapshotFolder
from tests.helpers.broker import messages_of
from tests.helpers.fleet import Fleet, fleet, streamer
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
