"""`streamer snapshot`, `restore`, `trim-log`: copies of an index, and logs without a beginning."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import command, connection_of
from streamer.config import SECURITY, Settings
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from streamer.run.index_folder import shard_folders
from streamer.run.snapshots import SnapshotFolder, take_snapshot


def snapshot(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")],
    to: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder of its snapshots, or s3://BUCKET/PATH.")
    ],
    *,
    keep: Annotated[
        int, typer.Option(min=0, help="Snapshots to leave in DIR, the newest ones; 0: all.")
    ] = 0,
) -> None:
    """Copy an index as of its newest flush; what DIR has of it already is not copied again.

    Nobody may write the index meanwhile: a running worker takes snapshots itself, with
    --snapshot-to. Of a worker's folder each shard goes to a folder of its own below DIR. A key
    that lies with the index is copied too: keep DIR from others then.

    Example: streamer snapshot my-index /backup/my-index --keep 7
    """
    for part in shard_folders(index):
        place = SnapshotFolder(to).below(part)
        taken = take_snapshot(index / part, place, keep)
        made = taken.snapshot
        typer.echo(
            f"Snapshot {made.number} in {place.name}: flush {made.flush}, {made.pages:,} pages, "
            f"{made.size:,} bytes, of which {taken.size:,} were copied."
        )


def restore(
    to: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder of snapshots, or s3://BUCKET/PATH.")
    ],
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="Folder to make; it must be empty, or missing.")
    ],
    *,
    snapshot: Annotated[
        int | None, typer.Option(min=1, help="Number of the snapshot. \\[default: the newest]")
    ] = None,
) -> None:
    """Make an index of a snapshot: all of it, or nothing. Every byte is compared with its digest.

    A worker that is started with it goes on in its log where the snapshot was taken; a replay goes
    on in its files. Of a worker's snapshots each shard is made, below INDEX.

    Example: streamer restore /backup/my-index my-index
    """
    snapshots = SnapshotFolder(to)
    for part in snapshots.parts():
        made = snapshots.below(part).restore(index / part, snapshot)
        typer.echo(
            f"Snapshot {made.number} in {index / part}: flush {made.flush}, {made.pages:,} pages, "
            f"{made.size:,} bytes, made {made.made:%Y-%m-%d %H:%M:%S} UTC."
        )


@command
def trim_log(
    *,
    snapshots: Annotated[
        str, typer.Option(metavar="DIR", help="Folder of snapshots, as --snapshot-to names it.")
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
    asyncio.run(
        _trim(connection_of(settings), names, SnapshotFolder(snapshots), delete=not dry_run)
    )


async def _trim(
    connection: Connection, names: Names, snapshots: SnapshotFolder, *, delete: bool
) -> None:
    from streamer.kafka.trim import trim  # noqa: PLC0415 - imports Faust, which help does without

    async for log, snapshot, start, end in trim(connection, names, snapshots, delete=delete):
        what = "deleted" if delete else "would be deleted"
        typer.echo(f"{log}: records {start} to {end}, before snapshot {snapshot}, {what}.")
