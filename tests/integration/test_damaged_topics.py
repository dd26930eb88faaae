"""Topics whose newest batch is damaged on the broker's disk: whoever reads it names the place."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from streamer import InputError, follow
from streamer.console.topic_fold import TopicFold
from streamer.console.view import VerdictView
from streamer.errors import StreamerError
from streamer.kafka import gauge
from streamer.kafka.connection import Connection
from streamer.kafka.gauge import FlowControl, Gauge, pack
from streamer.kafka.retry import Which, send_again
from streamer.kafka.sites_topic import PartitionSites
from streamer.kafka.topic_input import Wanted
from streamer.kafka.topics import Names, ensure_topic, sites_topic
from tests.helpers.broker import administer, make_topic, running_broker, send
from tests.helpers.fleet import fleet
from tests.helpers.ports import free_port
from tests.integration.test_follow import publish
from tests.integration.test_worker import page


class Brokers:
    """A broker of these tests alone, and its files."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self._folder = address, folder

    def damage(self, topic: str) -> None:
        """Change the last byte of partition 0."""
        [log] = self._folder.rglob(f"{topic}-0/*.log")
        with log.open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 0xFF]))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("damaged") / "broker"
    with running_broker(folder, free_port()) as address:
        yield Brokers(address, folder)


def damaged(own: Brokers, topic: str, *batches: bytes, key: bytes | None = None) -> None:
    """Make a topic with a batch for each message, the last of them damaged."""
    make_topic(own.address, topic)
    for each in batches:
        send(own.address, topic, [(key, each)])
    own.damage(topic)


def place_of(topic: str, offset: int) -> str:
    return rf"(?i)partition 0 of {topic} cannot be decoded from offset {offset} on"


def test_who_follows_verdicts_has_those_before(own: Brokers, names: Names) -> None:
    make_topic(own.address, names.verdicts, 2)
    publish(own.address, names, 0, 3)
    publish(own.address, names, 3, 5)
    own.damage(names.verdicts)
    numbers = []

    async def run() -> None:
        async with asyncio.timeout(60), follow(own.address, names.index) as followed:
            async for each in followed:
                numbers.append(each.page.offset)  # noqa: PERF401 - an error comes in between

    with pytest.raises(InputError, match=place_of(names.verdicts, 3)):
        asyncio.run(run())
    assert numbers == [0, 1, 2]


def test_what_is_no_verdict_is_named(own: Brokers, names: Names) -> None:
    make_topic(own.address, names.verdicts)
    publish(own.address, names, 0, 3)
    send(own.address, names.verdicts, [(None, b"{}")])

    async def run() -> None:
        async with asyncio.timeout(60), follow(own.address, names.index) as followed:
            async for _ in followed:
                pass

    with pytest.raises(InputError, match=r"offset 3 of partition 0 of .* is not a verdict"):
        asyncio.run(run())


def test_the_console_shows_what_is_before_and_says_where_it_ends(
    own: Brokers, names: Names, tmp_path: Path
) -> None:
    make_topic(own.address, names.pages)
    make_topic(own.address, names.verdicts)
    publish(own.address, names, 0, 3)
    publish(own.address, names, 3, 5)
    own.damage(names.verdicts)
    view = VerdictView(tmp_path / "view")
    fold = TopicFold(view, Connection(own.address), names)
    with pytest.raises(StreamerError, match=place_of(names.verdicts, 3)) as failure:
        fold.go_on()
    assert "unreachable" not in str(failure.value)
    with view.read(5) as found:
        assert found.execute("SELECT count(*) FROM page").fetchone()[0] == 3
    fold.close()
    view.close()


def test_a_signer_that_follows_the_gauge_says_where_it_is_damaged(
    own: Brokers, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AIOKafkaConsumer, "seek_to_end", AIOKafkaConsumer.seek_to_beginning)
    damaged(own, names.gauge, *(pack(Gauge(n, {}, "log")) for n in (1, 2)), key=b"gauge.0")
    flow = FlowControl(100, 1, "log")
    options = Connection(own.address).client_options()
    with pytest.raises(InputError, match=place_of(names.gauge, 1)):
        asyncio.run(asyncio.wait_for(gauge.follow(options, names.gauge, [flow]), 120))
    assert flow.has_reached(1)


def test_a_signer_says_where_its_table_of_sites_is_damaged(own: Brokers, names: Names) -> None:
    topic = sites_topic(names, 0, 1)
    administer(own.address, lambda admin: ensure_topic(admin, topic))
    damaged(own, topic.name, b"of another program", b"as well", key=b"key")
    client = Connection(own.address).client_options()
    tables = PartitionSites(client, names, "fingerprint", 1 << 20, 1)
    learn: Any = None  # it does not come to that
    with pytest.raises(InputError, match=place_of(topic.name, 1)):
        asyncio.run(asyncio.wait_for(tables.restore(0, 5, learn, lambda: True), 120))


def test_dead_letters_are_sent_again_up_to_there(own: Brokers, names: Names) -> None:
    make_topic(own.address, names.pages)
    damaged(own, names.dead_letters, b"no letter", b"as well")
    reported = (
        place_of(names.dead_letters, 1) + r".*0 messages were sent.*--offsets 0:1-, and a later"
    )
    with pytest.raises(InputError, match=reported):
        asyncio.run(
            send_again(
                Connection(own.address), names.dead_letters, Wanted(), Which(), dry_run=False
            )
        )


def test_a_worker_ends_with_the_place(own: Brokers, names: Names, tmp_path: Path) -> None:
    make_topic(own.address, names.pages)
    send(own.address, names.pages, [(None, page(number)) for number in range(5)])
    with fleet(tmp_path, own.address, names) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        assert workers.kill("all", signal.SIGTERM) == 0
        own.damage(names.verdicts)
        kept = workers.start("all", "--index", tmp_path / "index", "--kept-topic", "kept")
        assert kept.wait(60) == InputError.exit_code
        last = json.loads(workers.log("all").splitlines()[-1])
        assert f"0 of {names.verdicts} cannot be decoded from offset" in last["reason"]
        send(own.address, names.pages, [(None, page(5))])
        own.damage(names.pages)
        signing = workers.start("all", "--index", tmp_path / "index")
        assert signing.wait(60) == InputError.exit_code
        last = json.loads(workers.log("all").splitlines()[-1])
        assert f"0 of {names.pages} cannot be decoded from offset 5 on" in last["reason"]
