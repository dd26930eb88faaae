"""Verdicts from the topic of an index, as they arrive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any

import msgspec
from aiokafka import TopicPartition

from streamer.config import Settings, load_settings
from streamer.errors import InputError, SettingsError
from streamer.kafka.connection import Connection, connection_of
from streamer.kafka.reader import Reader, open_reader, reach
from streamer.kafka.topics import Names
from streamer.model import Verdict

POLL_MILLISECONDS = 500
PATIENCE_SECONDS = 60.0  # for a worker that is about to make the topic

Waiting = Callable[[str], None]  # called once with a topic that is not there yet
Since = datetime | Mapping[int, int]  # when, or by partition the offset of the first message


class FollowedVerdicts(AsyncIterator[Verdict]):
    """The verdicts on an index's topic, those that are there and those that come; see `follow`.

    Attributes:
        offsets: by partition of the topic, the offset after the last verdict that was returned. As
            `since`, they continue there. Empty until the topic has been found.
    """

    def __init__(self, settings: Settings, since: Since | None, *, new_only: bool) -> None:
        self.offsets: dict[int, int] = {}
        self._verdicts = self._read(settings, since, new_only=new_only)

    async def __anext__(self) -> Verdict:
        """Return the next verdict, once there is one."""
        return await anext(self._verdicts)

    async def aclose(self) -> None:
        """Close the connections; what is not used up closes them so."""
        await self._verdicts.aclose()

    async def _read(
        self, settings: Settings, since: Since | None, *, new_only: bool
    ) -> AsyncGenerator[Verdict, None]:
        decode = msgspec.json.Decoder(Verdict).decode
        topic = Names(settings.index_name, settings.input_topic).verdicts
        connection = connection_of(settings)
        arriving = read_messages(
            connection, topic, since=since, new_only=new_only, starts=self.offsets
        )
        async with aclosing(arriving):
            async for message in (each async for messages in arriving for each in messages):
                try:
                    verdict = decode(message.value or b"")
                except msgspec.DecodeError as error:
                    raise InputError(
                        f"The topic {topic} holds what is no verdict: {error}."
                    ) from error
                self.offsets[message.partition] = message.offset + 1
                yield verdict


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

        followed = follow("localhost:9092", "streamer", since=json_offsets_of_yesterday)
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


async def read_messages(
    connection: Connection,
    topic: str,
    *,
    since: Since | None = None,
    new_only: bool = False,
    limit: int | None = None,
    waiting: Waiting = lambda _topic: None,
    starts: dict[int, int] | None = None,
) -> AsyncGenerator[list[Any], None]:
    """Yield a topic's messages as they come, in order a partition; `limit` at most.

    `starts` is filled with the offset at which each partition is begun.

    Raises:
        InputError: there is no such topic after PATIENCE_SECONDS, or it does not have the offsets.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        partitions = await _partitions(reader, topic, waiting)
        bounds = {each: await reader.bounds(topic, each) for each in partitions}
        found = {each: end if new_only else start for each, (start, end) in bounds.items()}
        if since is not None:
            found |= await _starts(reader, topic, bounds, since)
        if starts is not None:
            starts |= found
        consumer = reader.consumer
        consumer.assign([TopicPartition(topic, each) for each in partitions])
        for each, start in found.items():
            consumer.seek(TopicPartition(topic, each), start)
        while limit is None or limit > 0:
            answer = await consumer.getmany(timeout_ms=POLL_MILLISECONDS, max_records=limit)
            messages = [record for records in answer.values() for record in records]
            limit = None if limit is None else limit - len(messages)
            yield messages


async def _starts(
    reader: Reader, topic: str, bounds: Mapping[int, tuple[int, int]], since: Since
) -> dict[int, int]:
    """Return where `since` is, by partition.

    Raises:
        InputError: the topic does not have these offsets.
    """
    if isinstance(since, datetime):
        moment_ms = max(0, round(since.timestamp() * 1000))
        asked = {TopicPartition(topic, each): moment_ms for each in bounds}
        found = await reader.consumer.offsets_for_times(asked)
        return {
            place.partition: first[0] if first else bounds[place.partition][1]
            for place, first in found.items()
        }
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
    deadline = time.monotonic() + PATIENCE_SECONDS
    has_warned = False
    while True:
        try:
            return await reader.partitions(topic)
        except InputError:
            if time.monotonic() > deadline:
                raise
        if not has_warned:
            waiting(topic)
        has_warned = True
        await asyncio.sleep(POLL_MILLISECONDS / 1000)
