"""A topic of pages as an input: which messages are wanted, and how they are read, in order.

Wanted are partitions, offsets, or what came since a moment. A range that reaches beyond a partition
is refused, since verdicts over less than was asked for would look like those over all of it.

Messages are buffered as they were fetched and handed out by count or by offset, so the end of a
chunk depends on the messages alone, never on how the brokers split their answers. Only committed
messages count: transaction markers, aborted and deleted messages are gaps.

The order in which an index took its pages comes from the log of its shard 0. Its records are taken
by the interval rule (streamer/index/messages.py): of what two signers wrote twice, after a
rebalance, the first counts. So the intervals of a partition follow each other without gaps.

The client library's event loop runs in a thread of its own, for callers that block. What is fetched
arrives while the caller computes. Every wait ends: brokers that are silent for PATIENCE_SECONDS end
the run with a message.
"""

import asyncio
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from streamer.errors import InputError, SettingsError, StreamerError
from streamer.index.forgetting import ASK
from streamer.index.messages import FORGET, Forget, IndexSettings, Pages, Tombstone, source_name
from streamer.kafka.connection import Connection
from streamer.kafka.reader import (
    PATIENCE_SECONDS,
    Bounds,
    Reader,
    fetch,
    open_reader,
    read_from,
    reader_of,
    share_of,
)
from streamer.kafka.topics import topic_id
from streamer.kafka.wire import LogIdentity, unpack_record
from streamer.pages.chunk import Message, MessageHeaders
from streamer.pages.schema_registry import add_frame

_RANGE = re.compile(r"(\d{1,9}):(\d{0,18})-(\d{0,18})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for, as given; a bound of None is the topic's.

    No `partitions` are those that `offsets` name; without these too, all.
    """

    partitions: frozenset[int] = frozenset()
    offsets: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets [start, end) of a partition; `named` says whether the start was given."""

    start: int
    end: int
    named: bool = False


def parse_wanted(partitions: str | None, offsets: str | None, until: str | None) -> Wanted:
    """Return what `--partitions 0,2`, `--offsets 0:100-2000,1:50-` and `--until TIME` ask for.

    Raises:
        SettingsError: one of them cannot be read, or they contradict each other.
    """
    numbers = frozenset(_number(part) for part in _parts(partitions))
    ranges: dict[int, tuple[int | None, int | None]] = {}
    for part in _parts(offsets):
        partition, bounds = _bounds(part)
        if partition in ranges:
            raise SettingsError(f"--offsets names partition {partition} twice. Give one range.")
        if numbers and partition not in numbers:
            raise SettingsError(
                f"--offsets has a range of partition {partition}, --partitions leaves it out. "
                "Correct one of them."
            )
        ranges[partition] = bounds
    return Wanted(numbers, ranges, None if until is None else _milliseconds(until))


def resolve(wanted: Wanted, topic: str, bounds: Bounds, until: dict[int, int]) -> dict[int, Range]:
    """Return the range of each partition that is asked for, ascending by partition.

    `until` holds the offsets at which the moment was reached; empty if there is none.

    Raises:
        InputError: the topic has no such partition, or not these offsets.
    """
    for partition in sorted(wanted.partitions | wanted.offsets.keys()):
        if partition not in bounds:
            raise InputError(
                f"The topic {topic} has no partition {partition}, it has {len(bounds)}, from 0 on. "
                "Ask for these."
            )
    ranges = {}
    for partition in sorted(wanted.partitions or wanted.offsets or bounds):
        first, last = bounds[partition]
        start, end = wanted.offsets.get(partition, (None, None))
        bounds_of = first if start is None else start, last if end is None else end
        found = Range(*bounds_of, start is not None)
        if not first <= found.start <= found.end <= last:
            raise InputError(
                f"Partition {partition} of {topic} has the offsets {first} to {last}, the end not "
                f"included; --offsets asks for {found.start} to {found.end}. Ask for a part of it."
            )
        reached = max(found.start, min(found.end, until.get(partition, found.end)))
        ranges[partition] = Range(found.start, reached, found.named)
    return ranges


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise SettingsError(f"--partitions has {text!r}. Give numbers with commas between, as 0,2.")
    return int(text)


def _bounds(text: str) -> tuple[int, tuple[int | None, int | None]]:
    found = _RANGE.fullmatch(text)
    start, end = (int(part) if part else None for part in found.groups()[1:]) if found else (1, 0)
    if not found or (start is not None and end is not None and start > end):
        raise SettingsError(
            f"--offsets has {text!r}. Give PARTITION:START-END, as 0:100-2000 for the offsets 100 "
            "to 1999; either bound may be left out."
        )
    return int(found[1]), (start, end)


def _milliseconds(text: str) -> int:
    """Return a moment as whole milliseconds since 1970, rounded up; without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise SettingsError(
            f"--until {text!r} is no time. Give one as 2026-01-31T12:00:00Z."
        ) from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, -((_EPOCH - zoned) // timedelta(milliseconds=1)))


_PARTITION = source_name(0)[:-1]


@dataclass(frozen=True, slots=True)
class Interval:
    """The offsets [start, end) of a partition, and at which of them there are pages, ascending.

    `tombstones` are the offsets of messages that mean to forget, and their keys.
    """

    partition: int
    start: int
    end: int
    pages: list[int]
    tombstones: list[Tombstone] = field(default_factory=list)


class LogOrder:
    """Reads the records of a log in order, of the index with this identity."""

    def __init__(self, identity: LogIdentity) -> None:
        self._identity = identity
        self._positions: dict[str, int] = {}

    def read_record(self, data: bytes) -> Interval | IndexSettings | Forget | None:
        """Return what is new: pages taken, settings in force, or what a command wants forgotten.

        None is for what is skipped.

        Raises:
            StoreMismatch: the record is of another version, or not of this index.
        """
        record = unpack_record(data, self._identity)
        if record.source == FORGET:
            assert isinstance(record.items, Forget), record.items
            terms = [term for term in record.items.terms if term[0] != ASK]
            return Forget(terms, record.items.ask) if terms else None
        position = self._positions.get(record.source, 0)
        if not record.start <= position < record.end:
            return None
        self._positions[record.source] = record.end
        if isinstance(record.items, IndexSettings):
            return record.items
        partition, items = int(record.source.removeprefix(_PARTITION)), record.items
        numbers = record.numbers[record.numbers >= position].tolist()
        if isinstance(items, Pages):
            return Interval(partition, position, record.end, numbers)
        assert isinstance(items, Forget), items
        urls = [value for _, value in items.terms[-len(numbers) :] if isinstance(value, bytes)]
        return Interval(partition, position, record.end, [], list(zip(numbers, urls, strict=True)))


Result = TypeVar("Result")


class WaitingLoop:
    """An event loop to wait on; a context manager, whose end leaves all that was entered in it."""

    def __enter__(self) -> Self:
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        self._entered = AsyncExitStack()
        self._thread = threading.Thread(target=self._run_loop)
        self._thread.start()
        return self

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._ended.wait())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for `work`, done in the loop, and return its result.

        Raises:
            InputError: messages asked for are there no longer.
            StreamerError: the brokers refuse, or do not answer in time.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(PATIENCE_SECONDS)
        except OffsetOutOfRangeError as error:
            raise InputError(
                f"Messages have expired while they were read: {error}. Run it again over what is "
                "left, with a new --index."
            ) from error
        except KafkaError as error:
            raise StreamerError(f"The brokers refused: {error!r}.") from error
        except TimeoutError as error:
            raise StreamerError(
                f"The brokers have sent nothing for {PATIENCE_SECONDS:.0f} seconds. Check that "
                "they run; the same command goes on if there is an --index."
            ) from error
        finally:
            future.cancel()  # of no effect on one that is done

    def enter(self, context: AbstractAsyncContextManager[Result]) -> Result:
        """Enter a context in the loop, as `run`; it is left at the end."""
        return self.run(self._entered.enter_async_context(context))

    def each(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        """Yield what comes of `items`, none of which is None; each is waited for as by `run`."""

        async def following() -> Result | None:
            return await anext(items, None)

        while (item := self.run(following())) is not None:
            yield item

    def __exit__(self, *_error: object) -> None:
        """Leave what was entered, cancel what is still going on, and end the thread."""
        try:
            self.run(self._entered.aclose())
        finally:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()


FETCHED_BYTES_MAX = 64 << 20  # of all partitions that are read side by side


@dataclass(slots=True)
class _Buffered:
    """What was fetched of a partition and not handed out; `position` is where fetching goes on."""

    position: int
    # Each with its timestamp and headers:
    messages: deque[tuple[Message, int, MessageHeaders]] = field(default_factory=deque)


@dataclass
class PageTopic:
    """An open topic; made by `open_topic`. To be used in one thread."""

    _loop: WaitingLoop
    _reader: Reader
    _consumer: AIOKafkaConsumer
    name: str
    bounds: Bounds
    _fetched: dict[int, _Buffered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = self.id_of(self.name)

    def first_since(self, moment_ms: int) -> dict[int, int]:
        """Return by partition the first offset with a timestamp of `moment_ms` or later.

        Where there is none it is the end that the partition had when the topic was opened.
        """
        return self._loop.run(self._reader.first_since(self.name, moment_ms, self.bounds))

    def begin(self, starts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        places = {TopicPartition(self.name, p): offset for p, offset in starts.items()}

        async def begin() -> None:
            read_from(self._consumer, places)

        self._loop.run(begin())
        self._fetched = {partition: _Buffered(offset) for partition, offset in starts.items()}

    def read(
        self, partition: int, end: int, records_max: int | None = None, bytes_max: int | None = None
    ) -> tuple[list[Message], list[int], list[MessageHeaders], int]:
        """Return the next messages before an offset, times, headers, and the offset they reach to.

        That is `end` where no message is left before it. A message is added as long as there are
        fewer than `records_max` with less than `bytes_max`.

        Raises:
            InputError: they have expired meanwhile, or cannot be decoded.
            StreamerError: the brokers do not answer.
        """
        fetched, taken, times, size = self._fetched[partition], list[Message](), list[int](), 0
        headers = list[MessageHeaders]()
        while True:
            while fetched.messages and fetched.messages[0][0][0] < end:
                if (records_max and len(taken) >= records_max) or (bytes_max and size >= bytes_max):
                    return taken, times, headers, taken[-1][0] + 1
                message, timestamp, own = fetched.messages.popleft()
                size += len(message[2] or b"")
                taken.append(message)
                times.append(max(0, timestamp))
                headers.append(own)
            if fetched.messages or fetched.position >= end:
                return taken, times, headers, end
            self._loop.run(self._fetch(partition, fetched))

    async def _fetch(self, partition: int, fetched: _Buffered) -> None:
        """Fetch until there is anything, or the position has moved over a gap."""
        place = TopicPartition(self.name, partition)
        while True:
            found = await fetch(self._consumer, place, fetched.position)
            position = await self._consumer.position(place)
            if position > fetched.position:
                for each in found:
                    message = each.offset, each.key, add_frame(each.value, each.headers)
                    fetched.messages.append((message, each.timestamp, each.headers))
                fetched.position = position
                return

    def id_of(self, topic: str) -> str:
        """Return the id of another topic."""
        return self._loop.run(topic_id(self._reader.admin, topic))

    def log_bounds(self, log: str) -> tuple[int, int]:
        """Return the offset of a log's first record, and the one after its last.

        Raises:
            InputError: there is no such topic.
        """
        self._loop.run(self._reader.partitions(log))
        return self._loop.run(self._reader.bounds(log, 0))

    def log(self, log: str, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the records of a log before `end`, each with its offset."""
        for chunk in self._loop.each(self._reader.read(log, 0, 0, end)):
            for record in chunk.records:
                yield record.offset, record.value


@contextmanager
def open_topic(connection: Connection, name: str) -> Iterator[PageTopic]:
    """Connect, and find out what the topic has now.

    Raises:
        InputError: there is no such topic.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    with WaitingLoop() as loop:
        reader = loop.enter(reader_of(connection))
        bounds = loop.run(reader.all_bounds(name))
        share = share_of(FETCHED_BYTES_MAX, len(bounds))
        second = loop.enter(open_reader(connection.client_options(), share))
        yield PageTopic(loop, reader, second.consumer, name, bounds)
