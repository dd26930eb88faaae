"""The commands `sample` and `score`: a crawl with planted copies, and how right verdicts are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from streamer.analysis.sample.crawl import PAGES_FILE, SEED, TRUTH_FILE, Kind, write_crawl
from streamer.analysis.sample.reference import MIN_SHINGLES
from streamer.analysis.sample.score import (
    MARGIN,
    THRESHOLD,
    Cluster,
    ConfusionCounts,
    Score,
    largest_clusters,
    ratio_text,
    read_verdicts,
)
from streamer.analysis.sample.score import score as score_verdicts
from streamer.analysis.sample.url_variants import PAGES_FILE as URLS_FILE
from streamer.analysis.sample.url_variants import TRUTH_FILE as URL_TRUTH_FILE
from streamer.analysis.sample.url_variants import write_url_variants
from streamer.cli.options import command
from streamer.cli.progress import compile_with_bar, count_bar
from streamer.cli.terminal import Terminal
from streamer.run.page_reader import PageReader


def sample(
    out: Annotated[
        Path,
        typer.Argument(help="Folder to write into; it is made if there is none.", file_okay=False),
    ],
    pages: Annotated[int, typer.Option(min=0, help="How many records.")] = 4000,
    seed: Annotated[int, typer.Option(help="Another seed gives another crawl.")] = SEED,
    url_variants: Annotated[
        int,
        typer.Option(
            min=0,
            help="Also write so many sites of each kind whose pages have several URLs, and the "
            "hints that are true of them.",
        ),
    ] = 0,
) -> None:
    """Write a sample crawl: pages in seven languages, near-duplicates planted among them.

    Makes `pages.jsonl`, and `truth.tsv` with what each page is a copy of. The same number and seed
    give the same bytes everywhere. With --url-variants, `url-variants.jsonl` has further pages, and
    `url-variants.tsv` what `streamer hints` should say of them.

    Example: streamer sample crawl --pages 4000

    Example: streamer sample crawl --pages 0 --url-variants 3
    """
    with count_bar() as tell:
        counts = write_crawl(out, pages, seed, lambda done: tell("writing pages", done, pages))
    originals = counts[Kind.ORIGINAL]
    typer.echo(
        f"{out / PAGES_FILE}: {pages:,} records, {originals:,} of them original articles;"
        f" what was planted is in {out / TRUTH_FILE}"
    )
    if url_variants:
        number = write_url_variants(out, url_variants, seed)
        typer.echo(
            f"{out / URLS_FILE}: {number:,} pages with several URLs each; the hints that are true"
            f" are in {out / URL_TRUTH_FILE}"
        )


@command
def score(
    pages: Annotated[
        list[str],
        typer.Argument(
            metavar="PAGES",
            help="JSONL (.jsonl, .gz, .zst), WARC/WET or ARC files, or directories of these: those "
            "that were judged, in order.",
        ),
    ],
    verdicts: Annotated[
        Path,
        typer.Argument(
            help="The verdicts of these pages.", dir_okay=False, exists=True, readable=True
        ),
    ],
    *,
    threshold: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Least resemblance of a duplicate.")
    ] = THRESHOLD,
    margin: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Width of the band counted apart.")
    ] = MARGIN,
    min_shingles: Annotated[
        int, typer.Option(min=1, help="Pages with fewer must be equal.")
    ] = MIN_SHINGLES,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    reader: PageReader,
) -> None:
    """Score verdicts against the exact resemblance of their pages.

    A truth file next to the first pages file adds the planted kinds. The pages are held in memory.
    A ratio of nothing is shown as a hyphen, and is null in JSON.

    Example: streamer score crawl/pages.jsonl verdicts.jsonl --threshold 0.8
    """
    files = [source.name for source in reader.open(pages)]
    truth = Path(files[0]).with_name(TRUTH_FILE)
    compile_with_bar()
    result = score_verdicts(
        files,
        verdicts,
        threshold,
        truth=truth if truth.is_file() else None,
        margin=margin,
        min_shingles=min_shingles,
        reader=reader,
    )
    clusters = largest_clusters(read_verdicts(verdicts))
    if as_json:
        typer.echo(msgspec.json.encode(_report(result, clusters)).decode())
        return
    console = Terminal()
    console.print(_outcome_table(result))
    console.print(
        f"kept {result.kept:,}, without a verdict {result.missing:,}, repeated {result.repeats:,},"
        f" with a representative that was not kept {result.bad_representatives:,}"
    )
    if clusters:
        console.print(_cluster_table(clusters))


def _figures(outcomes: ConfusionCounts) -> dict[str, Any]:
    """Return counts and ratios of one line."""
    return {
        "pages": outcomes.pages,
        "duplicates": outcomes.duplicates,
        **asdict(outcomes),
        "precision": _rounded(outcomes.precision),
        "recall": _rounded(outcomes.recall),
        "f1": _rounded(outcomes.f1),
    }


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 6)


def _report(result: Score, clusters: list[Cluster]) -> dict[str, Any]:
    """Return all of a score as JSON values."""
    return {
        "threshold": result.threshold,
        "all": _figures(result.outcomes),
        "outside_margin": _figures(result.clear),
        "kinds": {kind: _figures(one) for kind, one in sorted(result.kinds.items())},
        "kept": result.kept,
        "missing": result.missing,
        "repeats": result.repeats,
        "bad_representatives": result.bad_representatives,
        "clusters": [asdict(cluster) for cluster in clusters],
    }


def _outcome_table(result: Score) -> Table:
    """Return the figures as a table: all pages, those outside the margin, each planted kind."""
    table = Table(
        title=f"duplicates at resemblance {result.threshold:g} or more",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    table.add_column("among", no_wrap=True)
    for name in ("pages", "said", "wrong", "missed", "precision", "recall", "F1"):
        table.add_column(name, justify="right")
    lines = {"all": result.outcomes, "outside the margin": result.clear}
    for name, one in {**lines, **dict(sorted(result.kinds.items()))}.items():
        table.add_row(
            name,
            f"{one.pages:,}",
            f"{one.duplicates:,}",
            f"{one.false_positive:,}",
            f"{one.false_negative:,}",
            *map(ratio_text, (one.precision, one.recall, one.f1)),
            end_section=name == "outside the margin",
        )
    return table


def _cluster_table(clusters: list[Cluster]) -> Table:
    """Return the largest clusters as a table."""
    table = Table(title="largest clusters", box=SIMPLE_HEAD)
    table.add_column("representative", overflow="fold")
    table.add_column("pages", justify="right")
    table.add_column("share", justify="right")
    for cluster in clusters:
        table.add_row(cluster.url, f"{cluster.size:,}", f"{cluster.share:.2%}")
    return table
