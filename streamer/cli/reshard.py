"""`streamer reshard`: another number of shards for an index that exists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import command, connection_of
from streamer.cli.progress import amount_bar
from streamer.config import KAFKA, SECURITY, Settings
from streamer.errors import SettingsError
from streamer.kafka.wire import stored_position
from streamer.run.reshard import Old, Place, Progress, write


@command
def reshard(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")],
    *,
    to: Annotated[int, typer.Option(min=1, help="Shards that it is to have.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the new index goes. \\[default: in the place of the old one, which is then "
            "INDEX.before]",
        ),
    ] = None,
    new_name: Annotated[
        str | None,
        typer.Option(
            help="Of a worker's index: how the new topics and groups begin, as --index-name does "
            "from then on.",
            rich_help_panel=KAFKA,
        ),
    ] = None,
    settings: Annotated[Settings, "index_name", "input_topic", "brokers", "replicas", SECURITY],
) -> None:
    """Write an index anew with another number of shards; verdicts go on as if it always had them.

    Nobody may write the index meanwhile. The disk must have room for both: the new one has a copy
    of each row for each shard, and takes a fourth more while it is written. A kill leaves the old
    or the new index, and the same command goes on.

    Of a worker's index INDEX has the folders of all shards, with all of their logs read, and all
    workers are stopped. Its logs go on as those of --new-name, verdicts too; the old ones end.

    Example: streamer reshard my-index --to 4

    Example: streamer reshard my-index --to 4 --index-name streamer --new-name streamer-2
    """
    place = Place(index, out)
    if place.finish_killed(to):
        typer.echo(f"The index {index} has {to} shards already.")
        return
    old = Old(index)
    try:
        if to > old.bands:
            raise SettingsError(f"{to} shards need as many bands, there are {old.bands}.")
        old.check_at_rest()
        _check_name(old, settings.index_name, new_name)
        place.clear()
        with amount_bar("writing", old.rows) as progress:
            if new_name is None:
                write(old, to, place.new, old.owners, progress)
                place.take()
            else:
                asyncio.run(_reshard_worker(settings, new_name, old, place, to, progress))
    finally:
        old.close()
    typer.echo(f"The index {out or index} has {to} shards; {old.rows:,} rows were read.")
    if new_name is not None:
        typer.echo(f"Start its workers with --index-name {new_name} --shards {to}.")


def _check_name(old: Old, name: str, new_name: str | None) -> None:
    """Raise SettingsError unless a new name is given where there are topics, and is another."""
    if (stored_position(old.owners[0]) is None) != (new_name is None):
        raise SettingsError(
            f"The index {old.folder} is a worker's: name the topics that it goes on with by "
            "--new-name."
            if new_name is None
            else f"The index {old.folder} is that of a replay, which has no topics. Leave out "
            "--new-name."
        )
    if name == new_name:
        raise SettingsError(f"--new-name {name} is --index-name, the present one. Give another.")


async def _reshard_worker(
    settings: Settings, new_name: str, old: Old, place: Place, to: int, progress: Progress
) -> None:
    # Faust takes a quarter of a second to import, which other indexes do without.
    from streamer.kafka.reshard import Generation, reshard_worker  # noqa: PLC0415 - as above
    from streamer.kafka.topics import Names  # noqa: PLC0415 - as above

    names = Generation(
        Names(settings.index_name, settings.input_topic),
        Names(new_name, settings.input_topic),
        to,
        settings.replicas,
    )
    await reshard_worker(connection_of(settings), names, old, place, progress)
