"""Verdicts as they come: every one that a topic holds, and those that follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from aiokafka import TopicPartition

from streamer.kafka.connection import Connection, reach
from streamer.kafka.reader import open_reader

POLL_MILLISECONDS = 500


async def tail(
    connection: Connection, topic: str, *, new_only: bool = False
) -> AsyncGenerator[bytes]:
    """Yield the values of a topic's messages, in order a partition; never ends.

    With `new_only` those that are there already are left out.

    Raises:
        InputError: there is no such topic.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        places = [TopicPartition(topic, number) for number in await reader.partitions(topic)]
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
