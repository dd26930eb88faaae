"""The command `tune`: which bands and rows serve a threshold, by the S-curve and on a sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from streamer.cli.progress import amount_bar, compile_with_bar
from streamer.errors import InputError
from streamer.lab.plots import check_plot, draw_curves
from streamer.lab.sample.score import ratio_text
from streamer.lab.tuning import (
    HASHES_MAX,
    WEIGHT_FP,
    Banding,
    Trial,
    detection_probability,
    rank_bandings,
    try_bandings,
    weighed_banding,
)
from streamer.pages.files import open_sources
from streamer.sketch.settings import SignatureSettings

DEFAULT = SignatureSettings()
CAPTION = "* the default"


def tune(
    threshold: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Least resemblance of duplicates.")
    ] = 0.8,
    hashes: Annotated[
        int, typer.Option(min=1, max=HASHES_MAX, help="Min-hashes a page, at most.")
    ] = 84,
    weight_fp: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Weight of false positives; that of false negatives is the rest."
        ),
    ] = WEIGHT_FP,
    sample: Annotated[
        list[str] | None,
        typer.Option(help="Page files or folders, as for replay, to count candidates on."),
    ] = None,
    shingle_width: Annotated[
        int, typer.Option(min=1, max=32, help="Tokens a shingle, on the sample.")
    ] = 5,
    best: Annotated[int, typer.Option(min=1, max=20, help="How many to show.")] = 5,
    plot: Annotated[
        Path | None, typer.Option(help="File for the S-curves, .png or .svg.", dir_okay=False)
    ] = None,
) -> None:
    """Find the bands and rows with the least error for a threshold.

    Of all with bands x rows <= hashes, the best are those with the least weighted sum of the area
    under the S-curve below the threshold (false positives: work) and over it above (false
    negatives: duplicates missed). The detector verifies candidates, so to it a false positive is
    work and no wrong verdict: hence the small weight. The default bands and rows are shown beside
    the best. On a sample, candidates are counted; a page of it takes about 2 kB of memory.

    Example: streamer tune --threshold 0.9 --sample crawl/ --plot curve.svg
    """
    if plot is not None:
        check_plot(plot)
    ranked = rank_bandings(threshold, hashes, weight_fp)[:best]
    console = Console()
    shown = ranked
    if not any(_is_default(banding.bands, banding.rows) for banding in ranked):
        default = weighed_banding(threshold, DEFAULT.bands, DEFAULT.rows, weight_fp)
        shown = [*ranked, default]
    console.print(_banding_table(shown, threshold))
    if sample:
        console.print(_trial_table(_trials(sample, shown, threshold, shingle_width), threshold))
    if plot is not None:
        draw_curves(ranked, threshold, plot)
        console.print(f"The S-curves are in {plot}.", highlight=False, soft_wrap=True)
    console.print(_settings(ranked[0], threshold), highlight=False, soft_wrap=True, markup=False)


def _is_default(bands: int, rows: int) -> bool:
    return (bands, rows) == (DEFAULT.bands, DEFAULT.rows)


def _trials(
    sample: Sequence[str], ranked: Sequence[Banding], threshold: float, shingle_width: int
) -> list[Trial]:
    """Return what the bandings find on the sample.

    Raises:
        InputError: it cannot be read, or has no page.
    """
    sources = open_sources(sample).sources
    compile_with_bar()
    bandings = [(banding.bands, banding.rows) for banding in ranked]
    total = sum(source.total_bytes or 0 for source in sources)
    with amount_bar("signing the sample", total) as report:
        trials = try_bandings(sources, bandings, threshold, shingle_width, report)
    if not trials[0].pages:
        raise InputError(f"{', '.join(sample)}: no page that can be judged; give page files")
    return trials


def _banding_table(ranked: Sequence[Banding], threshold: float) -> Table:
    """Return the bandings with their areas and the probabilities about the threshold."""
    around = [round(threshold + step, 6) for step in (-0.2, -0.1, 0, 0.1)]
    shown = [similarity for similarity in around if 0 < similarity < 1]
    table = Table(
        title="areas of false positives and negatives, the least error first",
        caption=CAPTION,
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    names = ("bands", "rows", "fp area", "fn area", "error")
    for name in (*names, *(f"P({similarity:g})" for similarity in shown)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for bands, rows, *areas in ranked:
        found = (detection_probability(similarity, bands, rows) for similarity in shown)
        figures = (f"{value:.4f}" for value in (*areas, *found))
        table.add_row(str(bands), str(rows), *figures, _mark(bands, rows))
    return table


def _trial_table(trials: Sequence[Trial], threshold: float) -> Table:
    """Return the candidates that the bandings find on the sample."""
    table = Table(
        title=f"candidates on the sample of {trials[0].pages:,} pages",
        caption=CAPTION,
        box=SIMPLE_HEAD,
    )
    names = ("bands", "rows", "candidates a page", f"at {threshold:g} or more", "below", "recall")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("", no_wrap=True)
    for trial in trials:
        counts = (f"{trial.candidates_a_page:.2f}", f"{trial.true:,}", f"{trial.false:,}")
        mark = _mark(trial.bands, trial.rows)
        table.add_row(str(trial.bands), str(trial.rows), *counts, ratio_text(trial.recall), mark)
    return table


def _mark(bands: int, rows: int) -> str:
    return "*" if _is_default(bands, rows) else ""


def _settings(banding: Banding, threshold: float) -> str:
    """Return the settings of a banding, to paste into a file or a command line."""
    bands, rows = banding.bands, banding.rows
    return (
        f"Settings file:\n  threshold = {threshold:g}\n  bands = {bands}\n  rows = {rows}\n"
        f"Flags:\n  --threshold {threshold:g} --bands {bands} --rows {rows}"
    )
