"""`streamer trim-log`: delete what lies before the oldest snapshot of an index from its logs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import command, connection_of
from streamer.config import SECURITY, Settings
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names


@command
def trim_log(
    *,
    snapshots: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of snapshots, as --snapshot-to names it.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    settings: Annotated[Settings, "index_name", "brokers", SECURITY],
) -> None:
    """Delete what lies before the oldest snapshot from an index's logs.

    First every byte of that snapshot is read, its index is opened, and compared with the log. From
    then on a lost index is restored from a snapshot, not from the log alone; and what folds whole
    logs, as `streamer verify`, cannot do so any more. Workers may run beside it.

    Example: streamer trim-log --snapshots /backup/my-index --dry-run
    """
    names = Names(settings.index_name, settings.input_topic)
    asyncio.run(_trim(connection_of(settings), names, snapshots, delete=not dry_run))


async def _trim(connection: Connection, names: Names, snapshots: Path, *, delete: bool) -> None:
    from streamer.kafka.trim import trim  # noqa: PLC0415 - imports Faust, which help does without

    async for log, snapshot, start, end in trim(connection, names, snapshots, delete=delete):
        what = "deleted" if delete else "would be deleted"
        typer.echo(f"{log}: records {start} to {end}, before snapshot {snapshot}, {what}.")
