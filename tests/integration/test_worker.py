"""`streamer worker` on a real broker: same verdicts as a replay, and what stops it."""

import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.structs import TopicPartition

from streamer.kafka.topics import Names
from tests.helpers import broker
from tests.helpers.broker import fill_topic, make_topic, messages_of, send, verdicts_of
from tests.helpers.fleet import KEY, ROOT, Fleet, fleet, streamer
from tests.helpers.ports import free_port
from tests.integration.chaos import judging, load, start_all, start_owner

TEXT = "the quick brown fox jumps over a lazy dog while animals of the farm look on and wonder"


def page(number: int, **more: Any) -> bytes:
    fields = {"url": f"http://a.example/{number}", "body": f"{TEXT} {number}", **more}
    return json.dumps(fields).encode()


def test_verdicts_are_shown_as_they_come(brokers: str, names: Names, tmp_path: Path) -> None:
    tail = [sys.executable, "-m", "streamer", "tail", "--limit", "3", "--brokers", brokers]
    tail += ["--index-name", names.index]
    showing = subprocess.Popen(tail, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert showing.stderr is not None
    assert b"waiting for a worker to make it" in showing.stderr.readline()
    fill_topic(brokers, names.pages, [(None, page(n)) for n in range(3)])
    with fleet(tmp_path, brokers, names) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        assert workers.kill("all", signal.SIGTERM) == 0
    shown, _ = showing.communicate(timeout=300)
    assert sorted(shown.splitlines()) == sorted(verdicts_of(brokers, names))


def test_kept_pages_expire_by_their_timestamps(brokers: str, names: Names, tmp_path: Path) -> None:
    hours = [1, 2, 3.9, 4.1, 2, 7, 7.2, 11]  # of 1970, when each date is believed
    make_topic(brokers, names.pages)
    send(brokers, names.pages, [(None, page(0), int(hour * 3_600_000)) for hour in hours])
    with fleet(tmp_path, brokers, names) as workers:
        workers.settle("all", "--index", tmp_path / "index", "--expire-after", "3h")
    found = map(json.loads, verdicts_of(brokers, names))
    others = [each["representative"] for each in sorted(found, key=lambda v: v["page"]["offset"])]
    answers = [other and other["page"]["offset"] for other in others]
    assert answers == [None, 0, 0, None, 3, 3, None, None]


def test_a_stop_and_a_start_repeat_nothing_and_verdicts_are_those_of_a_replay(
    brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    load(brokers, names, crawl)
    with fleet(tmp_path, brokers, names) as workers:
        start_all(workers)
        for _ in range(2):
            for name in ("sign-0", "index-0"):
                workers.wait_for_log(name, "worker_started")
            for name in ("sign-0", "index-0"):
                assert workers.kill(name, signal.SIGTERM) == 0, workers.log(name)
                workers.start(name)
        workers.wait_until_settled()
        workers.see_that_all_holds()
        found = verdicts_of(brokers, names)
        assert len(set(found)) == len(found) > 2_500, "a verdict was repeated"
        assert sorted(workers.replayed()) == sorted(found)


def asked(port: int, path: str) -> bytes:
    """Return what a worker answers, whatever the status."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.read()


def test_one_process_does_it_all_tells_how_it_is_and_rebuilds_an_index_without_any_repeat(
    brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    load(brokers, names, crawl)
    port = free_port()
    with fleet(tmp_path, brokers, names) as workers:
        index = tmp_path / "index"
        workers.options = ()
        workers.start("all", "--index", index, "--health-port", port)
        workers.wait_for_log("all", "worker_started")
        assert json.loads(asked(port, "health/live")) == {"live": True}
        workers.wait_until_settled()
        assert json.loads(asked(port, "health/ready")) == {"ready": True, "reasons": []}
        metrics = asked(port, "metrics").decode()
        counted = sum(
            float(line.split()[-1])
            for line in metrics.splitlines()
            if line.startswith("streamer_verdicts_total{")
        )
        before = verdicts_of(brokers, names)
        assert counted == len(before) > 2_500
        workers.see_that_all_holds()
        assert workers.kill("all", signal.SIGTERM) == 0
        assert sorted(path.name for path in index.iterdir()) == ["shard-0"]
        shutil.rmtree(index)
        workers.start("all")
        workers.wait_for_log("all", "shard_caught_up")
        workers.wait_until_settled()
        assert [path.name for path in index.iterdir()] == ["shard-0"]
    assert verdicts_of(brokers, names) == before


def test_new_partitions_under_load(brokers: str, names: Names, crawl: Path, tmp_path: Path) -> None:
    load(brokers, names, crawl, partitions=1)
    with judging(tmp_path, brokers, names, 1) as workers:
        workers.wait_for_log("sign-0", "worker_started")
        more = {names.pages: NewPartitions(3)}
        broker.administer(brokers, lambda admin: admin.create_partitions(more))
        load(brokers, names, crawl)
    partitions = {json.loads(v)["page"]["partition"] for v in verdicts_of(brokers, names)}
    assert partitions == {0, 1, 2}


def started(workers: Fleet, name: str, *options: object) -> tuple[int, str]:
    """Start a worker that is to end by itself; return its exit code, and its log."""
    return workers.start(name, *options).wait(timeout=300), workers.log(name)


def test_a_topic_or_a_log_made_anew_is_refused(brokers: str, names: Names, tmp_path: Path) -> None:
    index = ("--index", tmp_path / "index")
    with fleet(tmp_path, brokers, names) as workers:
        code, log = started(workers, "sign", "--role", "sign")
        assert (code, f"There is no topic {names.pages}" in log) == (1, True)
        fill_topic(brokers, names.pages, [(None, page(n)) for n in range(5)])
        workers.settle("all", *index)
        workers.kill("all", signal.SIGTERM)
        send(brokers, names.pages, [(None, page(n)) for n in range(5, 10)])
        records = {TopicPartition(names.pages, 0): RecordsToDelete(8)}
        broker.administer(brokers, lambda admin: admin.delete_records(records))
        code, log = started(workers, "all")
        assert code == 3, log
        assert "3 messages have expired unread. Start with --accept-loss" in log
        broker.delete_topic(brokers, names.log(0))
        code, log = started(workers, "owner", *index)
        assert code == 3, log
        assert "the log was made again" in " ".join(log.split())
        broker.delete_topic(brokers, names.pages)
        make_topic(brokers, names.pages)
        for role in ("sign", "all"):
            code, log = started(workers, role, *index, "--role", role)
            assert code == 3, log
            assert "it was made again" in " ".join(log.split())


def test_a_key_or_settings_of_another_index_are_refused_before_anything_is_written(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    make_topic(brokers, names.pages)
    with fleet(tmp_path, brokers, names) as workers:
        start_owner(workers)
        workers.wait_for_log("index-0", "worker_started")
        code, log = started(workers, "other", "--role", "sign", "--rows", "5")
        assert code == 3, log
        said = "and signature settings (--method, its options, --canonical, --text, --exact, what"
        assert said in " ".join(log.split())
    assert len(messages_of(brokers, names.log(0))[0]) == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "A worker needs a key"),
        (
            ("--key-file", "KEY", "--per-partition", "--own-shards", "1/0"),
            2,
            "or 1/3: of each three",
        ),
        (("--key-file", "KEY", "--per-partition", "--tombstones", "forget"), 2, "key is its URL"),
        (("--key-file", "KEY", "--index-name", "a/b"), 2, "--index-name cannot be 'a/b'"),
        (("--key-file", "KEY", "--brokers", "127.0.0.1:1"), 1, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(
    tmp_path: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    arguments = [key if option == "KEY" else option for option in options]
    done = streamer("worker", "--index", tmp_path / "index", "--health-port", 0, *arguments)
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
