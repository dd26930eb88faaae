"""The users of deploy/kubernetes/strimzi on a broker that refuses what is not allowed.

Each role runs as its user. The broker's own log then says by which right each thing was given: all
rights must be among them, so that none is too much. One test, since one broker serves all of it.
"""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError, for_code
from aiokafka.structs import TopicPartition

from streamer.errors import StreamerError
from streamer.kafka.prepare import check_groups
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Topic, ensure_topic
from tests.helpers.fleet import fleet
from tests.helpers.guarded_broker import (
    NAMES,
    RIGHTS,
    USERS,
    Guarded,
    denied,
    guarded_broker,
    used_rights,
)
from tests.helpers.secure_broker import run
from tests.integration.chaos import make_crawl

NEW_TOPIC = "streamer.bands.7"
MAKERS = {"crawler", "streamer-sign", "streamer-index"}  # where a topic is missing
NOT_WRITTEN = {
    "streamer-sign": (NAMES.verdicts, NAMES.gauge, NAMES.pages),
    "streamer-index": (NAMES.pages, NAMES.dead_letters),
    "crawler": (NAMES.verdicts, NAMES.log(0)),
    "streamer-reader": (NAMES.verdicts,),
    "streamer-operator": (NAMES.pages, NAMES.verdicts, NAMES.log(0)),
}
NOT_READ = {
    "streamer-sign": (NAMES.verdicts, NAMES.dead_letters),
    "streamer-index": (NAMES.pages, NAMES.verdicts),
    "crawler": (NAMES.pages, NAMES.verdicts),
    "streamer-reader": (NAMES.pages, NAMES.log(0)),
}
JOINS = [
    ("streamer-sign", NAMES.shard_group(0)),
    ("streamer-index", NAMES.sign_group),
    ("streamer-reader", NAMES.sign_group),
    ("streamer-operator", NAMES.sign_group),
    ("streamer-operator", NAMES.shard_group(1)),
    ("crawler", NAMES.sign_group),
]


def test_each_role_does_its_work_and_nothing_else(tmp_path: Path) -> None:
    with guarded_broker(tmp_path) as guarded:
        begin = guarded.audit.stat().st_size
        judge(guarded)
        audit = guarded.audit.read_text()[begin:]
        assert sorted(set(RIGHTS) - used_rights(audit)) == [], "these rights are of no use"
        see_what_was_refused(audit)
        run(try_what_is_not_allowed(guarded))
        run(see_that_a_missing_right_is_named(guarded))


def judge(guarded: Guarded) -> None:
    """Have pages sent, judged, verified, replayed and read, each by its user."""
    crawl = make_crawl(guarded.folder, 300)
    guarded.streamer("crawler", "produce", crawl, "--topic", NAMES.pages)
    with fleet(guarded.folder / "fleet", guarded.address, NAMES) as workers:
        own = ("--role", "index", "--index", workers.folder / "index")
        workers.start("index", *own, *guarded.login("streamer-index"))
        workers.wait_for_log("index", "shard_caught_up")
        # Each comes when there is something to read for it: the gauge, and the logs' beginnings.
        workers.start("sign", "--role", "sign", *guarded.login("streamer-sign"))
        guarded.streamer("streamer-operator", "verify", "--settled", "--wait", 90)
        for name in list(workers.running):
            assert workers.kill(name, signal.SIGTERM) == 0, workers.log(name)
    replay = (
        "replay", "--from-topic", NAMES.pages, "--order-of", NAMES.index,
        "--key-file", workers.folder / "key", "--verdicts", guarded.folder / "replayed.jsonl",
    )  # fmt: skip
    guarded.streamer("streamer-operator", *replay)
    assert guarded.streamer("streamer-reader", "tail", "--limit", 3).count("\n") == 3
    run(read_as_group(guarded))


async def read_as_group(guarded: Guarded) -> None:
    options = {"group_id": "streamer-reader.tests", "auto_offset_reset": "earliest"}
    client = guarded.client("streamer-reader")
    async with AIOKafkaConsumer(NAMES.verdicts, **options, **client) as consumer:
        await asyncio.wait_for(consumer.getone(), 120)
        await consumer.commit()


def see_what_was_refused(audit: str) -> None:
    """See that a role asks for nothing that it has no right to, but to make topics."""
    refused = denied(audit)
    assert {each.user for each in refused if each.request == "CreateTopics"} == MAKERS
    # The list of all topics leaves out the others, and a producer's number comes with any Write.
    assert {each.request for each in refused} - {"CreateTopics"} == {"Metadata", "InitProducerId"}


async def try_what_is_not_allowed(guarded: Guarded) -> None:
    for user, topics in NOT_WRITTEN.items():
        for topic in topics:
            with pytest.raises(TopicAuthorizationFailedError):
                await write(guarded, user, topic)
    for user, topics in NOT_READ.items():
        for topic in topics:
            begin = guarded.audit.stat().st_size
            assert await read(guarded, user, topic) == {}, (user, topic)
            refused = denied(guarded.audit.read_text()[begin:])
            assert (user, topic) in {(each.user, each.name) for each in refused}
    for user, group in JOINS:
        with pytest.raises(GroupAuthorizationFailedError):
            await commit(guarded, user, group)
    for manifest in USERS:
        await make_and_delete(guarded, manifest["metadata"]["name"])


async def write(guarded: Guarded, user: str, topic: str) -> None:
    async with AIOKafkaProducer(**guarded.client(user)) as producer:
        await asyncio.wait_for(producer.send_and_wait(topic, b"{}", partition=0), 120)


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


async def commit(guarded: Guarded, user: str, group: str) -> None:
    """Move the offsets of a group."""
    async with AIOKafkaConsumer(group_id=group, **guarded.client(user)) as consumer:
        place = TopicPartition(NAMES.verdicts, 0)
        consumer.assign([place])
        await asyncio.wait_for(consumer.commit({place: 0}), 120)


async def make_and_delete(guarded: Guarded, user: str) -> None:
    """See that a user can neither make nor delete a topic."""
    admin = AIOKafkaAdminClient(**guarded.client(user))
    await admin.start()
    try:
        made = await admin.create_topics([NewTopic(NEW_TOPIC, 1, 1)])
        deleted = await admin.delete_topics([NAMES.verdicts])
    finally:
        await admin.close()
    codes = made.topic_errors[0][1], deleted.topic_error_codes[0][1]
    assert [for_code(code) for code in codes] == [TopicAuthorizationFailedError] * 2, user


async def see_that_a_missing_right_is_named(guarded: Guarded) -> None:
    verdicts = Topic(NAMES.verdicts, 1, 1, {"cleanup.policy": "delete"})
    async with open_reader(guarded.client("streamer-sign")) as reader:
        assert not await ensure_topic(reader.admin, verdicts)
    async with open_reader(guarded.client("streamer-reader")) as reader:
        with pytest.raises(StreamerError, match=r"settings of the topic streamer\.verdicts: Topic"):
            await ensure_topic(reader.admin, verdicts)
    async with open_reader(guarded.client("crawler")) as reader:
        with pytest.raises(StreamerError, match=r"streamer\.verdicts is missing, or hidden"):
            await ensure_topic(reader.admin, verdicts)
    async with open_reader(guarded.client("streamer-index")) as reader:
        await check_groups(reader, [NAMES.shard_group(0), NAMES.shard_group(5)])
        with pytest.raises(StreamerError, match=r"may not join the group streamer\.sign\. Allow"):
            await check_groups(reader, [NAMES.shard_group(0), NAMES.sign_group])
