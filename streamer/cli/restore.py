"""`streamer restore`: make an index of a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamer.run.snapshots import SnapshotFolder, parts_of


def restore(
    to: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of snapshots.")],
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
    for part in parts_of(to, lambda folder: bool(SnapshotFolder(folder).numbers())):
        made = SnapshotFolder(to / part).restore(index / part, snapshot)
        typer.echo(
            f"Snapshot {made.number} in {index / part}: flush {made.flush}, {made.pages:,} pages, "
            f"{made.size:,} bytes, made {made.made:%Y-%m-%d %H:%M:%S} UTC."
        )
