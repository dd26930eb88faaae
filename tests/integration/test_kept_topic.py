"""`--kept-topic`: each unique page's message in a topic of its own, exactly once, as it came."""

import asyncio
import base64
import json
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic, RecordsToDelete
from aiokafka.protocol.admin import CreateAclsRequest, DeleteGroupsRequest
from aiokafka.structs import TopicPartition

from streamer.errors import StreamerError
from streamer.kafka.kept_copies import PAGE
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from tests.helpers import broker
from tests.helpers.feeder import fed
from tests.helpers.fleet import Fleet, fleet
from tests.helpers.guarded_broker import NAMES, Right, ask, guarded_broker
from tests.helpers.ports import free_port
from tests.helpers.secure_broker import run
from tests.integration import chaos
from tests.integration.chaos import kills, load, make_crawl, rebalances, start_all, zombies
from tests.integration.test_replay_topic import crawl
from tests.integration.test_replay_topic import send as send_parts
from tests.integration.test_worker import page

OURS = 2  # headers that a copy has in addition
STAMP = 1_700_000_000_123


def topic_of(names: Names) -> str:
    return f"{names.index}-unique"


def expected(brokers: str, names: Names) -> dict[int, list[tuple[object, ...]]]:
    """Return by partition the pages that verdicts call unique, in the order of their verdicts."""
    pages = {
        partition: {each.offset: each for each in messages}
        for partition, messages in broker.messages_of(brokers, names.pages).items()
    }
    found: dict[int, dict[int, tuple[object, ...]]] = {partition: {} for partition in pages}
    for messages in broker.messages_of(brokers, names.verdicts).values():
        for message in messages:
            verdict = json.loads(message.value)
            if verdict["verdict"] == "unique":
                partition, offset = verdict["page"]["partition"], verdict["page"]["offset"]
                sent = pages[partition][offset]
                own = sent.key, sent.value, tuple(sent.headers), sent.timestamp
                found[partition].setdefault(offset, own)
    return {partition: list(each.values()) for partition, each in found.items()}


def copies(brokers: str, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """Return the copies by partition, without the headers that streamer adds."""
    return {
        partition: [
            (each.key, each.value, tuple(each.headers[:-OURS]), each.timestamp) for each in messages
        ]
        for partition, messages in broker.messages_of(brokers, topic).items()
    }


def lag(brokers: str, names: Names) -> int:
    """Return how many verdicts are not copied yet; 1 where it cannot be asked now."""

    async def ask() -> int:
        async with open_reader({"bootstrap_servers": brokers}) as reader:
            committed = await reader.committed(names.kept_group, names.verdicts)
            ends = [
                (await reader.bounds(names.verdicts, each))[1] - committed.get(each, 0)
                for each in await reader.partitions(names.verdicts)
            ]
            return sum(ends)

    try:
        return asyncio.run(ask())
    except StreamerError:
        return 1


def wait_until_copied(workers: Fleet, seconds: float = 90) -> None:
    """Wait until all is judged and copied; restart whoever has ended."""
    workers.wait_until_settled()
    deadline = time.monotonic() + seconds
    while lag(workers.brokers, workers.names):
        assert time.monotonic() < deadline, workers.tails()
        workers.restart_dead()
        time.sleep(0.3)


def see_copies(brokers: str, names: Names, topic: str) -> None:
    wanted, found = expected(brokers, names), copies(brokers, topic)
    assert {p: len(each) for p, each in found.items()} == {p: len(e) for p, e in wanted.items()}
    assert found == wanted


def expire(brokers: str, topic: str, end: int) -> None:
    """Delete the messages of partition 0 before an offset; -1: all."""
    records = {TopicPartition(topic, 0): RecordsToDelete(end)}
    broker.administer(brokers, lambda admin: admin.delete_records(records))


def forget_group(brokers: str, group: str) -> None:
    """Have the brokers forget the offsets of a group, as they do after a week."""
    request = DeleteGroupsRequest([group])
    answer = broker.administer(brokers, lambda admin: admin._send_request(request))  # noqa: SLF001 - it has no method for it
    assert answer.results == [(group, 0)]


def kept(names: Names) -> tuple[str, str]:
    return "--kept-topic", topic_of(names)


def test_copies_are_the_messages_as_they_came(brokers: str, names: Names, tmp_path: Path) -> None:
    broker.make_topic(brokers, names.pages, 3)
    headers = [("type", b"\xff\x00"), ("none", None), ("type", b""), ("empty", b"")]

    async def send_all() -> None:
        async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
            for number in range(9):
                # Each twice; the second is a duplicate. Some have no key, or an empty one.
                body = page(number // 2, body=f"{random.Random(number // 2).random()} " * 40)
                key = (None, b"", b"\xfe key")[number % 3]
                await producer.send(
                    names.pages, body, key, 0 if number < 6 else 2, STAMP + number,
                    headers if number % 2 else None,
                )  # fmt: skip
            await producer.send(names.pages, b"{no page", b"bad", 2, STAMP)

    asyncio.run(send_all())
    incompressible = page(5, body=base64.b64encode(random.Random(1).randbytes(3_100_000)).decode())
    expands = page(6, body="to be, or not to be " * 600_000)
    for each, codec in ((incompressible, None), (expands, "gzip")):
        broker.send(brokers, names.pages, [(b"key", each)], compression_type=codec)
    with fleet(tmp_path, brokers, names, options=kept(names)) as workers:
        workers.start("all", "--index", tmp_path / "index")
        wait_until_copied(workers)
        assert workers.kill("all", signal.SIGTERM) == 0, workers.log("all")
    see_copies(brokers, names, topic_of(names))
    found = broker.messages_of(brokers, topic_of(names))
    assert sorted(found) == [0, 1, 2]
    assert sum(map(len, found.values())) == 5 + 2
    first = found[0][0]
    assert first.headers[-OURS:] == (
        ("streamer.index", names.index.encode()), (PAGE, f"{names.pages}/0@0".encode()),
    )  # fmt: skip


DISTURBANCES: dict[str, tuple[Callable[[Fleet, int, random.Random], None], int]] = {
    "kills": (kills, 8),
    "joins": (partial(rebalances, event="kept_topic_assigned"), 3),
    "zombies": (partial(zombies, names="sign"), 1),
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_each_kept_page_is_copied_once_in_order_under(
    name: str, brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    disturb, rounds = DISTURBANCES[name]
    load(brokers, names, crawl)
    with fleet(tmp_path, brokers, names, kept(names)) as workers:
        start_all(workers)
        with fed(brokers, names.pages, crawl, 6_000, rounds * 2.0):
            workers.wait_for_log("sign-0", "worker_started")
            disturb(workers, rounds, random.Random(name))
        wait_until_copied(workers)
        assert "kept_topic_assigned" in workers.log("sign-0") + workers.log("sign-1")
    see_copies(brokers, names, topic_of(names))


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # as in test_campaign.py
def test_a_page_is_copied_once_over_broker_kills(names: Names, crawl: Path, tmp_path: Path) -> None:
    port = free_port()
    with (
        broker.running_broker(tmp_path / "broker", port) as brokers,
        fleet(tmp_path / "fleet", brokers, names, options=kept(names)) as workers,
    ):
        load(brokers, names, crawl)
        workers.start("all", "--index", tmp_path / "index")
        workers.wait_for_log("all", "kept_topic_assigned")
        with fed(brokers, names.pages, crawl, 4_000, 20.0):
            chaos.broker_kills(workers, 2, tmp_path / "broker", port)
        wait_until_copied(workers)
        see_copies(brokers, names, topic_of(names))


def test_pages_and_verdicts_that_expired_uncopied_stop_the_worker_or_are_counted(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    broker.make_topic(brokers, names.pages)
    pages = [page(n, body=f"{random.Random(n).random()} " * 40) for n in range(6)]
    broker.send(brokers, names.pages, [(None, each) for each in pages])
    with fleet(tmp_path, brokers, names) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        assert workers.kill("all", signal.SIGTERM) == 0
        expire(brokers, names.pages, 4)
        workers.options = kept(names)
        assert workers.start("all").wait(timeout=300) == 3
        reported = (
            f"The topic {names.pages} has lost pages that were not copied to {topic_of(names)}"
        )
        assert f"{reported} yet: partition 0, offsets 0 to 0. Raise its retention; " in workers.log(
            "all"
        )
        workers.options = (*kept(names), "--kept-expired", "skip")
        workers.start("all")
        wait_until_copied(workers)
        assert workers.log("all").count('"event": "kept_pages_expired"') == 4
        assert workers.kill("all", signal.SIGTERM) == 0
        workers.options = ()
        broker.send(brokers, names.pages, [(None, page(6, body="another text of a page " * 30))])
        workers.settle("all")
        assert workers.kill("all", signal.SIGTERM) == 0
        expire(brokers, names.verdicts, -1)
        workers.options = kept(names)
        assert workers.start("all").wait(timeout=300) == 3
        assert f"The topic {names.verdicts} has lost verdicts" in workers.log("all")
        workers.options = (*kept(names), "--kept-expired", "skip")
        workers.start("all")
        wait_until_copied(workers)
    assert [each[1] for each in copies(brokers, topic_of(names))[0]] == pages[4:]


def test_offsets_that_the_brokers_have_forgotten_are_no_reason_to_copy_twice(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    broker.fill_topic(brokers, names.pages, [(None, page(0))])
    with fleet(tmp_path, brokers, names, options=kept(names)) as workers:
        workers.start("all", "--index", tmp_path / "index")
        wait_until_copied(workers)
        assert workers.kill("all", signal.SIGTERM) == 0
        forget_group(brokers, names.kept_group)
        assert workers.start("all").wait(timeout=300) == 3
        assert f"{topic_of(names)} has copies of this index, and the group" in workers.log("all")
        workers.options = ("--kept-topic", f"{topic_of(names)}-again")
        workers.start("all")
        wait_until_copied(workers)
    see_copies(brokers, names, topic_of(names))
    see_copies(brokers, names, f"{topic_of(names)}-again")


def test_pages_of_all_partitions_are_copied(brokers: str, names: Names, tmp_path: Path) -> None:
    names, topic, partitions = replace(names, per_partition=True), topic_of(names), 6
    broker.make_topic(brokers, names.pages, partitions)
    send_parts(brokers, names.pages, [crawl(part, count=30) for part in range(partitions)])
    with fleet(tmp_path, brokers, names, options=("--per-partition",)) as workers:
        for number in range(2):
            workers.start(f"sign-{number}", "--role", "sign")
            workers.start(
                f"index-{number}", "--role", "index", "--own-shards", f"{number}/2",
                "--index", tmp_path / f"index-{number}", "--kept-topic", topic,
            )  # fmt: skip
        kills(workers, 2, random.Random(6))
        wait_until_copied(workers)
        workers.see_that_all_holds()
    see_copies(brokers, names, topic)
    assert all(broker.messages_of(brokers, names.verdicts).values())


TOPIC, USER = "unique-pages", "streamer-sign"
RIGHTS = [  # in addition; with Read of the pages, which signers have
    Right(USER, "READ", "TOPIC", "LITERAL", NAMES.verdicts),
    Right(USER, "READ", "TOPIC", "LITERAL", TOPIC),
    Right(USER, "WRITE", "TOPIC", "LITERAL", TOPIC),
    Right(USER, "DESCRIBE_CONFIGS", "TOPIC", "LITERAL", TOPIC),
    Right(USER, "READ", "GROUP", "LITERAL", NAMES.kept_group),
    Right(USER, "WRITE", "TRANSACTIONAL_ID", "PREFIXED", NAMES.kept_group),
]
CONFIG = {"max.message.bytes": str(5 << 20), "retention.ms": "-1"}


def refused(workers: Fleet) -> str:
    """Start the signer, which ends with exit code 1; return its log."""
    assert workers.start("sign").wait(timeout=300) == 1, workers.log("sign")
    return workers.log("sign")[workers.marks["sign"] :]


def test_a_signer_with_the_rights_copies_and_a_missing_one_is_named(tmp_path: Path) -> None:
    with guarded_broker(tmp_path) as guarded:
        topic = NewTopic(TOPIC, 12, 1, topic_configs=CONFIG)
        broker.administer(guarded.opened, lambda admin: admin.create_topics([topic]))
        guarded.streamer("crawler", "produce", make_crawl(tmp_path, 300), "--topic", NAMES.pages)
        with fleet(tmp_path / "fleet", guarded.address, NAMES) as workers:
            own = ("--role", "index", "--index", tmp_path / "index")
            workers.start("index", *own, *guarded.login("streamer-index"))
            workers.wait_for_log("index", "shard_caught_up")
            kept = ("--role", "sign", "--kept-topic", TOPIC)
            workers.commands["sign"] = (*kept, *guarded.login(USER))
            assert f"may not join the group {NAMES.kept_group}." in refused(workers)
            for each in RIGHTS[:-1]:
                run(ask(guarded.opened, [each.request(CreateAclsRequest)]))
            assert f"Cannot copy kept pages to {TOPIC}: TransactionalIdAuthoriz" in refused(workers)
            run(ask(guarded.opened, [RIGHTS[-1].request(CreateAclsRequest)]))
            workers.start("sign")
            workers.brokers = guarded.opened
            wait_until_copied(workers)
            assert workers.kill("sign", signal.SIGTERM) == 0, workers.log("sign")
        see_copies(guarded.opened, NAMES, TOPIC)
