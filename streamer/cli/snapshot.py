"""`streamer snapshot`: copy an index that nobody writes into a folder of snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamer.index.store import has_index
from streamer.run.snapshots import SnapshotFolder, parts_of, take_snapshot


def snapshot(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")],
    to: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of its snapshots.")],
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
    for part in parts_of(index, has_index):
        taken = take_snapshot(index / part, SnapshotFolder(to / part), keep)
        made = taken.snapshot
        typer.echo(
            f"Snapshot {made.number} in {to / part}: flush {made.flush}, {made.pages:,} pages, "
            f"{made.size:,} bytes, of which {taken.size:,} were copied."
        )
