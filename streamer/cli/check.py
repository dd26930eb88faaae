"""`streamer check`: the settings in force, and whether they fit an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streamer.cli import options
from streamer.config import Settings, load_settings
from streamer.errors import StoreMismatch
from streamer.index.snapshot import unpack_snapshot
from streamer.stream.index_folder import (
    check_identity,
    identity_of,
    obtain_existing_secret,
    read_meta,
)


def check(  # noqa: PLR0913 - the options of the command line
    index: Annotated[
        Path | None, typer.Option(help="Folder of the index to hold the settings against.")
    ] = None,
    threshold: options.Threshold = None,
    min_shingles: options.MinShingles = None,
    shingle_width: options.ShingleWidth = None,
    bands: options.Bands = None,
    rows: options.RowsOption = None,
    shards: options.Shards = None,
    key_file: options.KeyFile = None,
    threads: options.Threads = None,
    head_pages: options.HeadPages = None,
    config: options.ConfigFile = None,
) -> None:
    """Show the settings in force and whether they fit an index; exit code 3 if they do not.

    Example: streamer check --index my-index --bands 20 --rows 4
    """
    settings = load_settings(
        config, threshold=threshold, min_shingles=min_shingles, shingle_width=shingle_width,
        bands=bands, rows=rows, shards=shards, key_file=key_file, threads=threads,
        head_pages=head_pages,
    )  # fmt: skip
    console = Console()
    table = Table("setting", "value", "meaning", box=None, pad_edge=False)
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        table.add_row(name, "" if value is None else str(value), field.description)
    console.print(table)
    if index is not None:
        console.print(_fit(index, settings))


def _fit(index: Path, settings: Settings) -> str:
    """Return a sentence about an index that fits; raise StoreMismatch for one that does not."""
    store, meta = read_meta(index)
    store.close()
    secret = obtain_existing_secret(index, settings.key_file)
    check_identity(index, meta.identity, identity_of(settings.signature, settings.shards, secret))
    in_force = unpack_snapshot(meta.shards[0].state).settings
    wanted = settings.index.model_dump()
    if in_force is None or in_force["version"] > wanted["version"]:
        raise StoreMismatch(
            f"The index {index} was written by a later version of the program. Use that."
        )
    changes = [f"{n} {in_force[n]} -> {wanted[n]}" for n in wanted if wanted[n] != in_force[n]]
    if changes:
        return f"The index {index} fits. From the next page on: {', '.join(changes)}."
    return f"The index {index} fits, and nothing changes."
