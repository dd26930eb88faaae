"""The messages that verdicts name: fetched by partition and offset, in nearly ascending order.

Verdicts of a partition follow the offsets of its pages, except where a page has waited for another
shard. So this is a sequential read, with a seek where an offset is behind, or far ahead. Partitions
are paused while nothing is wanted: an idle worker asks for nothing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from streamer.errors import StoreMismatch
from streamer.kafka.reader import PATIENCE_SECONDS, fetch, read_from

AHEAD_MAX = 4000  # offsets that are read and dropped, instead of a seek


@dataclass(slots=True)
class _FetchedAhead:
    """What was fetched of a partition; below `start` nothing is left, below `passed` it is gone."""

    start: int = 0
    passed: int = 0
    position: int = 0
    messages: deque[Any] = field(default_factory=deque)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class PageFetcher:
    """Fetches messages of a topic by their place; for one consumer that is in no group."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str) -> None:
        self._consumer, self._topic = consumer, topic
        self._ahead: dict[int, _FetchedAhead] = {}

    def assign(self, partitions: Iterable[int]) -> None:
        """Read these partitions from now on, and no others."""
        self._ahead = {partition: _FetchedAhead() for partition in partitions}
        read_from(self._consumer, dict.fromkeys(map(self._place, self._ahead), 0))
        self.pause()

    def pause(self) -> None:
        """Fetch nothing until something is wanted; what was fetched is kept."""
        self._consumer.pause(*map(self._place, self._ahead))

    async def at(self, partition: int, offset: int) -> Any | None:  # noqa: ANN401 - the client's
        """Return the message at an offset of an assigned partition; None: it is there no longer.

        Raises:
            StoreMismatch: the partition ends before it.
            InputError: it cannot be decoded.
            KafkaError: the brokers refuse, or do not answer for PATIENCE_SECONDS; or the partition
                is not assigned.
        """
        if (ahead := self._ahead.get(partition)) is None:
            raise UnknownTopicOrPartitionError(f"{self._topic}, partition {partition}")
        async with ahead.turn:
            return await self._fetch_at(self._place(partition), ahead, offset)

    async def _fetch_at(
        self, place: TopicPartition, ahead: _FetchedAhead, offset: int
    ) -> Any | None:  # noqa: ANN401 - as above
        if offset < ahead.start:
            return None
        if offset < ahead.passed or offset > ahead.position + AHEAD_MAX:
            self._consumer.seek(place, offset)
            ahead.messages.clear()
            ahead.position = offset
        ahead.passed = offset
        deadline = time.monotonic() + PATIENCE_SECONDS
        while offset >= ahead.start:
            while ahead.messages and ahead.messages[0].offset < offset:
                ahead.messages.popleft()
            if ahead.messages:
                first = ahead.messages[0]
                return first if first.offset == offset else None
            if ahead.position > offset:
                return None
            await self._fetch(place, ahead, deadline)
        return None

    async def _fetch(self, place: TopicPartition, ahead: _FetchedAhead, deadline: float) -> None:
        """Fetch what comes next; find out whether it is there at all if nothing comes."""
        self._consumer.resume(place)
        try:
            ahead.messages.extend(await fetch(self._consumer, place, ahead.position))
        except OffsetOutOfRangeError:
            await self._look_at_bounds(place, ahead)
            return
        ahead.position = await self._consumer.position(place)
        if not ahead.messages and time.monotonic() > deadline:
            await self._look_at_bounds(place, ahead)
            raise KafkaTimeoutError(f"The brokers have sent nothing of {self._topic}.")

    async def _look_at_bounds(self, place: TopicPartition, ahead: _FetchedAhead) -> None:
        """Note where the partition begins, and continue there."""
        ahead.start = (await self._consumer.beginning_offsets([place]))[place]
        end = (await self._consumer.end_offsets([place]))[place]
        if end <= ahead.passed:
            raise StoreMismatch(
                f"Partition {place.partition} of {self._topic} ends at offset {end}, a verdict "
                f"names the page at {ahead.passed}: the topic has lost messages. Restore it, or "
                "use another --index-name."
            )
        ahead.position = max(ahead.position, ahead.start)
        self._consumer.seek(place, ahead.position)

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)
