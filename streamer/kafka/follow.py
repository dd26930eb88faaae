"""Verdicts from the topic of an index, as they arrive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import msgspec
from aiokafka import TopicPartition

from streamer.config import Settings, load_settings
from streamer.errors import InputError
from streamer.kafka.connection import Connection, connection_of
from streamer.kafka.reader import Reader, open_reader, reach
from streamer.kafka.topics import Names
from streamer.model import Verdict

POLL_MILLISECONDS = 500
PATIENCE_SECONDS = 60.0  # for a worker that is about to make the topic

Waiting = Callable[[str], None]  # called once with a topic that is not there yet


async def follow(
    brokers: str | None = None,
    index_name: str | None = None,
    *,
    new_only: bool = False,
    settings: Settings | None = None,
) -> AsyncIterator[Verdict]:
    """Yield the verdicts on an index's topic, those that are there and those that come.

    Those of a partition are in their order. After a crash of a worker some may come twice, equal
    in each field. `new_only` leaves out what is there already. Settings are those of
    `streamer tail`: what is not given is taken from variables STREAMER_*, else their defaults.

    Raises:
        InputError: there is no such topic after a minute, or something in it is no verdict.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    if settings is None:
        settings = load_settings(brokers=brokers, index_name=index_name)
    decode = msgspec.json.Decoder(Verdict).decode
    topic = Names(settings.index_name, settings.input_topic).verdicts
    async for values in read_values(connection_of(settings), topic, new_only=new_only):
        for value in values:
            try:
                verdict = decode(value)
            except msgspec.DecodeError as error:
                raise InputError(f"The topic {topic} holds what is no verdict: {error}.") from error
            yield verdict


async def read_values(
    connection: Connection,
    topic: str,
    *,
    new_only: bool = False,
    limit: int | None = None,
    waiting: Waiting = lambda _topic: None,
) -> AsyncIterator[list[bytes]]:
    """Yield the values of a topic's messages as they come, in order a partition; `limit` at most.

    Raises:
        InputError: there is no such topic after PATIENCE_SECONDS.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        partitions = await _partitions(reader, topic, waiting)
        bounds = {each: await reader.bounds(topic, each) for each in partitions}
        consumer = reader.consumer
        consumer.assign([TopicPartition(topic, each) for each in partitions])
        for each, (start, end) in bounds.items():
            consumer.seek(TopicPartition(topic, each), end if new_only else start)
        while limit is None or limit > 0:
            answer = await consumer.getmany(timeout_ms=POLL_MILLISECONDS, max_records=limit)
            values = [record.value for records in answer.values() for record in records]
            limit = None if limit is None else limit - len(values)
            yield values


async def _partitions(reader: Reader, topic: str, waiting: Waiting) -> list[int]:
    """Return the partitions of a topic; wait for one that a worker is about to make."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    is_told = False
    while True:
        try:
            return await reader.partitions(topic)
        except InputError:
            if time.monotonic() > deadline:
                raise
        if not is_told:
            waiting(topic)
        is_told = True
        await asyncio.sleep(POLL_MILLISECONDS / 1000)
