"""The users of deploy/kubernetes/strimzi on a broker that refuses what is not allowed.

Each role runs as its user. The broker's own log then says by which right each thing was given: all
rights must be among them, so that none is too much. One test, since one broker serves all of it.
"""

import asyncio
import signal
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from streamer.errors import StreamerError
from streamer.kafka.prepare import check_groups
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Topic, ensure_topic
from tests.helpers.fleet import fleet
from tests.helpers.guarded_broker import NAMES, RIGHTS, Guarded, denied, guarded_broker, used_rights
from tests.helpers.secure_broker import run
from tests.integration.chaos import make_crawl

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
            async with AIOKafkaProducer(**guarded.client(user)) as producer:
                with pytest.raises(TopicAuthorizationFailedError):
                    await asyncio.wait_for(producer.send_and_wait(topic, b"{}", partition=0), 120)
    not_read = [(user, topic) for user, topics in NOT_READ.items() for topic in topics]
    for user, name in [*not_read, *JOINS]:
        given = [each for each in RIGHTS if each.user == user and name.startswith(each.name)]
        given = [each for each in given if each.pattern == "PREFIXED" or each.name == name]
        assert "READ" not in {each.operation for each in given}, (user, name)
    assert {each.operation for each in RIGHTS}.isdisjoint({"ALL", "CREATE", "DELETE", "ALTER"})


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
