"""`streamer tail`: show an index's verdicts as they come."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, suppress
from typing import Annotated

import typer

from streamer.cli import options
from streamer.config import load_settings
from streamer.kafka.connection import Connection
from streamer.kafka.tail import tail as follow
from streamer.kafka.topics import Names


def tail(  # noqa: PLR0913 - the options of the command line
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, help="End after so many. \\[default: at Ctrl-C]")
    ] = None,
    new_only: Annotated[
        bool, typer.Option("--new-only", help="Leave out those that are there already.")
    ] = False,
    index_name: options.IndexName = None,
    brokers: options.Brokers = None,
    security_protocol: options.SecurityProtocol = None,
    ssl_cafile: options.SslCafile = None,
    ssl_certfile: options.SslCertfile = None,
    ssl_keyfile: options.SslKeyfile = None,
    sasl_mechanism: options.SaslMechanism = None,
    sasl_username: options.SaslUsername = None,
    sasl_password_file: options.SaslPasswordFile = None,
    config: options.ConfigFile = None,
) -> None:
    """Show verdicts as JSON lines: those that there are, and those that come.

    Example: streamer tail --limit 10 --index-name streamer
    """
    settings = load_settings(
        config, index_name=index_name, brokers=brokers, security_protocol=security_protocol,
        ssl_cafile=ssl_cafile, ssl_certfile=ssl_certfile, ssl_keyfile=ssl_keyfile,
        sasl_mechanism=sasl_mechanism, sasl_username=sasl_username,
        sasl_password_file=sasl_password_file,
    )  # fmt: skip
    connection = options.connection_of(settings)
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
