"""The command `evaluate`: all methods over labelled pages, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from streamer.cli.progress import amount_bar, compile_with_bar
from streamer.lab.datasets import open_dataset, write_collection
from streamer.lab.plots import check_plot, draw_quality
from streamer.lab.sample.score import THRESHOLD
from streamer.lab.trial import ALL, Trial, Yardstick, select, try_method


def evaluate(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET...",
            help="Folders or files of pages (JSON lines), a sample crawl, a set with "
            "truth_pairs.tsv, or a folder of Reuters-21578's .sgm files.",
            exists=True,
            readable=True,
        ),
    ],
    *,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="Methods, by commas: NAME, NAME+ACCEPT, each with :PARAMETER=VALUE, or with "
            ":exact for --exact. "
            "\\[default: all]"
        ),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(min=0.01, max=1, help="Of true duplicates, exact; methods keep theirs."),
    ] = THRESHOLD,
    own_collection: Annotated[
        bool,
        typer.Option(
            "--own-collection",
            help="Count the words of each dataset for the methods that weigh words.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the hash functions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="File for a plot, .png or .svg.", dir_okay=False)
    ] = None,
) -> None:
    """Judge labelled pages by all methods: how right, how fast, how large.

    Each method makes one pass through the stream code with a temporary index. True duplicates are
    those of exact resemblance, computed by a plain reference; all pages are held in memory for
    that. A method that decides by anything else is measured by how far it comes to the same.

    Example: streamer evaluate crawl/ --methods minhash,simhash,simhash+minhash --plot quality.svg
    """
    if plot is not None:
        check_plot(plot)
    names = methods or [ALL]
    select(names)  # a wrong name ends the run before any work
    compile_with_bar()
    with TemporaryDirectory(prefix="streamer-") as scratch:
        trials = [
            trial
            for path in datasets
            for trial in _trials(path, names, Path(scratch), threshold, seed, own=own_collection)
        ]
    _show(trials, threshold, plot, as_json=as_json)


def _show(trials: Sequence[Trial], threshold: float, plot: Path | None, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(trials)).decode())
    else:
        console = Console()
        for _, group in groupby(trials, key=lambda trial: trial.dataset):
            console.print(trial_table(list(group), threshold))
    if plot is not None:
        draw_quality(trials, plot)
        if not as_json:
            Console().print(f"The plot is in {plot}.", highlight=False, soft_wrap=True)


def _trials(
    path: Path, names: Sequence[str], scratch: Path, threshold: float, seed: int, *, own: bool
) -> Iterator[Trial]:
    """Yield the trials of one dataset, with a bar for each."""
    dataset = open_dataset(path, scratch)
    yardstick = Yardstick(dataset, threshold)
    collection = write_collection(dataset, scratch) if own else None
    for name, signature, index in select(names, collection):
        with amount_bar(f"{dataset.name}: {name}", len(dataset.pages)) as report:
            yield try_method(yardstick, name, signature, index, seed=seed, progress=report)


def trial_table(trials: Sequence[Trial], threshold: float) -> Table:
    """Return the trials of one dataset as a table, in their order."""
    table = Table(
        title=f"{trials[0].dataset}: duplicates at exact resemblance {threshold:g} or more; pages,"
        " pairs of a cluster, clusters, labelled pairs",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    table.add_column("method", overflow="fold")
    labels = [f"of {trials[0].labelled[1]:,}"] if trials[0].labelled else []
    columns = ("P", "R", "F1", "pairs P", "R", "F1", "ARI", *labels, "pages/s", "bytes")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for trial in trials:
        table.add_row(*trial.cells())
    return table
