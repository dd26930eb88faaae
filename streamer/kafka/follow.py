"""Verdicts from the topic of an index, as they arrive."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from aiokafka import TopicPartition

from streamer.config import Settings, load_settings
from streamer.errors import InputError, SettingsError
from streamer.kafka.connection import Connection, connection_of
from streamer.kafka.reader import (
    Bounds,
    Reader,
    explaining_refusals,
    fetch_all,
    read_from,
    reader_of,
)
from streamer.kafka.topics import Names
from streamer.model import Verdict

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60.0  # for a worker that is about to make the topic

Waiting = Callable[[str], None]  # called once with a topic that is not there yet
_decode = msgspec.json.Decoder(Verdict).decode

Since = datetime | Mapping[int, int]  # when, or by partition the offset of the first message


@dataclass(eq=False)
class ArrivingMessages(AsyncExitStack):
    """The messages of a topic, as they come; in order a partition.

    Connections are opened by the first `read`, and closed at its end as a context. `waiting` is
    called once where the topic is not there yet.

    Attributes:
        starts: the offset at which each partition was begun.
    """

    _connection: Connection
    _topic: str
    _since: Since | None = None
    new_only: bool = False
    waiting: Waiting = lambda _topic: None
    starts: dict[int, int] = field(default_factory=dict)
    _reader: Reader | None = None
    _next: dict[TopicPartition, int] = field(default_factory=dict)  # where fetching goes on

    # No nested generators: a loop that ends would close all of them at once.
    def __post_init__(self) -> None:
        super().__init__()

    async def __aexit__(self, *_error: object) -> bool | None:
        """Close the connections; what the body of the context raises is its own."""
        return await super().__aexit__(None, None, None)

    async def read(self, limit: int | None = None) -> list[Any]:
        """Return messages that have come, `limit` at most; wait for them for half a second.

        Raises:
            InputError: there is no such topic after PATIENCE_SECONDS, it does not have the offsets,
                or a message cannot be decoded.
            StreamerError: the brokers cannot be reached, or refuse.
        """
        if self._reader is None:
            self._reader = await self.enter_async_context(reader_of(self._connection))
            await self._begin(self._reader)
        with explaining_refusals(self._connection.servers):
            answer = await fetch_all(self._reader.consumer, self._next, limit)
        self._next |= {place: records[-1].offset + 1 for place, records in answer.items()}
        return [record for records in answer.values() for record in records]

    async def _begin(self, reader: Reader) -> None:
        topic = self._topic
        partitions = await _partitions(reader, topic, self.waiting)
        bounds = {each: await reader.bounds(topic, each) for each in partitions}
        at = 1 if self.new_only else 0  # end or start
        self.starts |= {each: own[at] for each, own in bounds.items()}
        if self._since is not None:
            self.starts |= await _starts(reader, topic, bounds, self._since)
        self._next = {TopicPartition(topic, each): self.starts[each] for each in partitions}
        read_from(reader.consumer, self._next)


class FollowedVerdicts(ArrivingMessages, AsyncIterator[Verdict]):
    """The verdicts on an index's topic, those that are there and those that come; see `follow`.

    Attributes:
        offsets: by partition of the topic, the offset after the last verdict that was returned. As
            `since`, they continue there. Empty until the topic has been found.
    """

    def __init__(self, settings: Settings, since: Since | None, *, new_only: bool) -> None:
        topic = Names(settings.index_name, settings.input_topic).verdicts
        super().__init__(connection_of(settings), topic, since, new_only=new_only)
        self._messages: deque[Any] = deque()
        self.offsets = self.starts

    async def __anext__(self) -> Verdict:
        """Return the next verdict, once there is one."""
        while not self._messages:
            self._messages += await self.read()
        message = self._messages.popleft()
        try:
            verdict = _decode(message.value or b"")
        except msgspec.DecodeError as error:
            raise InputError(
                f"The message at offset {message.offset} of partition {message.partition} of "
                f"{self._topic} is not a verdict: {error}. Another program wrote it: to continue, "
                "begin with `since` after it."
            ) from error
        self.offsets[message.partition] = message.offset + 1
        return verdict


def follow(
    brokers: str | None = None,
    index_name: str | None = None,
    *,
    since: Since | None = None,
    new_only: bool = False,
    settings: Settings | None = None,
) -> FollowedVerdicts:
    """Return the verdicts on an index's topic, those that are there and those that come.

    Those of a partition are in their order. After a crash of a worker some may come twice, equal
    in each field. `since` begins with verdicts published at this time or later, or with the
    `offsets` that an earlier `follow` reported; partitions that they do not name are read from
    their beginning. `new_only` leaves out what is there already. Settings are those of
    `streamer tail`: what is not given is taken from variables STREAMER_*, else their defaults.

        async with follow("localhost:9092", "streamer", since=offsets_of_yesterday) as followed:
            async for verdict in followed:
                ...  # then save followed.offsets

    Raises:
        SettingsError: `since` has no time zone, or is given with `new_only`.
        InputError: while iterating: there is no such topic after a minute, it does not have the
            offsets, or something in it is no verdict.
        StreamerError: while iterating: the brokers cannot be reached, or refuse.
    """
    if since is not None and new_only:
        raise SettingsError("follow takes since or new_only, not both. Leave one out.")
    if isinstance(since, datetime) and since.tzinfo is None:
        raise SettingsError(f"since={since} has no time zone. Give one, such as datetime.UTC.")
    if settings is None:
        settings = load_settings(brokers=brokers, index_name=index_name)
    return FollowedVerdicts(settings, since, new_only=new_only)


async def _starts(reader: Reader, topic: str, bounds: Bounds, since: Since) -> dict[int, int]:
    """Return where `since` is, by partition.

    Raises:
        InputError: the topic does not have these offsets.
    """
    if isinstance(since, datetime):
        moment_ms = max(0, round(since.timestamp() * 1000))
        return await reader.first_since(topic, moment_ms, bounds)
    for partition, offset in since.items():
        start, end = bounds.get(partition, (0, -1))
        if not start <= offset <= end:
            has = f"the offsets {start} to {end}" if end >= 0 else "no such partition"
            raise InputError(
                f"since names offset {offset} of partition {partition} of {topic}, which has {has}."
                " Verdicts have expired, or the topic was made again: begin without since."
            )
    return dict(since)


async def _partitions(reader: Reader, topic: str, waiting: Waiting) -> list[int]:
    """Return the partitions of a topic; wait for one that a worker is about to make."""
    for tried in range(round(PATIENCE_SECONDS / POLL_SECONDS)):
        with suppress(InputError):
            return await reader.partitions(topic)
        if not tried:
            waiting(topic)
        await asyncio.sleep(POLL_SECONDS)
    return await reader.partitions(topic)
