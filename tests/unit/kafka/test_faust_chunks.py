"""Chunks and their offsets over Faust: its consumer is real except the thread to the brokers."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP
from mode import Service

from streamer.errors import StreamerError
from streamer.kafka import faust_chunks
from streamer.kafka.faust_chunks import _ChunkThread
from streamer.kafka.reader import RECORDS_MAX, Fetched
from tests.helpers.kafka_doubles import FakeMessage

PLACE = TP("pages", 0)
REQUEST_SECONDS = 0.02


class Seeking:
    """Stands in for the consumer: its seeks take as long as a test says."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.seeks: asyncio.Queue[int] = asyncio.Queue()
        self.flows = asyncio.Event()

    def assignment(self) -> set[TP]:
        return {PLACE}

    def resume_partitions(self, _places: set[TP]) -> None: ...

    async def perform_seek(self) -> None:
        self.seeks.put_nowait(1)
        await self.answer.wait()

    def stop_flow(self) -> None:
        self.flows.clear()

    def resume_flow(self) -> None:
        self.flows.set()


def make_app(failures: list[BaseException]) -> Any:
    async def starts(_committed: Mapping[TP, int]) -> Mapping[TP, faust_chunks.Start]:
        return {}

    app: Any = faust_chunks.ChunkApp("group", starts, failures.append, broker="kafka://127.0.0.1:1")
    app.finalize()
    return app


@asynccontextmanager
async def recovering(app: Any, consumer: Seeking) -> AsyncIterator[None]:
    """Run the service that completes an app's rebalances."""
    app.conf.broker_request_timeout = REQUEST_SECONDS
    app._consumer = consumer  # noqa: SLF001 - what Faust keeps in it
    app._fetcher = SimpleNamespace(maybe_start=lambda: asyncio.sleep(0))  # noqa: SLF001
    await app.tables.recovery.start()
    yield
    await app.tables.recovery.stop()


async def rebalance(app: Any, consumer: Seeking, generation: int) -> None:
    """Do what Faust does when the group is made again, except the consumer."""
    app.on_rebalance_start()
    consumer.stop_flow()
    app.consumer_generation_id = generation
    await app.tables.recovery.on_rebalance({PLACE}, set(), set(), generation)


async def test_rebalances_go_on_after_a_seek_that_outlasts_the_time_of_a_request() -> None:
    failures: list[BaseException] = []
    app, consumer = make_app(failures), Seeking()
    async with recovering(app, consumer):
        await rebalance(app, consumer, 1)
        await asyncio.sleep(5 * REQUEST_SECONDS)
        assert not consumer.flows.is_set(), "nobody knows yet where to begin"
        consumer.answer.set()
        await asyncio.wait_for(consumer.flows.wait(), 60)
        await rebalance(app, consumer, 2)
        await asyncio.wait_for(consumer.flows.wait(), 60)
        assert consumer.seeks.qsize() == 2
        assert not app.rebalancing
    assert not failures


async def test_another_rebalance_ends_a_seek_that_is_not_answered() -> None:
    app, consumer = make_app([]), Seeking()
    async with recovering(app, consumer):
        await rebalance(app, consumer, 1)
        await asyncio.sleep(5 * REQUEST_SECONDS)
        await rebalance(app, consumer, 2)
        for _ in range(2):
            await asyncio.wait_for(consumer.seeks.get(), 60)
        consumer.answer.set()
        await asyncio.wait_for(consumer.flows.wait(), 60)


@pytest.mark.parametrize("seconds_between", [0.03, 60])
async def test_a_rebalance_that_does_not_end_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, seconds_between: float
) -> None:
    """Also where one follows the other before the first has ended."""
    monkeypatch.setattr(faust_chunks, "REBALANCE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(faust_chunks, "WATCH_SECONDS", 0.01)

    failures: list[BaseException] = []
    app = make_app(failures)
    watching = asyncio.create_task(app._watch_rebalances(app))  # noqa: SLF001 - a task of Faust's
    app.on_rebalance_start()
    app.on_rebalance_end()
    await asyncio.sleep(0.3)
    assert not failures, "it has ended"
    async with asyncio.timeout(5):
        while not watching.done():
            app.on_rebalance_start()
            await asyncio.wait([watching], timeout=seconds_between)
    (failure,) = failures
    assert isinstance(failure, StreamerError)
    assert "group" in str(failure)


def messages(*offsets: int) -> list[FakeMessage]:
    return [FakeMessage(offset, b"") for offset in offsets]


class FakeThread(Service):
    """Stands in for the thread that speaks to the brokers.

    `fetches` are what comes, `group` what the group has committed, `answers` what becomes of the
    next commits; `during_fetch` is awaited in each fetch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fetches: list[list[FakeMessage]] = []
        self.group: int | None = None
        self.answers: list[bool | Exception] = []
        self.during_fetch: Callable[[], Awaitable[None]] | None = None
        self.committed: list[int] = []
        self.sought: list[int] = []
        self.alive = 0

    def assignment(self) -> set[TP]:
        return {PLACE}

    def highwater(self, _tp: TP) -> int:
        return 0

    async def getmany(self, _active: object, _timeout: float) -> dict[TP, list[FakeMessage]]:
        if self.during_fetch:
            await self.during_fetch()
        return {PLACE: self.fetches.pop(0)} if self.fetches else {}

    async def position(self, _tp: TP) -> None:
        return None

    async def commit(self, offsets: Mapping[TP, int]) -> bool:
        self.committed.append(offsets[PLACE])
        return bool(self.answers.pop(0)) if self.answers else True

    async def seek_to_committed(self) -> dict[TP, int | None]:
        if self.answers and isinstance(self.answers[0], Exception):
            raise self.answers.pop(0)  # type: ignore[misc]
        return {PLACE: self.group}

    async def seek_wait(self, offsets: Mapping[TP, int]) -> None:
        self.sought.append(offsets[PLACE])

    async def note_alive(self) -> None:
        self.alive += 1


class Consumer(faust_chunks.ChunkConsumer):
    """A consumer that is real except the thread next to it."""

    brokers: FakeThread

    def _new_consumer_thread(self) -> Any:
        self.brokers = FakeThread()
        return self.brokers

    async def assign(self, start: faust_chunks.Start, committed: int | None = None) -> None:
        """Assign the partition, of which so much is committed; its agent begins at `start`."""
        self.app.told_start, self.brokers.group = start, committed
        await self.perform_seek()
        assert self.brokers.sought[-1] == start.offset

    async def deliver(self, *ends: int) -> list[Any]:
        """Return the messages of chunks that end there."""
        delivered = []
        for end in ends:
            self.brokers.fetches.append(messages(end - 1))
            delivered += await chunks_of(self)
        return delivered


class Transport(faust_chunks.ChunkTransport):
    Consumer = Consumer


class App(faust_chunks.ChunkApp):
    """An app whose consumer is one of ours, which begins where a test says."""

    told_start = faust_chunks.Start(0, 0)

    def _new_transport(self) -> faust_chunks.ChunkTransport:
        return Transport(self.conf.broker_consumer, self)


def consumer() -> Consumer:
    """Return a consumer that reads a partition from its beginning on."""

    async def starts(committed: Mapping[TP, int]) -> Mapping[TP, faust_chunks.Start]:
        return dict.fromkeys(committed, app.told_start)

    def failed(error: BaseException) -> None:
        raise AssertionError(error)

    app = App("group", starts, failed, broker="kafka://127.0.0.1:1")
    app.finalize()
    app.topics.add(app.topic("pages"))
    made = cast(Consumer, app.consumer)
    made.resume_partitions({PLACE})
    return made


async def begun() -> Consumer:
    """Return a consumer whose partition is assigned, from its beginning on."""
    made = consumer()
    await made.assign(faust_chunks.Start(0, 0))
    return made


async def chunks_of(made: Consumer) -> list[Any]:
    return [message async for _, message in made.getmany(1.0)]


async def test_offsets_are_committed_in_the_order_of_delivery_only() -> None:
    made, draw = consumer(), random.Random(2)
    for begin in range(0, 100_000, 1000):
        await made.assign(faust_chunks.Start(begin, begin))
        ends = sorted(draw.sample(range(begin + 1, begin + 1000), 12))
        waiting = dict(zip(ends, await made.deliver(*ends), strict=True))
        made.brokers.committed = [begin]
        while waiting:
            made.ack(waiting.pop(draw.choice(list(waiting))))
            if draw.random() < 0.5 or not waiting:
                await made.commit()
                first = min(waiting, default=begin + 1000)
                done = [end for end in ends if end < first]
                assert made.brokers.committed[-1] == (done[-1] if done else begin)


async def test_so_many_chunks_are_delivered_until_one_is_acknowledged() -> None:
    made = await begun()
    delivered = await made.deliver(*range(1, faust_chunks.CHUNKS_MAX + 1))
    made.brokers.fetches.append(messages(faust_chunks.CHUNKS_MAX))
    assert [message async for _, message in made.getmany(0.01)] == []
    made.ack(delivered[5])
    assert len(await chunks_of(made)) == 1


async def test_a_refused_commit_is_made_again_or_a_later_offset_takes_its_place() -> None:
    made = await begun()
    first, second, third = await made.deliver(10, 20, 30)
    made.ack(first)
    made.brokers.answers = [False, True, False]
    assert not await made.commit()
    assert await made.commit()
    assert not await made.commit(), "there is nothing new"
    made.ack(second)
    assert not await made.commit()
    made.ack(third)
    assert await made.commit()
    assert made.brokers.committed == [10, 10, 20, 30]


@pytest.mark.parametrize(("before", "committed"), [(0, [40]), (30, [40]), (45, [])])
async def test_what_was_done_before_is_committed(before: int, committed: list[int]) -> None:
    made = consumer()
    await made.assign(faust_chunks.Start(50, 50, 40), before)
    await made.commit()
    assert made.brokers.committed == committed


async def test_what_is_begun_below_the_committed_offset_is_committed_from_there_on() -> None:
    made = await begun()
    for message in await made.deliver(10, 300):
        made.ack(message)
    await made.commit()
    await made.assign(faust_chunks.Start(20, 20, 20), 300)
    await made.commit()
    (message,) = await made.deliver(50)
    made.ack(message)
    await made.commit()
    assert made.brokers.committed == [300, 20, 50]


@pytest.mark.parametrize(
    ("before", "start", "committed"),
    [(10, 20, [20, 20]), (20, 20, [20]), (10, 10, [20, 20])],  # of what is read again, once done
)
async def test_a_commit_that_the_group_has_not_got_is_made_again(
    before: int, start: int, committed: list[int]
) -> None:
    """The library took it for made; or an older one came to the brokers after it, over a line that
    was cut."""
    made = await begun()
    for message in await made.deliver(10, 20):
        made.ack(message)
    await made.commit()
    await made.assign(faust_chunks.Start(start, start), before)
    await made.commit()
    for message in await made.deliver(20) if start < 20 else []:
        made.ack(message)
    await made.commit()
    assert made.brokers.committed == committed


class Library:
    """The library's consumer, which has two partitions and cannot seek."""

    def assignment(self) -> set[TP]:
        return {PLACE, TP("pages", 1)}

    async def committed(self, tp: TP) -> int | None:
        return 7 if tp == PLACE else None

    async def commit(self, _offsets: object) -> None: ...


class Thread(_ChunkThread):
    """The thread of a consumer, whose calls are made at once."""

    def _ensure_consumer(self) -> Any:
        return Library()

    async def call_thread(self, fun: Any, *arguments: Any, **options: Any) -> Any:
        return await fun(*arguments, **options)


async def test_a_commit_for_a_partition_that_is_gone_meanwhile_is_not_taken_for_made() -> None:
    thread: Any = Thread(consumer(), thread_loop=asyncio.get_running_loop())
    assert not await thread.commit({TP("pages", 2): 10})
    assert await thread.commit({TP("pages", 1): 10})


async def test_asking_what_is_committed_moves_no_position() -> None:
    """The answer may come when the seek was given up, and others are reading."""

    thread: Any = Thread(consumer(), thread_loop=asyncio.get_running_loop())
    assert await thread.seek_to_committed() == {PLACE: 7, TP("pages", 1): None}


async def test_a_seek_waits_for_the_fetch_that_is_under_way() -> None:
    made = await begun()
    made.brokers.fetches = [messages(0, 1), messages(100)]
    fetching = asyncio.Event()

    async def slow() -> None:
        fetching.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert made.brokers.sought == [0], "the seek came into the fetch"

    made.brokers.during_fetch = slow
    reading = asyncio.create_task(chunks_of(made))
    await fetching.wait()
    await made.assign(faust_chunks.Start(100, 100))
    await reading
    made.brokers.during_fetch = None
    (message,) = await chunks_of(made)
    assert (message.value.start, message.value.end) == (100, 101)


async def test_brokers_that_do_not_answer_are_asked_again_where_to_begin() -> None:
    made = consumer()
    made.brokers.answers = [KafkaTimeoutError(), KafkaTimeoutError()]
    await made.assign(faust_chunks.Start(5, 5))
    assert not made.brokers.answers, "all were taken"


async def test_nothing_is_delivered_of_what_was_fetched_before_a_seek() -> None:
    made = await begun()
    made.brokers.fetches = [messages(*range(2 * RECORDS_MAX + 200)), messages(100)]
    seen: list[tuple[int, int]] = []
    async for _, message in made.getmany(1.0):
        chunk = cast(Fetched, message.value)
        seen.append((chunk.start, chunk.end))
        await made.assign(faust_chunks.Start(100, 100))
    assert seen == [(0, RECORDS_MAX)]
    (message,) = await chunks_of(made)
    assert message.value.start == 100, "the next chunk begins where the seek went"


async def test_nothing_is_delivered_while_it_is_held_yet_the_group_is_not_left() -> None:
    made = await begun()
    made.brokers.fetches = [messages(0, 1)]
    made.hold([PLACE])
    assert [message async for _, message in made.getmany(0.01)] == []
    assert made.brokers.alive == 1
    waiting: Any = asyncio.ensure_future(anext(made.getmany(5.0)))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    made.release([PLACE])
    _, message = await asyncio.wait_for(waiting, 4)
    assert (message.value.start, message.value.end) == (0, 2)
