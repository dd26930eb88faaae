"""The command `sample`: write a crawl with planted near-duplicates, to try the detector on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamer.lab.sample.crawl import SEED, Kind
from streamer.lab.sample.truth import PAGES_FILE, TRUTH_FILE, write_crawl


def sample(
    out: Annotated[
        Path,
        typer.Argument(help="Folder to write into; it is made if there is none.", file_okay=False),
    ],
    pages: Annotated[int, typer.Option(min=0, help="How many records.")] = 4000,
    seed: Annotated[int, typer.Option(help="Another seed gives another crawl.")] = SEED,
) -> None:
    """Write a sample crawl: pages in seven languages, near-duplicates planted among them.

    Makes `pages.jsonl`, and `truth.tsv` with what each page is a copy of. The same number and seed
    give the same bytes everywhere.

    Example: streamer sample crawl --pages 4000
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("writing pages"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=pages)
        counts = write_crawl(out, pages, seed, lambda count: bar.advance(task, count))
    originals = counts[Kind.ORIGINAL]
    typer.echo(
        f"{out / PAGES_FILE}: {pages:,} records, {originals:,} of them original articles;"
        f" what was planted is in {out / TRUTH_FILE}"
    )
