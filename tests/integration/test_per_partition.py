"""An index for each partition (`--per-partition`): its verdicts are those of its replay alone."""

import asyncio
import random
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from aiokafka.admin import NewPartitions

from streamer.errors import StreamerError
from streamer.kafka.topics import Names, TopicWatch, topic_id
from tests.helpers.broker import administer, messages_of
from tests.helpers.fleet import Fleet, fleet, streamer
from tests.helpers.wait import wait_until
from tests.integration.chaos import kills
from tests.integration.test_replay_topic import PARTITIONS, Place, crawl, page, send

COUNT = 4000  # pages a partition, of which the window has 1000
OPTIONS = ("--exact", "--near-misses", "0.2", "--track-changes", "--bucket-max", "4")


def start(workers: Fleet, options: tuple[str, ...] = OPTIONS) -> None:
    """Start two signers, and two workers that own every second shard each."""
    for number in range(2):
        workers.start(
            f"sign-{number}", "--role", "sign", "--per-partition", "--window", "1000", *options
        )
        workers.start(
            f"index-{number}", "--role", "index", "--per-partition", "--index",
            workers.folder / f"index-{number}", "--own-shards", f"{number}/2", *options,
        )  # fmt: skip


def of_host(host: int, number: int) -> bytes:
    """Return a page of a host, which shares little with others."""
    _, value = page(number)
    assert value is not None
    return value.replace(b"a.example", b"h%d.example" % host)


def test_verdicts_of_a_partition_are_those_of_its_replay_alone_over_kills(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    names = replace(names, per_partition=True)
    pages = [crawl(0, count=COUNT)] * PARTITIONS  # which have the same pages, and never meet
    place = Place(tmp_path, brokers)
    with fleet(tmp_path / "run", brokers, names) as workers:
        send(brokers, names.pages, [part[:150] for part in pages])
        start(workers)
        kills(workers, 4, random.Random(1))
        workers.wait_until_settled()
        workers.kill("index-1")  # the owner of shard 1: the others' pages do not wait for it
        send(brokers, names.pages, [part[150:] for part in pages])
        workers.start("sign-2", *workers.commands["sign-0"])  # nor do they in a rebalance

        def others_are_judged() -> bool:
            found = messages_of(brokers, names.verdicts)
            return all(len({each.value for each in found[p]}) == COUNT for p in (0, 2))

        wait_until(others_are_judged)
        workers.start("index-1")
        workers.wait_until_settled()
        reported = workers.verify("--settled")
        assert reported.returncode == 0, (reported.stdout, reported.stderr)
    for partition, found in messages_of(brokers, names.verdicts).items():
        first = [*dict.fromkeys(message.value for message in found)]  # repeats have equal bytes
        for order in ((), ("--order-of", names.index)):
            out = f"v{partition}{len(order)}.jsonl"
            chosen = "--partitions", partition, *order
            assert place.replay(names.pages, *chosen, *OPTIONS, out=out) == 0
            assert place.lines(out) == first
            assert sum(b'"duplicate"' in line for line in first) > 50


def test_what_an_index_of_all_partitions_began_is_not_gone_on_with(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    send(brokers, names.pages, [crawl(partition, count=5) for partition in range(PARTITIONS)])
    with fleet(tmp_path, brokers, names) as workers:
        workers.start("all", "--index", tmp_path / "index")
        workers.wait_until_settled()
        workers.kill("all")
        ended = workers.start("all", "--index", tmp_path / "other", "--per-partition")
        assert ended.wait(60) == 3
        assert "Go on as it was begun, or use another --index-name" in workers.log("all")


def test_partitions_that_are_added_begin_with_an_index_each_and_all_forget(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    names = replace(names, per_partition=True)
    file = tmp_path / "pages.jsonl"
    file.write_bytes(b"".join(of_host(n % 8, n) + b"\n" for n in range(40)))
    produce = "produce", file, "--brokers", brokers, "--topic", names.pages, "--partitions", 2
    assert streamer(*produce, "--key", "host").returncode == 0
    sent = messages_of(brokers, names.pages)
    hosts = [{message.key for message in part} for part in sent.values()]
    assert (*map(bool, hosts), hosts[0] & hosts[1]) == (True, True, set())
    assert hosts[0] | hosts[1] == {b"h%d.example" % n for n in range(8)}
    with fleet(tmp_path / "run", brokers, names) as workers:
        worker = workers.start("all", "--index", tmp_path / "index", "--per-partition")
        spare = "--role", "index", "--per-partition", "--index", tmp_path / "spare"
        workers.start("spare", *spare, "--own-shards", "3/4")
        workers.wait_until_settled()
        workers.wait_for_log("spare", "worker_started")  # it owns none of two
        topics = names.pages, names.log(0), names.log(1)
        ids = {each: administer(brokers, partial(topic_id, topic=each)) for each in topics}
        watch = TopicWatch({"bootstrap_servers": brokers}, ids, names)
        asyncio.run(watch.check())
        more = {names.pages: NewPartitions(total_count=3)}
        administer(brokers, lambda admin: admin.create_partitions(more))
        with pytest.raises(StreamerError, match="Start the workers again"):
            asyncio.run(watch.check())  # as each worker does every minute, whatever it has
        assert worker.wait(60) == 1
        assert "Start the workers again" in workers.log("all")
        assert workers.kill("spare", signal.SIGTERM) in {0, 1}
        workers.restart_dead()
        send(brokers, names.pages, [[], [], [(None, of_host(0, n)) for n in range(100)]])
        workers.wait_until_settled()
        assert '"keys_not_shared"' in workers.log("all")
        assert workers.verify("--settled").returncode == 0
        done = streamer(
            "forget", "--host", "h0.example", "--brokers", brokers, "--index-name", names.index,
            "--input-topic", names.pages, "--wait", "60",
        )  # fmt: skip
        assert (done.returncode, "105" in done.stdout) == (0, True), (done.stdout, done.stderr)
