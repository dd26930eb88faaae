"""`streamer worker`: pages in from Kafka, verdicts out, until it is told to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import command, connection_of, page_parser
from streamer.config import Settings
from streamer.errors import SettingsError


@command
def worker(
    index: Annotated[
        Path,
        typer.Option(help="Folder of the index, one below it a shard.", envvar="STREAMER_INDEX"),
    ] = Path("index"),
    *,
    settings: Settings,
) -> None:
    """Judge pages as they come in: one verdict a page, whatever is killed meanwhile.

    Workers of one index share the pages; each shard of the index has one owner. SIGTERM ends a
    worker in order, and the next start goes on from there. It needs a key that all workers share.

    Example: openssl rand -hex 32 > key && streamer worker --index my-index --key-file key

    Example: streamer worker --preset nutch --preset balanced --index my-index --key-file key
    """
    if settings.key_file is None:
        raise SettingsError(
            "A worker needs a key that all workers of the index share. "
            "Make one with `openssl rand -hex 32 > key`, and give it with --key-file key."
        )
    # Faust takes a quarter of a second to import, which the other commands do without.
    from streamer.kafka.topics import Names  # noqa: PLC0415 - as above
    from streamer.kafka.worker import WorkerOptions, run_worker  # noqa: PLC0415 - as above

    wanted = WorkerOptions(
        settings,
        connection_of(settings),
        Names(settings.index_name, settings.input_topic),
        index,
        settings.key_file,
        page_parser(settings),
    )
    asyncio.run(run_worker(wanted))
