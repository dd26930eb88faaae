"""The owner's rules in Kafka: what is published, acknowledged and flushed, in which order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from faust.types import TP
from structlog.testing import capture_logs

from streamer.errors import StoreMismatch, StreamerError
from streamer.index.messages import CONFIG, IndexSettings
from streamer.kafka import shard_app
from streamer.kafka.faust_chunks import Start
from streamer.kafka.gauge import Gauge
from streamer.kafka.owner import Owner
from streamer.kafka.reader import Fetched
from streamer.kafka.role_metrics import ShardMetrics
from streamer.kafka.shard_app import WATCH_SECONDS, ShardApp
from streamer.kafka.tasks import begin_task
from streamer.kafka.topics import Names
from streamer.kafka.wire import unpack_record
from streamer.metrics import Metrics
from streamer.model import page_ref
from tests.helpers import kafka_doubles
from tests.unit.kafka.test_owner import IDENTITY, a_log, owner

NAMES = Names("index", "pages")
PLACE = TP("index.bands.0", 0)


class FakeLog:
    """Folds what is in a list, in place of a log at the brokers; notes the ranges."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.log: list[bytes] = []
        self.folded: list[tuple[int, int]] = []
        self.held: threading.Event | None = None
        self.stops_at: int | None = None
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def fold(self, start: int, end: int) -> None:
        if self.held:
            self.held.wait()
        if self._stopping and self.stops_at is not None:
            end = self.stops_at
        self.folded.append((start, end))
        part = chunk(self.log, start, end)
        self._owner.fold(part, self._owner.read(part))


class Owning:
    """A shard with a stand-in for the brokers."""

    def __init__(self, path: Path, key: Path, settings: IndexSettings | None = None) -> None:
        self.path, self.key, self.stopped = path, key, False
        self.publisher = kafka_doubles.FakePublisher()
        self.consumer = kafka_doubles.FakeConsumer()
        self.failures: list[BaseException] = []
        self.owner = owner(path, key)
        publisher: Any = self.publisher
        metrics = ShardMetrics(Metrics(), self.owner.shard, 0, 30)
        self.log = FakeLog(self.owner)
        catch_up: Any = self.log
        self.app: Any = ShardApp(
            self.owner, NAMES, publisher, 2, catch_up, settings or IndexSettings(),
            metrics, self.failures.append, {"broker": "kafka://nowhere"},
        )  # fmt: skip
        faust: Any = SimpleNamespace(chunks=self.consumer, stop=kafka_doubles.settle)
        self.app.app = faust

    async def starts(self, committed: int) -> Start | None:
        """Say where it begins; what is out already is being folded then."""
        found: dict[TP, Start] = await self.app._starts({PLACE: committed})  # noqa: SLF001 - Faust calls it
        return found.get(PLACE)

    async def folded(self) -> None:
        """Wait until what was out already is folded."""
        if catching_up := self.app._catching_up:  # noqa: SLF001 - what _starts() begins
            await catching_up

    async def run(self, *chunks: Fetched) -> None:
        """Feed chunks; return when all of them are acknowledged."""
        async with self.feeding(*chunks):
            for _ in range(4000):  # ends long before, unless the machine is very busy
                if len(self.consumer.acknowledged) >= len(chunks):
                    break
                await kafka_doubles.settle(5)
        self.consumer.acknowledged.clear()

    async def begin(self, *chunks: Fetched) -> asyncio.Task[None]:
        """Let chunks come in; return the task that applies them."""
        applying = begin_task(self.app._apply(), self.failures.append)  # noqa: SLF001 - what start() begins
        self.app._tasks = [applying]  # noqa: SLF001 - as start() has it
        await self.app.index(kafka_doubles.Events(chunks))
        return applying

    @asynccontextmanager
    async def feeding(self, *chunks: Fetched) -> AsyncIterator[None]:
        """Let chunks come in."""
        applying = await self.begin(*chunks)
        yield
        applying.cancel()
        await asyncio.get_running_loop().run_in_executor(self.app._judge, int)  # noqa: SLF001 - what it began has ended then
        await asyncio.to_thread(self.owner.finish)

    async def kept_offset(self) -> int:
        """Stop as a worker does; return where the index is when it is opened again."""
        await self.app.leave()
        await self.app.close()
        self.stopped = True
        again = owner(self.path, self.key)
        again.close()
        return again.offset

    @property
    def verdicts(self) -> list[tuple[int, bytes | None, bytes]]:
        return [
            (partition, value, dict(headers)["streamer.sequence"])
            for topic, partition, (_, value, headers, _) in self.publisher.arrived
            if topic == "index.verdicts"
        ]

    @property
    def settings_published(self) -> list[Any]:
        return [each for topic, _, each in self.publisher.arrived if topic == "index.bands.0"]


@pytest.fixture
def owning(tmp_path: Path, key_file: Path) -> Iterator[Owning]:
    made = Owning(tmp_path / "index", key_file)
    yield made
    if not made.stopped:
        made.owner.close()


def chunk(log: list[bytes], start: int, end: int) -> Fetched:
    messages = [kafka_doubles.FakeMessage(offset, log[offset]) for offset in range(start, end)]
    return Fetched("index.bands.0", 0, start, end, messages)


async def test_verdicts_arrive_before_their_chunk_is_acknowledged(owning: Owning) -> None:
    one = chunk(a_log(1), 0, 2)
    owning.publisher.held = asyncio.Event()
    async with owning.feeding(one):
        await kafka_doubles.until(lambda: owning.publisher.asked)
        assert owning.consumer.acknowledged == []
        owning.publisher.held.set()
        await kafka_doubles.settle()
    assert owning.consumer.acknowledged == [one]
    assert len(owning.verdicts) == 20
    assert owning.failures == []


async def test_a_flush_waits_for_every_publish_that_it_covers(owning: Owning) -> None:
    owning.publisher.held = asyncio.Event()
    async with owning.feeding(chunk(a_log(5), 0, 6)):
        await kafka_doubles.until(lambda: owning.publisher.asked)
        await kafka_doubles.until(lambda: not owning.owner.changed)  # until a flush has begun
        await kafka_doubles.settle()
        assert owning.owner.store.meta is None
        owning.publisher.held.set()
    assert owning.owner.store.meta is not None


@pytest.mark.parametrize("committed", [0, 2, 5, 9, 11])
async def test_what_is_out_is_folded_silently_and_reading_begins_after_it(
    tmp_path: Path, key_file: Path, committed: int
) -> None:
    owning = Owning(tmp_path / "index", key_file)
    log = a_log(10)
    await owning.run(chunk(log, 0, 4))
    owning.owner.flush(owning.owner.state())
    owning.owner.close()
    again = Owning(tmp_path / "index", key_file)
    again.log.log = log
    again.consumer.end = 11
    first = max(committed, 4)
    assert await again.starts(committed) == Start(first, first, 4)
    await again.folded()
    assert again.log.folded == ([(4, first)] if first > 4 else [])
    assert again.owner.offset == first
    assert again.verdicts == []
    await again.run(chunk(log, first, 11))
    numbers = [int(sequence.split(b":")[1]) for _, _, sequence in again.verdicts]
    assert sorted(numbers) == list(range(20 * (first - 1), 200)), "published from there on"
    assert again.failures == []
    again.owner.close()


async def test_nothing_is_delivered_before_what_is_out_is_folded(owning: Owning) -> None:
    owning.log.log, owning.consumer.end = a_log(10), 11
    owning.log.held = held = threading.Event()
    await owning.starts(5)
    await kafka_doubles.settle(5)
    assert owning.consumer.held
    await owning.starts(8)  # taken away and given back meanwhile
    held.set()
    await kafka_doubles.until(lambda: not owning.consumer.held)
    assert owning.log.folded == [(0, 5), (5, 8)]
    assert owning.owner.offset == 8
    assert owning.failures == []


async def test_nothing_is_asked_of_a_consumer_that_has_not_begun(owning: Owning) -> None:
    watching = begin_task(owning.app._watch(), owning.failures.append)  # noqa: SLF001 - what start() begins
    await asyncio.sleep(3 * WATCH_SECONDS)
    watching.cancel()
    assert owning.failures == []
    assert owning.publisher.asked == [], "and a standby tells nothing of its own position"


async def test_a_stop_ends_a_fold_that_is_under_way(owning: Owning) -> None:
    owning.log.log, owning.consumer.end = a_log(10), 11
    owning.log.held = held = threading.Event()
    await owning.starts(5)
    await kafka_doubles.settle(5)
    owning.log.stops_at = 3
    asyncio.get_running_loop().call_later(0.05, held.set)
    assert await owning.kept_offset() == 3, "and what was folded is kept"
    assert owning.consumer.held, "chunks after 5 are not for an index that is at 3"


async def test_a_stop_sees_the_end_of_a_flush_that_has_begun(owning: Owning) -> None:
    owning.publisher.held = asyncio.Event()
    await owning.begin(chunk(a_log(5), 0, 6))
    await kafka_doubles.until(lambda: owning.owner.offset and not owning.owner.changed)
    asyncio.get_running_loop().call_later(1.0, owning.publisher.held.set)
    async with asyncio.timeout(20):
        assert await owning.kept_offset() == 6
    assert owning.failures == []


async def test_a_stop_flushes_nothing_that_was_not_published(owning: Owning) -> None:
    """Faust waits for what it has delivered, but only for partitions that are still assigned."""
    folding, held = threading.Event(), threading.Event()
    real: Any = owning.owner
    fold = real.fold

    def slow_fold(*arguments: Any) -> Any:
        folding.set()
        held.wait()
        return fold(*arguments)

    async def stop() -> None:
        asyncio.get_running_loop().call_later(0.2, held.set)  # what comes next finds it folding

    real.fold, owning.app.app.stop = slow_fold, stop
    await owning.begin(chunk(a_log(1), 0, 2))
    await asyncio.to_thread(folding.wait)
    assert (await owning.kept_offset(), len(owning.verdicts)) == (2, 20)
    assert owning.failures == []


async def test_the_event_loop_turns_while_a_shard_is_closed(owning: Owning) -> None:
    turned, in_time = threading.Event(), list[bool]()
    real: Any = owning.owner
    close = real.close

    def slow_close() -> None:
        in_time.append(turned.wait(30))
        close()

    real.close = slow_close
    asyncio.get_running_loop().call_later(0.01, turned.set)
    await owning.kept_offset()
    assert in_time == [True]


async def test_a_failed_publish_ends_the_process_and_flushes_nothing(owning: Owning) -> None:
    owning.publisher.failing = StreamerError("refused")
    await owning.begin(chunk(a_log(1), 0, 2))
    await kafka_doubles.until(lambda: owning.failures)
    assert await owning.kept_offset() == 0
    assert [str(failure) for failure in owning.failures] == ["refused"]
    assert owning.consumer.acknowledged == []


async def test_a_chunk_that_leaves_out_records_ends_the_process(owning: Owning) -> None:
    async with owning.feeding(chunk(a_log(5), 2, 4)):
        await kafka_doubles.until(lambda: owning.failures)
    assert "from 2 on, the index is at 0" in str(owning.failures[0])
    assert owning.consumer.acknowledged == []
    assert owning.owner.offset == 0


async def test_a_log_that_lost_records_ends_the_process(owning: Owning) -> None:
    owning.consumer.end = 3
    assert await owning.starts(4) is None
    assert [type(failure) for failure in owning.failures] == [StoreMismatch]
    await owning.run(chunk(a_log(1), 0, 2))
    owning.owner.flush(owning.owner.state())
    owning.consumer.end = 1
    await owning.starts(0)
    assert "ends at 1, the index" in str(owning.failures[1])


async def test_it_has_caught_up_at_the_end_that_the_log_had_at_assignment(owning: Owning) -> None:
    log = a_log(2)
    assert not owning.app.progress.caught_up
    owning.consumer.end = 3
    await owning.starts(0)
    for start, end in ((0, 2), (2, 3)):
        assert not owning.app.progress.caught_up
        await owning.run(chunk(log, start, end))
    assert owning.app.progress.caught_up


async def test_new_settings_are_put_into_the_log_once(tmp_path: Path, key_file: Path) -> None:
    owning = Owning(tmp_path / "index", key_file, IndexSettings(threshold=0.9))
    await owning.run(chunk(a_log(1), 0, 2))
    with capture_logs() as logs:
        await owning.app._configure()  # noqa: SLF001 - the watch calls it
    reported = {"event": "settings_changed", "shard": 0, "threshold": "0.8 -> 0.9"}
    assert logs == [{**reported, "log_level": "info"}]
    (message,) = owning.settings_published
    record = unpack_record(message[1] or b"", IDENTITY)
    assert (record.source, record.start, record.end) == (CONFIG, 1, 2)
    assert record.items == IndexSettings(threshold=0.9)
    await owning.run(Fetched("index.bands.0", 0, 2, 3, [kafka_doubles.FakeMessage(2, message[1])]))
    assert owning.owner.shard.settings == IndexSettings(threshold=0.9)
    await owning.app._configure()  # noqa: SLF001 - as above
    assert len(owning.settings_published) == 1
    owning.owner.close()


async def reported(owning: Owning, seconds: float) -> list[Gauge]:
    """Let the owner tell its gauge for some time; return what it said in it."""
    before = len(owning.publisher.published)
    telling = begin_task(owning.app._tell_gauge(), owning.failures.append)  # noqa: SLF001 - what start() begins
    await asyncio.sleep(seconds)
    telling.cancel()
    assert {topic for topic, _ in owning.publisher.published} <= {"index.gauge"}
    published = owning.publisher.published[before:]
    return [msgspec.msgpack.decode(data, type=Gauge) for _, data in published]


async def test_the_gauge_is_told_when_it_changes_and_again_before_it_is_forgotten(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await reported(owning, 3 * WATCH_SECONDS) == [], "a standby tells nothing"
    owning.consumer.end = 2
    await owning.starts(0)
    owning.consumer.assigned = {PLACE}
    assert [gauge.position for gauge in await reported(owning, 5 * WATCH_SECONDS)] == [0]
    await owning.run(chunk(a_log(1), 0, 2))
    [gauge] = await reported(owning, 5 * WATCH_SECONDS)
    assert (gauge.position, gauge.positions["pages:0"]) == (2, 20), "applied, but not flushed"
    assert owning.owner.store.meta is None
    assert await reported(owning, 5 * WATCH_SECONDS) == []
    monkeypatch.setattr(shard_app, "REPEAT_SECONDS", 2 * WATCH_SECONDS)
    assert len(await reported(owning, 10 * WATCH_SECONDS)) >= 2, "whatever it holds"
    owning.consumer.assigned = set()
    assert await reported(owning, 5 * WATCH_SECONDS) == [], "one that lost the shard is out of date"


async def test_a_gauge_that_does_not_arrive_is_told_again_and_ends_nothing(owning: Owning) -> None:
    owning.consumer.end = 2
    await owning.starts(0)
    owning.consumer.assigned = {PLACE}
    owning.publisher.deaf = True
    assert len(await reported(owning, 6 * WATCH_SECONDS)) >= 3
    assert owning.failures == []


def warning_of(owning: Owning, event: str) -> Any:
    """Return the one warning of this name that the watch gives, however often it looks."""
    consumer: Any = owning.consumer
    consumer.assigned = {PLACE}
    consumer.highwater = consumer.committed = lambda _place: 3
    with capture_logs() as logged:
        for _ in range(2):
            owning.app.progress.observe(consumer)
    (warning,) = [line for line in logged if line["event"] == event]
    return warning


def test_dates_that_stay_too_late_are_warned_of_once(owning: Owning) -> None:
    dates, refs = np.full(202, 1 << 40), np.arange(202).astype(np.uint64)
    dates[100] = 1 << 50
    refs[100] = page_ref(2, 17)
    owning.owner.shard.time.advance(dates, refs, 1)
    warning = warning_of(owning, "wrong_dates")
    assert (warning["pages"], warning["partition"], warning["offset"]) == (1, 2, 17)


def test_a_hole_in_the_log_is_warned_of_once(owning: Owning) -> None:
    log = a_log(3)
    del log[2]  # its place is taken by what follows
    asyncio.run(owning.run(chunk(log, 0, 3)))
    hole = "shard 0 misses records of pages:0 from 20 on, and judges none of those up to 60"
    assert warning_of(owning, "records_missing")["reason"] == hole
    assert owning.owner.holes() == [hole]
