"""`streamer rethreshold`: the verdicts of a file at another threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from streamer.analysis.rethreshold import Certainty, Rethreshold, Survey
from streamer.cli.options import command
from streamer.cli.terminal import Terminal, figures
from streamer.errors import SettingsError
from streamer.model import SIMILARITY_ONE, Decision
from streamer.run.outputs import STANDARD_OUTPUT, check_distinct, complete_output, output_key
from streamer.run.verdict_files import first_line, open_verdicts, verdicts_in

_Fallback = Annotated[
    float | None,
    typer.Option(
        help="The --fallback-threshold of the run, which holds for pages without main text "
        "(text: visible); 0: none. Needed if such a page is near to a kept one.",
        min=0,
        max=1,
    ),
]


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
    fallback_threshold: _Fallback = None,
) -> None:
    """Write the verdicts that another threshold would give, as far as the file tells them.

    A verdict names the most similar kept page, so the first duplicate below a higher THRESHOLD
    would have been kept. No verdict was compared with that page. So each verdict says in `known`
    how well it is known: `exact`; `decision`, a duplicate of this page for certain, or of a more
    similar one; `open`, unless the page matches one that is kept anew. Exact are all verdicts up to
    the first page that is kept anew, and those by equal content of pages before it.

    A lower THRESHOLD needs the verdicts of a run with --near-misses, and is at most its margin
    lower. A unique page then is a duplicate of what is nearest to it. What had matched that page
    matches another one, or none: it is `open`, and written as it was.

    Refused are a lower threshold without near misses or below their margin, verdicts with `change`,
    near misses of pages with different thresholds (--rules, or an index whose settings changed), a
    file without the verdicts of its representatives, and one of an index with several shards.
    Not known are --keep-pages, full buckets, and rules with a threshold, min_shingles or text of
    their own: judge the pages again where these matter. Memory: some 100 bytes a unique page; the
    file is read twice.

    Example: streamer rethreshold verdicts.jsonl 0.9 --was 0.8 --out strict.jsonl

    Example: streamer rethreshold near.jsonl 0.72 --out lax.jsonl
    """
    _check_source(verdicts, out)
    check_distinct([out], [str(verdicts)])
    at = round(threshold * SIMILARITY_ONE), _points(was), _points(fallback_threshold)
    Terminal(stderr=True).print(_summary(_write(verdicts, out, at)))


def _points(part: float | None) -> int | None:
    return None if part is None else round(part * SIMILARITY_ONE)


def _write(verdicts: Path, out: str, at: tuple[int, int | None, int | None]) -> Rethreshold:
    """Write the verdicts at the thresholds (new, before, fallback); return what was counted."""
    least, before, fallback = at
    encode = msgspec.json.Encoder().encode
    with open_verdicts(verdicts) as lines:
        survey = Survey.of(verdicts_in(lines, verdicts), fallback)
        rejudged = Rethreshold(least, before, survey)
        lines.seek(0)
        with complete_output(out) as file:
            for verdict in rejudged.verdicts(verdicts_in(lines, verdicts)):
                file.write(encode(verdict) + b"\n")
    return rejudged


def _check_source(verdicts: Path, out: str) -> None:
    """Raise SettingsError where the verdicts are not a run's, or could not be taken back."""
    if out != STANDARD_OUTPUT and output_key(out) == output_key(str(verdicts)):
        raise SettingsError(f"--out {out} is the file of the verdicts. Name another one.")
    if not verdicts.is_file():
        raise SettingsError(f"{verdicts} is no file. Give one, since it is read twice.")
    if b'"known":"' in first_line(verdicts):
        raise SettingsError(
            f"{verdicts} was made by rethreshold, and not all in it is certain. Give the verdicts "
            "of the run."
        )


def _summary(rejudged: Rethreshold) -> Table:
    counts, table = rejudged.counts, figures()
    pages = counts.total()
    unique = sum(counts[Decision.UNIQUE, each] for each in Certainty)
    certain = counts[Decision.DUPLICATE, Certainty.EXACT]
    certain += counts[Decision.DUPLICATE, Certainty.DECISION]
    least, most = counts[Decision.UNIQUE, Certainty.EXACT], pages - certain
    table.add_row("verdicts", f"{pages:,}")
    for known in Certainty:
        table.add_row(f"  {known}", f"{sum(counts[each, known] for each in Decision):,}")
    table.add_row("unique", f"{unique:,}")
    table.add_row("  that were duplicates", f"{rejudged.kept_anew:,}")
    table.add_row("  for certain, at least", f"{least:,}")
    table.add_row("  at most", f"{most:,}")
    table.add_row("duplicates", f"{pages - unique:,}")
    table.add_row("  that were unique", f"{rejudged.dropped:,}")
    return table
