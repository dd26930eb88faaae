"""The owner's rules in Kafka: what is published, acknowledged and flushed, in which order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from faust.types import TP
from structlog.testing import capture_logs

from streamer.errors import StoreMismatch, StreamerError
from streamer.index.messages import CONFIG
from streamer.index.settings import IndexSettings
from streamer.kafka import shard_app
from streamer.kafka.faust_chunks import Start
from streamer.kafka.gauge import Gauge, unpack_gauge
from streamer.kafka.owner import Outlet, Owner
from streamer.kafka.reader import Fetched
from streamer.kafka.role_metrics import ShardMetrics
from streamer.kafka.shard_app import WATCH_SECONDS, ShardApp
from streamer.kafka.topics import Names
from streamer.kafka.wire import unpack_record
from streamer.metrics import Metrics
from streamer.model import page_ref
from tests.helpers.kafka_doubles import Events, FakeConsumer, FakeMessage, FakePublisher, settle
from tests.unit.kafka.test_owner import IDENTITY, a_log, key, owner

__all__ = ["key"]
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
        self.path = path
        self.publisher = FakePublisher()
        self.consumer = FakeConsumer()
        self.failures: list[BaseException] = []
        self.owner = owner(path, key)
        publisher: Any = self.publisher
        metrics = ShardMetrics(Metrics(), self.owner.shard, 0, 30)
        self.log = FakeLog(self.owner)
        catch_up: Any = self.log
        self.app: Any = ShardApp(
            self.owner, Outlet(NAMES, publisher, 2), catch_up, settings or IndexSettings(),
            metrics, self.failures.append, {"broker": "kafka://nowhere"},
        )  # fmt: skip
        faust: Any = SimpleNamespace(chunks=self.consumer)
        self.app.app = faust

    def starts(self, committed: int) -> Start | None:
        """Say where it begins, and return when what is out already is folded."""

        async def call() -> Start | None:
            found: dict[TP, Start] = await self.app._starts({PLACE: committed})  # noqa: SLF001 - Faust calls it
            if catching_up := self.app._catching_up:  # noqa: SLF001
                await catching_up
            return found.get(PLACE)

        return asyncio.run(call())

    async def run(self, *chunks: Fetched) -> None:
        """Feed chunks; return when all of them are acknowledged."""
        async with self.feeding(*chunks):
            for _ in range(4000):  # ends long before, unless the machine is very busy
                if len(self.consumer.acknowledged) >= len(chunks):
                    break
                await settle(5)
        self.consumer.acknowledged.clear()

    @asynccontextmanager
    async def feeding(self, *chunks: Fetched) -> AsyncIterator[None]:
        """Let chunks come in."""
        applying = asyncio.create_task(self.app._apply())  # noqa: SLF001 - what start() begins
        await self.app.index(Events(chunks))
        yield
        applying.cancel()
        await asyncio.get_running_loop().run_in_executor(self.app._judge, int)  # noqa: SLF001 - what it began has ended then
        await asyncio.to_thread(self.owner.finish)

    async def stop(self) -> None:
        """Do what a worker does when it stops."""
        await self.app.leave()
        await self.app.close()

    @property
    def verdicts(self) -> list[tuple[int, bytes | None, bytes]]:
        return [
            (partition, value, dict(headers)["streamer.sequence"])
            for topic, partition, (_, value, headers, _) in self.publisher.arrived
            if topic == "index.verdicts"
        ]


@pytest.fixture
def owning(tmp_path: Path, key: Path) -> Iterator[Owning]:
    made = Owning(tmp_path / "index", key)
    yield made
    made.owner.close()


def chunk(log: list[bytes], start: int, end: int) -> Fetched:
    messages = [FakeMessage(offset, log[offset]) for offset in range(start, end)]
    return Fetched("index.bands.0", 0, start, end, messages)


def kept_offset(owning: Owning, key: Path) -> int:
    """Return where the index of a worker that has stopped stands when it is opened again."""
    again = owner(owning.path, key)
    again.close()
    return again.offset


def test_verdicts_arrive_before_their_chunk_is_acknowledged(owning: Owning) -> None:
    async def run() -> None:
        owning.publisher.held = asyncio.Event()
        async with owning.feeding(one):
            while not owning.publisher.asked:
                await settle(5)
            assert owning.consumer.acknowledged == []
            owning.publisher.held.set()
            await settle()

    one = chunk(a_log(1), 0, 2)
    asyncio.run(run())
    assert owning.consumer.acknowledged == [one]
    assert len(owning.verdicts) == 20
    assert owning.failures == []


def test_a_flush_waits_for_every_publish_that_it_covers(owning: Owning) -> None:
    async def run() -> None:
        owning.publisher.held = asyncio.Event()
        async with owning.feeding(chunk(log, 0, 6)):
            while not owning.publisher.asked:
                await settle(5)
            while owning.owner.changed:  # until a flush has begun
                await settle(5)
            await settle()
            assert owning.owner.store.meta is None
            owning.publisher.held.set()
        assert owning.owner.store.meta is not None

    log = a_log(5)
    asyncio.run(run())


@pytest.mark.parametrize("committed", [0, 2, 5, 9, 11])
def test_what_is_out_is_folded_silently_and_reading_begins_after_it(
    tmp_path: Path, key: Path, committed: int
) -> None:
    owning = Owning(tmp_path / "index", key)
    log = a_log(10)
    asyncio.run(owning.run(chunk(log, 0, 4)))
    owning.owner.flush(owning.owner.state())
    owning.owner.close()
    again = Owning(tmp_path / "index", key)
    again.log.log = log
    again.consumer.end = 11
    first = max(committed, 4)
    assert again.starts(committed) == Start(first, first, 4)
    assert again.log.folded == ([(4, first)] if first > 4 else [])
    assert again.owner.offset == first
    assert again.verdicts == []
    asyncio.run(again.run(chunk(log, first, 11)))
    numbers = [int(sequence.split(b":")[1]) for _, _, sequence in again.verdicts]
    assert sorted(numbers) == list(range(20 * (first - 1), 200)), "published from there on"
    assert again.failures == []
    again.owner.close()


def test_nothing_is_delivered_before_what_is_out_is_folded(owning: Owning) -> None:
    log = a_log(10)
    owning.log.log, owning.consumer.end = log, 11
    owning.log.held = held = threading.Event()

    async def run() -> None:
        await owning.app._starts({PLACE: 5})  # noqa: SLF001 - Faust calls it
        await settle(5)
        assert owning.consumer.held
        await owning.app._starts({PLACE: 8})  # noqa: SLF001 - taken away and given back meanwhile
        held.set()
        while owning.consumer.held:
            await settle(5)

    asyncio.run(run())
    assert owning.log.folded == [(0, 5), (5, 8)]
    assert owning.owner.offset == 8
    assert owning.failures == []


def test_nothing_is_asked_of_a_consumer_that_has_not_begun(owning: Owning) -> None:
    async def run() -> None:
        watching = asyncio.create_task(owning.app._watch())  # noqa: SLF001 - what start() begins
        await asyncio.sleep(3 * WATCH_SECONDS)
        watching.cancel()

    asyncio.run(run())
    assert owning.failures == []
    assert owning.publisher.asked == [], "and a standby tells nothing of its own position"


def test_a_stop_ends_a_fold_that_is_under_way(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    owning.log.log, owning.consumer.end = a_log(10), 11
    owning.log.held = held = threading.Event()

    async def run() -> None:
        await owning.app._starts({PLACE: 5})  # noqa: SLF001 - Faust calls it
        await settle(5)
        owning.log.stops_at = 3
        asyncio.get_running_loop().call_later(0.05, held.set)
        await owning.stop()

    owning.app.app.stop = settle
    asyncio.run(run())
    assert owning.consumer.held, "chunks after 5 are not for an index that stands at 3"
    assert kept_offset(owning, key) == 3, "and what was folded is kept"


def test_a_stop_sees_the_end_of_a_flush_that_has_begun(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    log = a_log(5)

    async def run() -> None:
        owning.publisher.held = asyncio.Event()
        applying = asyncio.create_task(owning.app._apply())  # noqa: SLF001 - what start() begins
        await owning.app.index(Events([chunk(log, 0, 6)]))
        while owning.owner.changed or not owning.owner.offset:
            await settle(5)
        asyncio.get_running_loop().call_later(1.0, owning.publisher.held.set)
        async with asyncio.timeout(20):
            await owning.stop()
        applying.cancel()

    owning.app.app.stop = settle
    asyncio.run(run())
    assert owning.failures == []
    assert kept_offset(owning, key) == 6


def test_a_stop_flushes_nothing_that_was_not_published(tmp_path: Path, key: Path) -> None:
    """Faust waits for what it has delivered, but only for partitions that are still assigned."""
    owning = Owning(tmp_path / "index", key)
    real: Any = owning.owner
    folding, held, fold = threading.Event(), threading.Event(), real.fold

    def slow_fold(*arguments: Any) -> Any:
        folding.set()
        held.wait()
        return fold(*arguments)

    async def run() -> None:
        real.fold = slow_fold
        applying = asyncio.create_task(owning.app._apply())  # noqa: SLF001 - what start() begins
        owning.app._tasks = [applying]  # noqa: SLF001
        await owning.app.index(Events([chunk(a_log(1), 0, 2)]))
        await asyncio.to_thread(folding.wait)
        await owning.stop()

    async def stop() -> None:
        asyncio.get_running_loop().call_later(0.2, held.set)  # what comes next finds it folding

    owning.app.app.stop = stop
    asyncio.run(run())
    assert owning.failures == []
    assert (kept_offset(owning, key), len(owning.verdicts)) == (2, 20)


def test_the_event_loop_turns_while_a_shard_is_closed(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    real: Any = owning.owner
    turned, close, in_time = threading.Event(), real.close, list[bool]()

    def slow_close() -> None:
        in_time.append(turned.wait(30))
        close()

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.01, turned.set)
        await owning.stop()

    real.close, owning.app.app.stop = slow_close, settle
    asyncio.run(run())
    assert in_time == [True]


def test_a_failed_publish_ends_the_process_and_flushes_nothing(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key)
    owning.publisher.failing = StreamerError("refused")

    async def run() -> None:
        applying = asyncio.create_task(owning.app._apply())  # noqa: SLF001 - what start() begins
        await owning.app.index(Events([chunk(a_log(1), 0, 2)]))
        while not owning.failures:
            await settle(5)
        await owning.stop()
        applying.cancel()

    owning.app.app.stop = settle
    asyncio.run(run())
    assert [str(failure) for failure in owning.failures] == ["refused"]
    assert owning.consumer.acknowledged == []
    assert kept_offset(owning, key) == 0


def test_a_chunk_that_leaves_out_records_ends_the_process(owning: Owning) -> None:
    async def run() -> None:
        async with owning.feeding(chunk(a_log(5), 2, 4)):
            while not owning.failures:
                await settle(5)

    asyncio.run(run())
    assert "from 2 on, the index stands at 0" in str(owning.failures[0])
    assert owning.consumer.acknowledged == []
    assert owning.owner.offset == 0


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


def test_a_log_that_lost_records_ends_the_process(owning: Owning) -> None:
    owning.consumer.end = 3
    assert owning.starts(4) is None
    assert [type(failure) for failure in owning.failures] == [StoreMismatch]
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    owning.owner.flush(owning.owner.state())
    owning.consumer.end = 1
    owning.starts(0)
    assert "ends at 1, the index" in str(owning.failures[1])


def test_it_has_caught_up_at_the_end_that_the_log_had_when_it_was_assigned(owning: Owning) -> None:
    log = a_log(2)
    assert not owning.app.caught_up
    owning.consumer.end = 3
    owning.starts(0)
    assert not owning.app.caught_up
    asyncio.run(owning.run(chunk(log, 0, 2)))
    assert not owning.app.caught_up
    asyncio.run(owning.run(chunk(log, 2, 3)))
    assert owning.app.caught_up


def test_new_settings_are_put_into_the_log_once(tmp_path: Path, key: Path) -> None:
    owning = Owning(tmp_path / "index", key, IndexSettings(threshold=0.9))
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    with capture_logs() as logs:
        asyncio.run(owning.app._configure())  # noqa: SLF001 - the watch calls it
    assert logs == [
        {
            "event": "settings_changed", "log_level": "info", "shard": 0,
            "threshold": "0.8 -> 0.9",
        }
    ]  # fmt: skip
    (message,) = [m for topic, _, m in owning.publisher.arrived if topic == "index.bands.0"]
    record = unpack_record(message[1] or b"", IDENTITY)
    assert (record.source, record.start, record.end) == (CONFIG, 1, 2)
    assert record.items == IndexSettings(threshold=0.9)
    asyncio.run(owning.run(Fetched("index.bands.0", 0, 2, 3, [FakeMessage(2, message[1])])))
    assert owning.owner.shard.settings == IndexSettings(threshold=0.9)
    asyncio.run(owning.app._configure())  # noqa: SLF001
    assert len([m for topic, _, m in owning.publisher.arrived if topic == "index.bands.0"]) == 1
    owning.owner.close()


def test_the_gauge_tells_what_is_applied_not_what_is_flushed(owning: Owning) -> None:
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    gauge = owning.app._new_gauge()  # noqa: SLF001
    assert owning.owner.store.meta is None
    assert (gauge.position, gauge.positions["pages:0"]) == (2, 20)


def told(owning: Owning, seconds: float) -> list[Gauge]:
    """Let the owner tell its gauge for some time; return what it said in it."""

    async def run() -> None:
        telling = asyncio.create_task(owning.app._tell_gauge())  # noqa: SLF001 - what start() begins
        await asyncio.sleep(seconds)
        telling.cancel()

    before = len(owning.publisher.published)
    asyncio.run(run())
    assert {topic for topic, _ in owning.publisher.published} <= {"index.gauge"}
    return [unpack_gauge(data) for _, data in owning.publisher.published[before:]]


def test_the_gauge_is_told_when_it_changes_and_again_before_it_is_forgotten(
    owning: Owning, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(owning, 3 * WATCH_SECONDS) == [], "a standby tells nothing"
    owning.consumer.end = 2
    owning.starts(0)
    owning.consumer.assigned = {PLACE}
    assert [gauge.position for gauge in told(owning, 5 * WATCH_SECONDS)] == [0]
    asyncio.run(owning.run(chunk(a_log(1), 0, 2)))
    assert [gauge.position for gauge in told(owning, 5 * WATCH_SECONDS)] == [2]
    assert told(owning, 5 * WATCH_SECONDS) == []
    monkeypatch.setattr(shard_app, "REPEAT_SECONDS", 2 * WATCH_SECONDS)
    assert len(told(owning, 10 * WATCH_SECONDS)) >= 2, "whatever it holds"
    owning.consumer.assigned = set()
    assert told(owning, 5 * WATCH_SECONDS) == [], "what one says that lost the shard is out of date"


def test_a_gauge_that_does_not_arrive_is_told_again_and_ends_nothing(owning: Owning) -> None:
    owning.consumer.end = 2
    owning.starts(0)
    owning.consumer.assigned = {PLACE}
    owning.publisher.deaf = True
    assert len(told(owning, 6 * WATCH_SECONDS)) >= 3
    assert owning.failures == []


def test_dates_that_stay_too_late_are_warned_of_once(owning: Owning) -> None:
    time, consumer = owning.owner.shard.time, cast("Any", owning.consumer)
    owning.consumer.assigned = {PLACE}
    consumer.highwater = consumer.committed = lambda _place: 3
    dates, refs = np.full(202, 1 << 40), np.arange(202).astype(np.uint64)
    dates[100] = 1 << 50
    refs[100] = page_ref(2, 17)
    time.take(dates, refs, 1)
    with capture_logs() as logged:
        owning.app._progress.observe(consumer)  # noqa: SLF001 - what the watch does
        owning.app._progress.observe(consumer)  # noqa: SLF001
    (warning,) = [line for line in logged if line["event"] == "wrong_dates"]
    assert (warning["pages"], warning["partition"], warning["offset"]) == (1, 2, 17)


def test_a_hole_in_the_log_is_warned_of_once(owning: Owning) -> None:
    log = a_log(3)
    del log[2]  # its place is taken by what follows
    asyncio.run(owning.run(chunk(log, 0, 3)))
    owning.consumer.assigned = {PLACE}
    consumer: Any = owning.consumer
    consumer.highwater = consumer.committed = lambda _place: 3
    with capture_logs() as logged:
        owning.app._progress.observe(consumer)  # noqa: SLF001 - what the watch does
        owning.app._progress.observe(consumer)  # noqa: SLF001
    (warning,) = [line for line in logged if line["event"] == "records_missing"]
    hole = "shard 0 misses records of pages:0 from 20 on, and judges none of those up to 60"
    assert warning["reason"] == hole
    assert owning.owner.holes() == [hole]
