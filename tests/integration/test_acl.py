"""The users of deploy/kubernetes/strimzi on a broker that refuses what is not allowed.

Each role runs as its user. The broker's own log then tells by which right each thing was given: all
rights must be among them, so that none is too much.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import nullcontext, suppress

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError, for_code
from aiokafka.structs import TopicPartition

from streamer.errors import StreamerError
from streamer.kafka.topics import Topic, ensure_topic
from tests.helpers.fleet import fleet
from tests.helpers.guarded_broker import (
    NAMES,
    RIGHTS,
    SHARDS,
    USERS,
    Guarded,
    denied,
    guarded_broker,
    used_rights,
)
from tests.helpers.secure_broker import run
from tests.integration.chaos import make_crawl

MAKERS = {"crawler", "streamer-sign", "streamer-index"}  # where a topic is missing
NEW_TOPIC = "streamer.bands.7"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as started:
        yield started


@pytest.fixture(scope="module")
def judged(guarded: Guarded) -> str:
    """Have pages sent, judged, verified, replayed and read, each by its user.

    Return what the broker has decided meanwhile.
    """
    begin = guarded.audit.stat().st_size
    crawl = make_crawl(guarded.folder, 300)
    guarded.streamer("crawler", "produce", crawl, "--topic", NAMES.pages)
    with fleet(guarded.folder / "fleet", guarded.address, NAMES, SHARDS) as workers:
        for shard in range(SHARDS):
            own = ("--role", "index", "--own-shards", shard, "--index", workers.folder / str(shard))
            workers.start(f"index-{shard}", *own, *guarded.login("streamer-index"))
            workers.wait_for_log(f"index-{shard}", "shard_caught_up")
        # Each comes when there is something to read for it: the gauge, and the logs' beginnings.
        workers.start("sign", "--role", "sign", *guarded.login("streamer-sign"))
        guarded.streamer("streamer-operator", "verify", "--settled", "--wait", 90)
        for name in list(workers.running):
            assert workers.kill(name, signal.SIGTERM) == 0, workers.log(name)
    replay = (
        "replay", "--from-topic", NAMES.pages, "--order-of", NAMES.index, "--shards", SHARDS,
        "--key-file", workers.folder / "key", "--verdicts", guarded.folder / "replayed.jsonl",
    )  # fmt: skip
    guarded.streamer("streamer-operator", *replay)
    assert guarded.streamer("streamer-reader", "tail", "--limit", 3).count("\n") == 3
    run(read_as_group(guarded))
    return guarded.audit.read_text()[begin:]


async def read_as_group(guarded: Guarded) -> None:
    options = {"group_id": "streamer-reader.tests", "auto_offset_reset": "earliest"}
    client = guarded.client("streamer-reader")
    async with AIOKafkaConsumer(NAMES.verdicts, **options, **client) as consumer:
        await asyncio.wait_for(consumer.getone(), 30)
        await consumer.commit()


# ---- what they may -------------------------------------------------------------------------------


def test_every_role_does_its_work_and_needs_each_of_its_rights(judged: str) -> None:
    assert sorted(set(RIGHTS) - used_rights(judged)) == [], "these are of no use"


def test_a_role_asks_for_nothing_else_but_to_make_topics(judged: str) -> None:
    refused = denied(judged)
    assert {each.user for each in refused if each.request == "CreateTopics"} == MAKERS
    # The list of all topics leaves out the others, and a producer's number comes with any Write.
    others = {each.request for each in refused} - {"CreateTopics"}
    assert others == {"Metadata", "InitProducerId"}


# ---- what they may not ---------------------------------------------------------------------------


async def write(guarded: Guarded, user: str, topic: str) -> None:
    async with AIOKafkaProducer(**guarded.client(user)) as producer:
        await asyncio.wait_for(producer.send_and_wait(topic, b"{}", partition=0), 20)


async def read(guarded: Guarded, user: str, topic: str) -> dict[TopicPartition, list[object]]:
    """Return what there is; of a topic that it may not even see, the client waits for more."""
    async with AIOKafkaConsumer(**guarded.client(user)) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        with suppress(TopicAuthorizationFailedError):
            found: dict[TopicPartition, list[object]] = await consumer.getmany(timeout_ms=1_000)
            return found
    return {}


async def join(guarded: Guarded, user: str, group: str) -> None:
    async with AIOKafkaConsumer(group_id=group, **guarded.client(user)) as consumer:
        place = TopicPartition(NAMES.verdicts, 0)
        consumer.assign([place])
        await asyncio.wait_for(consumer.commit({place: 0}), 20)


WRITES = [
    ("streamer-sign", NAMES.verdicts),
    ("streamer-sign", NAMES.gauge),
    ("streamer-sign", NAMES.pages),
    ("streamer-index", NAMES.pages),
    ("streamer-index", NAMES.dead_letters),
    ("crawler", NAMES.verdicts),
    ("crawler", NAMES.log(0)),
    ("streamer-reader", NAMES.verdicts),
    ("streamer-operator", NAMES.pages),
    ("streamer-operator", NAMES.verdicts),
    ("streamer-operator", NAMES.log(0)),
]
READS = [
    ("streamer-sign", NAMES.verdicts),
    ("streamer-sign", NAMES.dead_letters),
    ("streamer-index", NAMES.pages),
    ("streamer-index", NAMES.verdicts),
    ("crawler", NAMES.pages),
    ("crawler", NAMES.verdicts),
    ("streamer-reader", NAMES.pages),
    ("streamer-reader", NAMES.log(0)),
]
JOINS = [
    ("streamer-sign", NAMES.shard_group(0)),
    ("streamer-index", NAMES.sign_group),
    ("streamer-reader", NAMES.sign_group),
    ("streamer-operator", NAMES.sign_group),
    ("streamer-operator", NAMES.shard_group(1)),
    ("crawler", NAMES.sign_group),
]


@pytest.mark.parametrize(("user", "topic"), WRITES)
def test_a_user_cannot_write_what_is_not_its_own(guarded: Guarded, user: str, topic: str) -> None:
    with pytest.raises(TopicAuthorizationFailedError):
        run(write(guarded, user, topic))


@pytest.mark.parametrize(("user", "topic"), READS)
def test_a_user_cannot_read_what_it_does_not_need(guarded: Guarded, user: str, topic: str) -> None:
    begin = guarded.audit.stat().st_size
    assert run(read(guarded, user, topic)) == {}
    refused = denied(guarded.audit.read_text()[begin:])
    assert (user, topic) in {(each.user, each.name) for each in refused}


@pytest.mark.parametrize(("user", "group"), JOINS)
def test_a_user_cannot_move_the_offsets_of_others(guarded: Guarded, user: str, group: str) -> None:
    with pytest.raises(GroupAuthorizationFailedError):
        run(join(guarded, user, group))


@pytest.mark.parametrize("user", [user["metadata"]["name"] for user in USERS])
def test_nobody_makes_or_deletes_topics(guarded: Guarded, user: str) -> None:
    async def attempts() -> list[type[Exception]]:
        admin = AIOKafkaAdminClient(**guarded.client(user))
        await admin.start()
        try:
            made = await admin.create_topics([NewTopic(NEW_TOPIC, 1, 1)])
            deleted = await admin.delete_topics([NAMES.verdicts])
        finally:
            await admin.close()
        return [for_code(made.topic_errors[0][1]), for_code(deleted.topic_error_codes[0][1])]

    assert run(attempts()) == [TopicAuthorizationFailedError] * 2


# ---- what is said of it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("streamer-sign", None),
        ("streamer-reader", "settings of the topic streamer.verdicts: TopicAuthorizationFailed"),
        ("crawler", "streamer.verdicts is missing, or hidden from this user, who may not make it"),
    ],
)
def test_a_right_that_lacks_at_the_start_is_named(
    guarded: Guarded, user: str, said: str | None
) -> None:
    verdicts = Topic(NAMES.verdicts, 1, 1, {"cleanup.policy": "delete"})

    async def ensure() -> None:
        admin = AIOKafkaAdminClient(**guarded.client(user))
        await admin.start()
        try:
            assert not await ensure_topic(admin, verdicts)
        finally:
            await admin.close()

    with pytest.raises(StreamerError, match=said) if said else nullcontext():
        run(ensure())
