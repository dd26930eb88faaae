"""The commands `sample` and `score`: a crawl with planted copies, and how right verdicts are."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from streamer.analysis.evaluation import ConfusionCounts, ratio_text
from streamer.analysis.sample import crawl
from streamer.analysis.sample.reference import MIN_SHINGLES, pages_of
from streamer.analysis.sample.score import MARGIN, THRESHOLD, Score, score_pages
from streamer.analysis.verdicts import Cluster, largest_clusters, read_verdicts
from streamer.cli.options import AsJson, command
from streamer.cli.terminal import Terminal, compile_with_bar, count_bar, listing, show
from streamer.run.page_reader import PageReader

RATIOS = ("precision", "recall", "f1")


@command
def sample(
    out: Annotated[Path, typer.Argument(file_okay=False)],
    *,
    pages: Annotated[int, typer.Option(min=0)] = 4000,
    seed: int = crawl.SEED,
) -> None:
    """Write a sample crawl: pages in seven languages, near-duplicates planted among them.

    Makes `pages.jsonl`, and `truth.tsv` with what each page is a copy of. The same number and seed
    give the same bytes everywhere.

    Example: streamer sample crawl --pages 4000

    Args:
        out: Folder to write into; it is made if there is none.
        pages: How many records.
        seed: Another seed gives another crawl.
    """
    with count_bar() as report:
        counts = crawl.write_crawl(
            out, pages, seed, lambda done: report("writing pages", done, pages)
        )
    originals = counts[crawl.Kind.ORIGINAL]
    typer.echo(
        f"{out / crawl.PAGES_FILE}: {pages:,} records, {originals:,} of them original articles;"
        f" what was planted is in {out / crawl.TRUTH_FILE}"
    )


@command
def score(
    pages: list[str],
    verdicts: Annotated[Path, typer.Argument(dir_okay=False, exists=True, readable=True)],
    *,
    threshold: Annotated[float, typer.Option(min=0.01, max=1.0)] = THRESHOLD,
    margin: Annotated[float, typer.Option(min=0.0, max=0.5)] = MARGIN,
    min_shingles: Annotated[int, typer.Option(min=1)] = MIN_SHINGLES,
    as_json: AsJson = False,
    reader: PageReader,
) -> None:
    """Score verdicts against the exact resemblance of their pages.

    A truth file next to the first pages file adds the planted kinds. The pages are held in memory.
    A ratio of nothing is shown as a hyphen, and is null in JSON.

    Example: streamer score crawl/pages.jsonl verdicts.jsonl --threshold 0.8

    Args:
        pages (PAGES): JSONL (.jsonl, .gz, .zst), WARC/WET or ARC files, or directories of these:
            those that were judged, in order.
        verdicts: The verdicts of these pages.
        threshold: Least resemblance of a duplicate.
        margin: Width of the band counted apart.
        min_shingles: Pages with fewer must be equal.
    """
    sources = reader.open(pages)
    truth = Path(sources[0].name).with_name(crawl.TRUTH_FILE)
    compile_with_bar()
    table, kinds = pages_of(sources, reader), crawl.read_kinds(truth) if truth.is_file() else {}
    result = score_pages(
        table, verdicts, threshold, kinds, margin=margin, min_shingles=min_shingles
    )
    show(_report(result, largest_clusters(read_verdicts(verdicts))), _print, as_json=as_json)


def _figures(outcomes: ConfusionCounts) -> dict[str, Any]:
    """Return counts and ratios of one line."""
    ratios = {name: getattr(outcomes, name) for name in RATIOS}
    return {
        "pages": outcomes.pages,
        "duplicates": outcomes.duplicates,
        **asdict(outcomes),
        **{name: ratio if ratio is None else round(ratio, 6) for name, ratio in ratios.items()},
    }


def _report(result: Score, clusters: list[Cluster]) -> dict[str, Any]:
    """Return all of a score as JSON values."""
    counts = ("kept", "missing", "repeats", "bad_representatives")
    return {
        "threshold": result.threshold,
        "all": _figures(result.outcomes),
        "outside_margin": _figures(result.clear),
        "kinds": {kind: _figures(one) for kind, one in sorted(result.kinds.items())},
        **{name: getattr(result, name) for name in counts},
        "clusters": clusters,
    }


def _print(report: dict[str, Any]) -> None:
    """Print the figures of all pages, of those outside the margin, and of each planted kind."""
    console = Terminal()
    heads = ("among", "pages", "said", "wrong", "missed", "precision", "recall", "F1")
    lines = {"all": report["all"], "outside the margin": report["outside_margin"]}
    rows = [*map(_row, lines.items()), (), *map(_row, report["kinds"].items())]
    title = f"duplicates at resemblance {report['threshold']:g} or more"
    console.print(listing(heads, rows, title=title))
    console.print(
        f"kept {report['kept']:,}, without a verdict {report['missing']:,}, repeated "
        f"{report['repeats']:,}, with a representative that was not kept "
        f"{report['bad_representatives']:,}"
    )
    if clusters := report["clusters"]:
        sizes = [(each.url, each.size, f"{each.share:.2%}") for each in clusters]
        table = listing(("representative", "pages", "share"), sizes, title="largest clusters")
        console.print(table)


def _row(line: tuple[str, dict[str, Any]]) -> tuple[str | int, ...]:
    name, found = line
    counts = (found[each] for each in ("pages", "duplicates", "false_positive", "false_negative"))
    return name, *counts, *(ratio_text(found[each]) for each in RATIOS)
