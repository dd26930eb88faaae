"""A topic of pages as an input: which messages it has now, and its partitions, each in order.

Messages are held here as they were fetched and handed out by count or by offset, so that where a
chunk ends depends on the messages alone, never on how the brokers happened to cut their answers.
Only committed messages count: markers of transactions, aborted and deleted messages are gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition

from streamer.kafka.chunk import Chunk
from streamer.kafka.connection import Connection
from streamer.kafka.reach import reach
from streamer.kafka.reader import Options, Reader, fetch, open_reader
from streamer.kafka.topic_id import topic_id
from streamer.kafka.waiting import WaitingLoop
from streamer.stream.parse import Message

FETCHED_BYTES_MAX = 64 << 20  # of all partitions that are read side by side
PARTITION_BYTES_MIN, PARTITION_BYTES_MAX = 1 << 20, 8 << 20


@dataclass(slots=True)
class _Fetched:
    """What was fetched of a partition and not handed out; `position` is where fetching goes on."""

    position: int
    messages: deque[Message] = field(default_factory=deque)


class PageTopic:
    """An open topic; made by `open_topic`. To be used in one thread."""

    def __init__(
        self, loop: WaitingLoop, reader: Reader, consumer: AIOKafkaConsumer, name: str
    ) -> None:
        self.name = name
        self.bounds = {
            partition: loop.run(reader.bounds(name, partition))
            for partition in loop.run(reader.partitions(name))
        }
        self._loop = loop
        self._reader = reader
        self._consumer = consumer
        self._fetched: dict[int, _Fetched] = {}
        self.id = self.id_of(name)

    def first_since(self, moment_ms: int) -> dict[int, int]:
        """Return by partition the first offset with a timestamp of `moment_ms` or later.

        Where there is none it is the end that the partition had when the topic was opened.
        """
        places = {TopicPartition(self.name, partition): moment_ms for partition in self.bounds}

        async def ask() -> Mapping[TopicPartition, tuple[int, int] | None]:
            found: Mapping[TopicPartition, tuple[int, int] | None]
            found = await self._consumer.offsets_for_times(places)
            return found

        answer = self._loop.run(ask()) if places else {}
        found = {place.partition: first[0] for place, first in answer.items() if first}
        return {p: min(found.get(p, end), end) for p, (_, end) in self.bounds.items()}

    def begin(self, starts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""

        async def assign() -> None:
            self._consumer.assign([TopicPartition(self.name, p) for p in starts])
            for partition, offset in starts.items():
                self._consumer.seek(TopicPartition(self.name, partition), offset)

        self._loop.run(assign())
        self._fetched = {partition: _Fetched(offset) for partition, offset in starts.items()}

    def take(
        self,
        partition: int,
        end: int,
        records_max: int | None = None,
        bytes_max: int | None = None,
    ) -> tuple[list[Message], int]:
        """Return the next messages before offset `end`, and the offset that they reach to.

        That is `end` where no message is left before it. A message is added as long as there are
        fewer than `records_max` with less than `bytes_max`.

        Raises:
            InputError: they have expired meanwhile, or cannot be decoded.
            StreamerError: the brokers do not answer.
        """
        fetched, taken, size = self._fetched[partition], list[Message](), 0
        while True:
            while fetched.messages and fetched.messages[0][0] < end:
                if (records_max and len(taken) >= records_max) or (bytes_max and size >= bytes_max):
                    return taken, taken[-1][0] + 1
                message = fetched.messages.popleft()
                size += len(message[2] or b"")
                taken.append(message)
            if fetched.messages or fetched.position >= end:
                return taken, end
            self._loop.run(self._fetch(partition, fetched))

    async def _fetch(self, partition: int, fetched: _Fetched) -> None:
        """Fetch until there is anything, or the position has moved over a gap."""
        place = TopicPartition(self.name, partition)
        while True:
            found = await fetch(self._consumer, place, fetched.position)
            position = await self._consumer.position(place)
            if position > fetched.position:
                fetched.messages.extend((m.offset, m.key, m.value) for m in found)
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
        chunks = self._reader.read(log, 0, 0, end)

        async def following() -> Chunk | None:
            return await anext(chunks, None)

        while (chunk := self._loop.run(following())) is not None:
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
        loop.run(reach(connection))
        stack, options = AsyncExitStack(), connection.client_options()
        try:
            reader = loop.run(stack.enter_async_context(open_reader(options)))
            partitions = loop.run(reader.partitions(name))
            consumer = loop.run(stack.enter_async_context(_consumer(options, partitions)))
            yield PageTopic(loop, reader, consumer, name)
        finally:
            loop.run(stack.aclose())


@asynccontextmanager
async def _consumer(options: Options, partitions: Iterable[int]) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a consumer that holds FETCHED_BYTES_MAX of so many partitions, as far as it goes."""
    share = FETCHED_BYTES_MAX // max(1, len(list(partitions)))
    consumer = AIOKafkaConsumer(
        **options,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        max_partition_fetch_bytes=min(max(share, PARTITION_BYTES_MIN), PARTITION_BYTES_MAX),
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        await consumer.stop()
