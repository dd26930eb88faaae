"""`streamer tail`: show an index's verdicts as they come."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, suppress
from typing import Annotated

import typer

from streamer.cli.options import command, connection_of
from streamer.config import SECURITY, Settings
from streamer.kafka.connection import Connection
from streamer.kafka.tail import tail as follow
from streamer.kafka.topics import Names


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
    def note_waiting() -> None:
        sys.stderr.write(f"There is no topic {topic} yet; waiting for a worker to make it.\n")

    shown = 0
    async with aclosing(follow(connection, topic, note_waiting, new_only=new_only)) as values:
        async for value in values:
            sys.stdout.buffer.write(value + b"\n")
            sys.stdout.buffer.flush()
            shown += 1
            if shown == limit:
                return
