"""The owner's rules in Kafka: what is published, acknowledged and flushed, in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from streamer.errors import StoreMismatch, StreamerError
from streamer.index.records import CONFIG
from streamer.index.settings import IndexSettings
from streamer.kafka.chunk import Chunk
from streamer.kafka.measures import ShardMeasures
from streamer.kafka.names import Names
from streamer.kafka.shard_app import ShardApp
from streamer.kafka.transport import Start
from streamer.kafka.wire import unpack_record
from streamer.metrics import Metrics
from tests.helpers.kafka_doubles import Events, Fetched, ToldConsumer, ToldPublisher, settle
from tests.unit.test_owner import IDENTITY, a_log, key, owner

__all__ = ["key"]
NAMES = Names("index", "pages")
PLACE = TP("index.bands.0", 0)


class Owning:
    """A shard with a stand-in for the brokers."""

    def __init__(self, path: Path, key: Path, settings: IndexSettings | None = None) -> None:
        self.publisher = ToldPublisher()
        self.consumer = ToldConsumer()
        self.failures: list[BaseException] = []
        self.owner = owner(path, key)
        publisher: Any = self.publisher
        self.app: Any = ShardApp(
            NAMES, self.owner, settings or IndexSettings(), publisher, 2, self.failures.append,
            {"broker": "kafka://nowhere"}, ShardMeasures(Metrics(), self.owner.shard, 30),
        )  # fmt: skip
        faust: Any = SimpleNamespace(chunks=self.consumer)
        self.app.app = faust

    def starts(self, committed: int) -> Start:
        found: dict[TP, Start] = asyncio.run(self.app._starts({PLACE: committed}))  # noqa: SLF001 - Faust calls it
        return found[PLACE]

    async def run(self, *chunks: Chunk) -> None:
        """Feed chunks; return when all of them are acknowledged."""
        async with self.feeding(*chunks):
            for _ in range(400):
                if len(self.consumer.acknowledged) >= len(chunks):
                    break
                await settle(5)
        self.consumer.acknowledged.clear()

    @asynccontextmanager
    async def feeding(self, *chunks: Chunk) -> AsyncIterator[None]:
        """Let chunks come in."""
        applying = asyncio.create_task(self.app._apply())  # noqa: SLF001 - what start() begins
        await self.app.index(Events(chunks))
        yield
        applying.cancel()

    @property
    def verdicts(self) -> list[tuple[int, bytes | None, bytes]]:
        return [
            (partition, value, dict(headers)["streamer.sequence"])
            for topic, partition, (_, value, headers, _) in self.publisher.arrived
            if topic == "index.verdicts"
        ]


def chunk(log: list[bytes], start: int, end: int) -> Chunk:
    messages = [Fetched(offset, log[offset]) for offset in range(start, end)]
    return Chunk("index.bands.0", 0, start, end, messages)


def test_verdicts_arrive_before_their_chunk_is_acknowledged(tmp_path: Path, key: Path) -> None:
    async def run() -> None:
        owning.publisher.held = asyncio.Event()
        async with owning.feeding(one):
            while not owning.publisher.asked:
                await settle(5)
            assert owning.consumer.acknowledged == []
            owning.publisher.held.set()
            await settle()

    one = chunk(a_log(1), 0, 2)
    owning = Owning(tmp_path / "index", key)
    asyncio.run(run())
    assert owning.consumer.acknowledged == [one]
    assert len(owning.verdicts) == 20
    assert owning.failures == []
    owning.owner.close()


def test_a_flush_waits_for_every_publish_that_it_covers(tmp_path: Path, key: Path) -> None:
    async def run() -> None:
        owning.publisher.held = asyncio.Event()
        async with owning.feeding(chunk(log, 0, 6)):
            while not owning.publisher.asked:
                await settle(5)
            await settle()
            assert owning.owner.flush_is_due, "else there is nothing to wait for"
            assert owning.owner.stored.flushes == []
            owning.publisher.held.set()
            while owning.owner.changed:
                await settle(5)
        assert len(owning.owner.stored.flushes) == 1

    log = a_log(5)
    owning = Owning(tmp_path / "index", key)
    asyncio.run(run())
    owning.owner.close()


def test_a_failed_publish_ends_the_process_without_a_flush(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    owning.publisher.failing = StreamerError("no broker")

    async def run() -> None:
        async with owning.feeding(chunk(a_log(1), 0, 2)):
            while not owning.failures:
                await settle(5)

    asyncio.run(run())
    assert [str(failure) for failure in owning.failures] == ["no broker"]
    assert owning.consumer.acknowledged == []
    assert owning.owner.stored.flushes == []
    owning.owner.close()


@pytest.mark.parametrize("committed", [0, 2, 5, 9])
def test_reading_begins_where_the_store_stands_whatever_is_committed(
    tmp_path: Path, key: Path, committed: int
) -> None:
    log = a_log(10)
    owning = Owning(tmp_path / "index", key)
    asyncio.run(owning.run(chunk(log, 0, 4)))
    owning.owner.flush()
    owning.owner.close()
    again = Owning(tmp_path / "index", key)
    again.consumer.end = 11
    position = again.owner.position
    assert position == 4
    assert again.starts(committed) == Start(4, 4)
    asyncio.run(again.run(chunk(log, 4, 11)))
    first = max(committed, 4)
    numbers = [int(sequence.split(b":")[1]) for _, _, sequence in again.verdicts]
    assert sorted(numbers) == list(range(20 * (first - 1), 200)), "published from there on"
    again.owner.close()


def test_what_is_repeated_has_the_same_bytes(tmp_path: Path, key: Path) -> None:
    log = a_log(6)
    quiet = Owning(tmp_path / "quiet", key)
    asyncio.run(quiet.run(chunk(log, 0, 7)))
    quiet.owner.close()
    rebuilt = Owning(tmp_path / "rebuilt", key)
    asyncio.run(rebuilt.run(chunk(log, 0, 3), chunk(log, 3, 4), chunk(log, 4, 7)))
    rebuilt.owner.close()
    assert sorted(rebuilt.verdicts, key=str) == sorted(quiet.verdicts, key=str)
    assert {partition for partition, _, _ in quiet.verdicts} == {0}


def test_a_log_that_lost_records_ends_the_process(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    owning.consumer.end = 3
    owning.starts(4)
    assert [type(failure) for failure in owning.failures] == [StoreMismatch]
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    owning.owner.flush()
    owning.consumer.end = 1
    owning.starts(0)
    assert "ends at 1, the index" in str(owning.failures[1])
    owning.owner.close()


def test_it_has_caught_up_at_the_end_that_the_log_had_when_it_was_assigned(
    tmp_path: Path, key: Path
) -> None:
    log = a_log(2)
    owning = Owning(tmp_path / "index", key)
    assert not owning.app.caught_up
    owning.consumer.end = 3
    owning.starts(0)
    assert not owning.app.caught_up
    asyncio.run(owning.run(chunk(log, 0, 2)))
    assert not owning.app.caught_up
    asyncio.run(owning.run(chunk(log, 2, 3)))
    assert owning.app.caught_up
    owning.owner.close()


def test_new_settings_are_put_into_the_log_once(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key, IndexSettings(threshold=0.9))
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    asyncio.run(owning.app._configure())  # noqa: SLF001 - the watch calls it
    (message,) = [m for topic, _, m in owning.publisher.arrived if topic == "index.bands.0"]
    record = unpack_record(message[1] or b"", IDENTITY)
    assert (record.source, record.start, record.end) == (CONFIG, 1, 2)
    assert record.items == IndexSettings(threshold=0.9)
    asyncio.run(owning.run(Chunk("index.bands.0", 0, 2, 3, [Fetched(2, message[1])])))
    assert owning.owner.shard.settings == IndexSettings(threshold=0.9)
    asyncio.run(owning.app._configure())  # noqa: SLF001
    assert len([m for topic, _, m in owning.publisher.arrived if topic == "index.bands.0"]) == 1
    owning.owner.close()


def test_the_gauge_tells_what_is_applied_not_what_is_flushed(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    gauge = owning.app._new_gauge()  # noqa: SLF001
    assert owning.owner.stored.flushes == []
    assert (gauge.position, gauge.open_pages, gauge.marks["pages:0"]) == (2, 0, 20)
    owning.owner.close()
