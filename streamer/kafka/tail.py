"""Verdicts as they come: every one that a topic holds, and those that follow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from aiokafka import TopicPartition

from streamer.errors import InputError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import Reader, open_reader, reach

POLL_MILLISECONDS = 500
PATIENCE_SECONDS = 60.0


async def tail(
    connection: Connection, topic: str, note_waiting: Callable[[], None], *, new_only: bool = False
) -> AsyncGenerator[bytes]:
    """Yield the values of a topic's messages, in order a partition; never ends.

    With `new_only` those that are there already are left out. A topic that is missing is waited
    for, since a worker that has just been started makes it; `note_waiting` is called then.

    Raises:
        InputError: there is no such topic after PATIENCE_SECONDS.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        partitions = await _partitions(reader, topic, note_waiting)
        places = [TopicPartition(topic, number) for number in partitions]
        bounds = {place: await reader.bounds(topic, place.partition) for place in places}
        consumer = reader.consumer
        consumer.assign(places)
        for place, (start, end) in bounds.items():
            consumer.seek(place, end if new_only else start)
        while True:
            answer = await consumer.getmany(timeout_ms=POLL_MILLISECONDS)
            for records in answer.values():
                for record in records:
                    yield record.value


async def _partitions(reader: Reader, topic: str, note_waiting: Callable[[], None]) -> list[int]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = False
    while True:
        try:
            return await reader.partitions(topic)
        except InputError:
            if time.monotonic() > deadline:
                raise
        if not waiting:
            note_waiting()
        waiting = True
        await asyncio.sleep(POLL_MILLISECONDS / 1000)
