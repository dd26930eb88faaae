"""Stand-ins for the brokers where a test must say when they answer: everything else is real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from faust.exceptions import ConsumerNotStarted
from faust.types import TP

from streamer.index.messages import Output
from streamer.kafka.owner import Owner
from streamer.kafka.publisher import Message
from streamer.kafka.reader import Fetched


@dataclass
class FakeMessage:
    """A message as the client library gives it."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = 1_700_000_000_000
    topic: str = "index.gauge"
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = 0

    @property
    def serialized_value_size(self) -> int:
        return len(self.value or b"")


@dataclass
class FakePublisher:
    """Notes what is published; `held` keeps it from arriving, `failing` lets it fail."""

    held: asyncio.Event | None = None
    failing: Exception | None = None
    arrived: list[tuple[str, int, Message]] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    published: list[tuple[str, bytes]] = field(default_factory=list)
    deaf: bool = False

    def batches(self, messages: Iterable[Message], bytes_max: int = 0) -> list[Message]:
        del bytes_max
        return list(messages)

    async def publish(self, topic: str, partition: int, batches: list[Message]) -> None:
        self.asked.append((topic, partition))
        if self.failing:
            raise self.failing
        if self.held:
            await self.held.wait()
        self.arrived += [(topic, partition, message) for message in batches]

    async def publish_one(self, topic: str, data: bytes) -> None:
        await self.publish(topic, 0, self.batches([(None, data, [], None)]))

    async def notify(self, topic: str, data: bytes, key: bytes) -> bool:
        assert key, topic
        self.published.append((topic, data))
        return not self.deaf


@dataclass
class FakeConsumer:
    """Notes acknowledgements, and says where partitions begin and end."""

    first: int = 0
    end: int = 0
    ends: dict[TP, int] = field(default_factory=dict)  # of other places
    acknowledged: list[Any] = field(default_factory=list)
    held: bool = False
    assigned: set[TP] | None = None

    def assignment(self) -> set[TP]:
        if self.assigned is None:
            raise ConsumerNotStarted
        return self.assigned

    def hold(self, _tps: Iterable[TP]) -> None:
        self.held = True

    def release(self, _tps: Iterable[TP]) -> None:
        self.held = False

    def ack(self, message: Any) -> None:
        self.acknowledged.append(message)

    async def earliest_offsets(self, *places: TP) -> dict[TP, int]:
        return dict.fromkeys(places, self.first)

    async def log_ends(self, logs: Iterable[str]) -> dict[str, int]:
        return {
            place.topic: end
            for place, end in (await self.highwaters(*(TP(log, 0) for log in logs))).items()
        }

    async def highwaters(self, *places: TP) -> dict[TP, int]:
        return {place: self.ends.get(place, self.end) for place in places}


class Events:
    """A Faust stream of events, each with a chunk."""

    def __init__(self, chunks: Iterable[Any]) -> None:
        self._events = [SimpleNamespace(value=chunk, message=chunk) for chunk in chunks]

    def noack(self) -> Events:
        return self

    async def events(self) -> Any:
        for event in self._events:
            yield event


def take(owner: Owner, offset: int, data: bytes) -> list[Output]:
    """Let an owner fold the record at `offset`; return the verdicts that it leads to."""
    chunk = Fetched("log", 0, offset, offset + 1, [FakeMessage(offset, data)])
    return [output for _, output in owner.fold(chunk, owner.read(chunk)) if output is not None]


async def until(holds: Callable[[], object]) -> None:
    """Let other tasks and threads go on until something holds."""
    while not holds():
        await settle(5)


async def settle(times: int = 50) -> None:
    """Let other tasks and threads go on."""
    for _ in range(times):
        await asyncio.sleep(0.001)
