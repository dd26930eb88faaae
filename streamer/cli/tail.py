"""`streamer tail`: show an index's verdicts as they come."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated

import typer
from aiokafka import TopicPartition

from streamer.cli.options import command, connection_of
from streamer.config import SECURITY, Settings
from streamer.errors import InputError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import Reader, open_reader, reach
from streamer.kafka.topics import Names

POLL_MILLISECONDS = 500
PATIENCE_SECONDS = 60.0


@command
def tail(
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, help="End after so many. \\[default: at Ctrl-C]")
    ] = None,
    new_only: Annotated[
        bool, typer.Option("--new-only", help="Leave out those that are there already.")
    ] = False,
    settings: Annotated[Settings, "index_name", "brokers", SECURITY],
) -> None:
    """Show verdicts as JSON lines: those that there are, and those that come.

    Example: streamer tail --limit 10 --index-name streamer
    """
    connection = connection_of(settings)
    topic = Names(settings.index_name, settings.input_topic).verdicts
    with suppress(KeyboardInterrupt):
        asyncio.run(_show(connection, topic, limit, new_only=new_only))


async def _show(connection: Connection, topic: str, limit: int | None, *, new_only: bool) -> None:
    shown = 0
    async with aclosing(_values(connection, topic, new_only=new_only)) as values:
        async for value in values:
            sys.stdout.buffer.write(value + b"\n")
            sys.stdout.buffer.flush()
            shown += 1
            if shown == limit:
                return


async def _values(connection: Connection, topic: str, *, new_only: bool) -> AsyncGenerator[bytes]:
    """Yield the values of a topic's messages, in order a partition; never ends.

    Raises:
        InputError: there is no such topic after PATIENCE_SECONDS.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        partitions = await _partitions(reader, topic)
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


async def _partitions(reader: Reader, topic: str) -> list[int]:
    """Return the partitions of a topic; wait for one that a worker is about to make."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = False
    while True:
        try:
            return await reader.partitions(topic)
        except InputError:
            if time.monotonic() > deadline:
                raise
        if not waiting:
            sys.stderr.write(f"There is no topic {topic} yet; waiting for a worker to make it.\n")
        waiting = True
        await asyncio.sleep(POLL_MILLISECONDS / 1000)
