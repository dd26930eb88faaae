"""What idleness does to workers: brokers forget what is old, and nothing may depend on that."""

import asyncio
import json
import os
import random
import signal
import time
from pathlib import Path
from unittest.mock import patch

from aiokafka.structs import TopicPartition

from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from tests.helpers.broker import broker, make_topic, messages_of, running_broker, send, verdicts_of
from tests.helpers.fleet import fleet
from tests.helpers.ports import free_port
from tests.integration.chaos import start_owner
from tests.integration.test_kept_topic import (
    copies,
    forget_group,
    kept,
    see_copies,
    topic_of,
    wait_until_copied,
)
from tests.integration.test_replay_topic import send as send_parts
from tests.integration.test_worker import page


def log_end(brokers: str, names: Names) -> int:
    return len(messages_of(brokers, names.log(0))[0])


def test_after_weeks_of_rest_nothing_is_signed_or_published_again(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    make_topic(brokers, names.pages, partitions=40)
    with fleet(tmp_path, brokers, names) as workers:
        workers.start("sign-0", "--role", "sign")
        start_owner(workers)
        workers.wait_for_log("index-0", "worker_started")
        for first in (0, 40):  # the log gets a record for each partition
            send_parts(brokers, names.pages, [[(None, page(first + n))] for n in range(40)])
            while log_end(brokers, names) <= first + 40:
                pass
        workers.wait_until_settled()
        before = verdicts_of(brokers, names)
        end = log_end(brokers, names)
        for name in ("sign-0", "index-0"):
            assert workers.kill(name, signal.SIGTERM) == 0
        for group in (names.sign_group, names.shard_group(0)):
            forget_group(brokers, group)
        for name in ("sign-0", "index-0"):
            workers.start(name)
        workers.wait_until_settled()
        assert log_end(brokers, names) == end, "signed again"
        assert verdicts_of(brokers, names) == before
        send(brokers, names.pages, [(None, page(1000))])
        workers.wait_until_settled()
        workers.see_that_all_holds()
    assert len(verdicts_of(brokers, names)) == len(before) + 1


def test_brokers_that_forget_connections_producers_and_transactions_get_what_comes_later(
    names: Names, tmp_path: Path
) -> None:
    (tmp_path / "extra").write_text(
        "connections.max.idle.ms=2000\nproducer.id.expiration.ms=500\n"
        "producer.id.expiration.check.interval.ms=500\ntransactional.id.expiration.ms=1000\n"
        "transaction.remove.expired.transaction.cleanup.interval.ms=500\n"
    )
    with (
        patch.dict(os.environ, {"BROKER_EXTRA": str(tmp_path / "extra")}),
        running_broker(tmp_path / "broker", free_port()) as brokers,
        fleet(tmp_path / "fleet", brokers, names, kept(names)) as workers,
    ):
        assert "running already" in broker("start", tmp_path / "broker")
        make_topic(brokers, names.pages)
        workers.start("all", "--index", tmp_path / "index")
        workers.wait_for_log("all", "worker_started")
        for number in range(3):
            text = f"{random.Random(number).random()} " * 40
            send(brokers, names.pages, [(None, page(number, body=text))])
            wait_until_copied(workers)
            time.sleep(4)  # beyond all that the broker keeps
        see_copies(brokers, names, topic_of(names))
        assert len(copies(brokers, topic_of(names))[0]) == len(verdicts_of(brokers, names)) == 3
        workers.see_that_all_holds()
        assert workers.kill("all", signal.SIGTERM) == 0
        reported = [json.loads(line) for line in workers.log("all").splitlines()]
    # Of its transactions the client says so, and the copying connects again; nothing else is said.
    known = "InvalidProducerIdMapping", "kept_topic_restarting"
    assert not [
        each for each in reported
        if each["level"] != "info" and not any(word in str(each) for word in known)
    ]  # fmt: skip
    assert [each["event"] for each in reported].count("worker_starting") == 1
    assert "not running" in broker("stop", tmp_path / "broker")


def test_reading_ends_also_while_the_client_changes_what_it_reads(brokers: str, topic: str) -> None:
    async def read_and_stop() -> None:
        async with open_reader({"bootstrap_servers": brokers}) as reader:
            async for _ in reader.read(topic, 0, 0, 5):
                pass
            await reader.consumer.getmany(timeout_ms=100)  # so that a fetch is under way
            reader.consumer.assign([TopicPartition(topic, 1)])

    make_topic(brokers, topic, partitions=2)
    send(brokers, topic, [(None, page(n)) for n in range(5)])
    for _ in range(3):
        began = time.monotonic()
        asyncio.run(asyncio.wait_for(read_and_stop(), 120))
        assert time.monotonic() - began < 60
