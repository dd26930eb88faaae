"""`--also`: pages that are near to those of another index, in a replay and in a worker."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

from streamer.kafka.topics import Names
from tests.helpers.broker import messages_of
from tests.helpers.fleet import KEY, fleet, streamer
from tests.helpers.place import lines
from tests.integration.chaos import load


def halves(crawl: Path, folder: Path) -> tuple[Path, Path]:
    lines = crawl.read_bytes().splitlines(keepends=True)
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    first.write_bytes(b"".join(lines[:1000]))
    second.write_bytes(b"".join(lines[1000:2000]))
    return first, second


def elsewhere(verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the representatives that other indexes have."""
    others = [each["representative"] for each in verdicts if each["representative"]]
    return [other for other in others if "index" in other]


def test_a_replay_names_the_index_that_has_the_representative(crawl: Path, tmp_path: Path) -> None:
    first, second = halves(crawl, tmp_path)
    clean, index, out = tmp_path / "clean", tmp_path / "index", tmp_path / "v.jsonl"
    one_run = tmp_path / "both.jsonl"
    assert streamer("replay", first, "--index", clean, "--verdicts", one_run).returncode == 0
    replay = ("replay", second, "--verdicts", out, "--also", f"clean={clean}", "--index", index)

    refused = streamer(*replay)
    remedy = f"make the new one with --key-file {clean}/secret.key"
    assert (refused.returncode, remedy in refused.stderr) == (3, True), refused.stderr
    assert not index.exists()
    assert not out.exists()

    keyed = (*replay, "--key-file", clean / "secret.key")
    done = streamer(*keyed)
    assert done.returncode == 0, done.stderr
    found = lines(out)
    named = elsewhere(found)
    assert len(named) > 50
    assert {other["index"] for other in named} == {"clean"}
    assert {other["page"]["topic"] for other in named} == {str(first)}
    clusters = tmp_path / "clusters.csv"
    assert streamer("clusters", out, "--out", clusters).returncode == 0
    assert f"clean:{first}" in clusters.read_text()

    shown = streamer("inspect", index, "--json")
    assert json.loads(shown.stdout)["settings"]["also"].startswith("clean (")
    third = tmp_path / "third.jsonl"
    third.write_bytes(second.read_bytes())
    again = streamer("replay", third, *keyed[2:])
    assert (again.returncode, "Warning" in again.stderr) == (0, False), again.stderr
    assert {each["verdict"] for each in lines(out)[len(found) :]} >= {"duplicate"}
    without = [each for each in keyed if each not in {"--also", f"clean={clean}"}]
    reported = streamer(*without)
    assert (reported.returncode, "from here on it is none" in reported.stderr) == (0, True), (
        reported.stderr
    )


def test_a_worker_compares_with_another_index_and_its_log_names_it(
    brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    first, second = halves(crawl, tmp_path)
    clean, index, key = tmp_path / "clean", tmp_path / "index", tmp_path / "key"
    key.write_text(KEY)
    made = ("replay", "--index", clean, "--verdicts", tmp_path / "v", "--key-file", key)
    assert streamer(*made, first).returncode == 0
    snapshots = tmp_path / "snapshots"
    assert streamer("snapshot", clean, snapshots).returncode == 0
    load(brokers, names, second)
    also = ("--also", f"clean={clean}")
    with fleet(tmp_path / "run", brokers, names, also) as workers:
        workers.settle("all", "--index", index)
        held = messages_of(brokers, names.verdicts)
        values = [message.value for part in held.values() for message in part]
        found = [json.loads(value) for value in values]
        assert len(elsewhere(found)) > 50
        workers.see_that_all_holds(*also)
        missing = workers.verify("--settled")
        assert (missing.returncode, "Give --also clean=" in missing.stderr) == (3, True)
        assert sorted(workers.replayed()) == sorted(values)

        assert workers.kill("all", signal.SIGTERM) == 0
        assert streamer(*made, first, second).returncode == 0  # it is another index now
        shutil.rmtree(index)
        assert workers.start("all").wait(timeout=300) == 3
        assert "Give --also clean=FOLDER with it: restored of a snapshot" in workers.log("all")
        shutil.rmtree(clean)
        assert streamer("restore", snapshots, clean).returncode == 0
        workers.start("all")
        workers.wait_for_log("all", "shard_caught_up")
        workers.wait_until_settled()
        again = messages_of(brokers, names.verdicts)
        assert {m.value for part in again.values() for m in part} == {*values}
