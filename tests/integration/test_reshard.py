"""`streamer reshard`: of a replay's index and a worker's, under kills."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from streamer.kafka.topics import Names
from streamer.run.index_folder import read_meta
from streamer.stored.deep_check import check_index
from tests.helpers.broker import messages_of
from tests.helpers.fleet import Fleet, fleet, streamer
from tests.helpers.kills import code_of
from tests.integration.chaos import load
from tests.integration.test_replay import lines

# Runs the command, and is killed when the n-th of its steps that change the disk is to come.
KILLED = """
import sys
from streamer.upkeep import reshard
from tests.helpers.kills import die_before

reshard.ROWS_AT_ONCE = 512
die_before(
    int(sys.argv[1]), (reshard.Store, "flush"), (reshard, "sync_folder"), (reshard, "_exchange"),
    (reshard.Path, "rename"), (reshard.shutil, "rmtree"),
)
from streamer.cli.main import app
app(sys.argv[2:])
"""


def killed(step: int, *arguments: object) -> int:
    return code_of(KILLED, step, *arguments)


def shards_of(index: Path) -> int:
    store, meta = read_meta(index)
    store.close()
    return int(meta.identity["shards"])


@pytest.fixture
def halves(crawl: Path, tmp_path: Path) -> tuple[Path, Path]:
    lines = crawl.read_bytes().splitlines(keepends=True)
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(b"".join(lines[:1500]))
    second.write_bytes(b"".join(lines[1500:]))
    return first, second


def test_a_replay_goes_on_with_other_shards_wherever_the_command_was_killed(
    halves: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = halves
    index, out, plain = tmp_path / "index", tmp_path / "v.jsonl", tmp_path / "plain.jsonl"
    # One key, always: with several shards a page that is held is judged after some behind it, and
    # under a few keys that makes another page of two alike the kept one.
    index.mkdir()
    (index / "secret.key").write_text(f"{7:064d}\n")
    (index / "secret.key").chmod(0o600)
    kept = ("--exact", "--track-changes")  # sets of shingles, and versions of URLs, come over too
    replay = ("--index", index, "--verdicts", out, "--head-pages", 200, *kept)
    assert streamer("replay", first, *replay).returncode == 0
    judged = len(lines(out))
    ever = ("--index", tmp_path / "ever", "--key-file", index / "secret.key", "--shards", 3, *kept)
    assert streamer("replay", first, second, *ever, "--verdicts", plain).returncode == 0

    codes: list[int] = []
    step = 2
    while not codes or codes[-1]:
        step += 1
        codes.append(killed(step, "reshard", index, "--to", 3))
        assert codes[-1] in {0, -signal.SIGKILL}
        assert shards_of(index) in {1, 3}
        assert not [each for each in check_index(index) if each.damage]
    assert len(codes) > 5
    assert {path.name for path in tmp_path.iterdir()} >= {"index", "index.before"}
    assert not (tmp_path / "index.resharding").exists()
    assert (shards_of(index), shards_of(tmp_path / "index.before")) == (3, 1)

    refused = streamer("replay", first, second, *replay)
    assert (refused.returncode, "--shards is 3 there and 1 here" in refused.stderr) == (3, True)
    assert streamer("replay", first, second, *replay, "--shards", 3).returncode == 0
    assert out.read_text().splitlines()[judged:] == plain.read_text().splitlines()[judged:]
    told = [json.loads(line) for line in out.read_text().splitlines()[judged:]]
    assert {each["change"] for each in told} >= {"unchanged", "new"}
    assert any(each.get("exact") for each in told)
    again = streamer("reshard", index, "--to", 1, "--out", tmp_path / "new")
    assert again.returncode == 0, again.stderr
    assert (shards_of(index), shards_of(tmp_path / "new")) == (3, 1)


def test_what_cannot_be_resharded_is_refused_with_the_remedy(
    halves: tuple[Path, Path], tmp_path: Path
) -> None:
    index = tmp_path / "index"
    none = streamer("reshard", index, "--to", 2)
    assert (none.returncode, "There is no index" in none.stderr) == (1, True), none.stderr
    assert not index.exists()
    replay = ("--index", index, "--verdicts", tmp_path / "v.jsonl")
    assert streamer("replay", halves[0], *replay).returncode == 0
    same = streamer("reshard", index, "--to", 1)
    assert (same.returncode, "has 1 shards already" in same.stdout) == (0, True)
    for options, code, remedy in (
        (("--to", 15), 2, "15 shards need as many bands, there are 14"),
        (("--to", 2, "--new-name", "x"), 2, "Leave out --new-name"),
        (("--to", 2, "--out", halves[0]), 2, "Name another folder as --out"),
    ):
        done = streamer("reshard", index, *options)
        assert (done.returncode, remedy in done.stderr) == (code, True), done.stderr
    (index / "notes.txt").touch()
    more = streamer("reshard", index, "--to", 2)
    assert (more.returncode, "holds more than an index: notes.txt" in more.stderr) == (2, True)
    assert shards_of(index) == 1


# ---- a worker's index ---------------------------------------------------------------------------


def verdicts_of(brokers: str, names: Names) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the verdicts by page; each that comes again must be the same."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for held in messages_of(brokers, names.verdicts).values():
        for message in held:
            verdict = json.loads(message.value)
            place = verdict["page"]["partition"], verdict["page"]["offset"]
            assert found.setdefault(place, verdict) == verdict
    return found


def drain(workers: Fleet, index: Path) -> None:
    """Let the owners read their logs without signers, and stop."""
    workers.start("owners", "--role", "index", "--index", index)
    workers.wait_for_log("owners", "shard_caught_up")
    workers.wait_until_settled()
    assert workers.kill("owners", signal.SIGTERM) == 0


@pytest.mark.parametrize(("before", "after"), [(2, 3)])
def test_a_worker_goes_on_with_other_shards(
    brokers: str, names: Names, halves: tuple[Path, Path], tmp_path: Path, before: int, after: int
) -> None:
    first, second = halves
    index, new = tmp_path / "index", Names(f"{names.index}-2", names.pages)
    command = (
        *("reshard", index, "--to", after, "--brokers", brokers, "--index-name", names.index),
        *("--new-name", new.index, "--input-topic", names.pages),
    )
    load(brokers, names, first)
    with fleet(tmp_path / "old", brokers, names, before) as workers:
        workers.start("all", "--index", index)
        workers.wait_until_settled()
        busy = streamer(*command)
        assert busy.returncode == 1, busy.stderr  # the index is in use
        assert workers.kill("all", signal.SIGTERM) == 0
        load(brokers, names, second)
        workers.start("signer", "--role", "sign")
        workers.wait_for_log("signer", "worker_started")
        signs = streamer(*command)
        assert signs.returncode == 3, signs.stderr
        assert "Stop all workers" in signs.stderr or "has not read" in signs.stderr
        assert workers.kill("signer", signal.SIGTERM) == 0
        drain(workers, index)

        code = killed(6, *command)  # in the midst of it
        assert code == -signal.SIGKILL
        done = streamer(*command)
        assert done.returncode == 0, done.stderr
        said = verdicts_of(brokers, names)

        shutil.copytree(tmp_path / "index.before", tmp_path / "zombie")
        zombie = workers.start("zombie", "--role", "index", "--index", tmp_path / "zombie")
        assert zombie.wait(timeout=60) == 3
        assert f"was given {after} shards (`streamer reshard`)" in workers.log("zombie")
        workers.running.clear()

    with fleet(tmp_path / "new", brokers, new, after) as workers:
        empty = workers.start("empty", "--index", tmp_path / "nothing")
        assert empty.wait(timeout=60) == 3
        assert "Restore a newer snapshot of the index" in workers.log("empty")
        workers.running.clear()
        load(brokers, names, first)
        workers.start("all", "--index", index)
        workers.wait_until_settled()
        assert workers.kill("all", signal.SIGTERM) == 0
    later = verdicts_of(brokers, new)
    assert not said.keys() & later.keys()  # none is judged twice
    pages = sum(len(held) for held in messages_of(brokers, names.pages).values())
    dead = sum(len(held) for held in messages_of(brokers, names.dead_letters).values())
    assert 0 < pages - dead - len(said) - len(later) < pages / 20  # skipped; none is lost
    judged = [v for v in later.values() if v["basis"] != "too_short"]
    copies = [v for v in judged if v["verdict"] == "duplicate"]
    assert len(copies) > len(judged) * 0.95
    places = {
        place for place, verdict in {**said, **later}.items() if verdict["verdict"] == "unique"
    }
    for verdict in copies:
        other = verdict["representative"]["page"]
        assert (other["partition"], other["offset"]) in places
