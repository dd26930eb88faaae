"""`streamer rethreshold`: the verdicts of a file at a stricter threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from streamer.analysis.rethreshold import Certainty, Rethreshold
from streamer.cli.options import command
from streamer.cli.terminal import Terminal, figures
from streamer.errors import SettingsError
from streamer.model import SIMILARITY_ONE, Decision
from streamer.run.outputs import STANDARD_OUTPUT, check_distinct, complete_output, output_key
from streamer.run.verdict_files import first_line, read_verdicts


@command
def rethreshold(
    verdicts: Annotated[
        Path,
        typer.Argument(
            help="All verdicts of an index as JSON lines, in their order (.gz, .zst as well).",
            exists=True,
            dir_okay=False,
        ),
    ],
    threshold: Annotated[
        float,
        typer.Argument(
            metavar="THRESHOLD", help="Least similarity of duplicates, 0 to 1.", min=0, max=1
        ),
    ],
    *,
    out: Annotated[
        str, typer.Option(help="Where the verdicts go: JSON lines, .gz or .zst; - for stdout.")
    ] = STANDARD_OUTPUT,
    was: Annotated[
        float | None,
        typer.Option(
            help="The threshold of the run, the lowest if --rules had several. \\[default: at most "
            "the least similarity in the file]",
            min=0,
            max=1,
        ),
    ] = None,
) -> None:
    """Write the verdicts that a stricter threshold would give, as far as the file tells them.

    A verdict names the most similar kept page, so the first duplicate below THRESHOLD would have
    been kept. No verdict was compared with that page. So each verdict says in `known` how well it
    is known: `exact`; `decision`, a duplicate of this page for certain, or of a more similar one;
    `open`, unless the page matches one that is kept anew. Exact are all verdicts up to the first
    page that is kept anew, and those by equal content of pages before it.

    Refused are a lower threshold (the file does not tell what a unique page is similar to),
    verdicts with `change`, a file without the verdicts of its representatives, and one of an index
    with several shards, whose lines are in another order. It does not
    know --keep-pages, by which more kept pages expire sooner, and full buckets: judge the pages
    again where these matter. Memory: some 100 bytes a unique page.

    Example: streamer rethreshold verdicts.jsonl 0.9 --was 0.8 --out strict.jsonl
    """
    least = round(threshold * SIMILARITY_ONE)
    before = None if was is None else round(was * SIMILARITY_ONE)
    if before is not None and least < before:
        raise SettingsError(
            f"The threshold {threshold:g} is lower than --was {was:g}, and pages that were called "
            "unique would match. The file has no similarity of these: judge the pages again."
        )
    _check_source(verdicts, out, was)
    check_distinct([out], [str(verdicts)])
    told, encode = Rethreshold(least, before), msgspec.json.Encoder().encode
    with complete_output(out) as file:
        for verdict in told.verdicts(read_verdicts(verdicts)):
            file.write(encode(verdict) + b"\n")
    Terminal(stderr=True).print(_summary(told))


def _check_source(verdicts: Path, out: str, was: float | None) -> None:
    """Raise SettingsError where the verdicts are not a run's, or could not be taken back."""
    if out != STANDARD_OUTPUT and output_key(out) == output_key(str(verdicts)):
        raise SettingsError(f"--out {out} is the file of the verdicts. Name another one.")
    if b'"known":"' in first_line(verdicts):
        raise SettingsError(
            f"{verdicts} was made by rethreshold, and not all in it is certain. Give the verdicts "
            "of the run."
        )
    if was is None and out == STANDARD_OUTPUT:
        raise SettingsError(
            "Give the threshold of the run with --was, or a file with --out: without both, "
            "verdicts would be written before the file shows whether it can tell them."
        )


def _summary(told: Rethreshold) -> Table:
    counts, table = told.counts, figures()
    pages = counts.total()
    unique = sum(counts[Decision.UNIQUE, each] for each in Certainty)
    certain = counts[Decision.DUPLICATE, Certainty.EXACT]
    certain += counts[Decision.DUPLICATE, Certainty.DECISION]
    least, most = counts[Decision.UNIQUE, Certainty.EXACT], pages - certain
    table.add_row("verdicts", f"{pages:,}")
    for known in Certainty:
        table.add_row(f"  {known}", f"{sum(counts[each, known] for each in Decision):,}")
    table.add_row("unique", f"{unique:,}")
    table.add_row("  that were duplicates", f"{told.kept_anew:,}")
    table.add_row("  for certain, at least", f"{least:,}")
    table.add_row("  at most", f"{most:,}")
    table.add_row("duplicates", f"{pages - unique:,}")
    return table
