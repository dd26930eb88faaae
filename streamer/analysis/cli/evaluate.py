"""The commands that measure: `sample` and `score`, `evaluate` and `tune` with its S-curves.

matplotlib is an extra of the package; it is imported only where the picture is asked for.
"""

import io
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.table import Table

from streamer.analysis import trial, tuning
from streamer.analysis.evaluation import ConfusionCounts, ratio_text
from streamer.analysis.sample import crawl, reference
from streamer.cli.options import AsJson, Overwrite, command
from streamer.cli.terminal import Terminal, amount_bar, compile_with_bar, count_bar, listing, show
from streamer.errors import InputError, SettingsError, needs_extra
from streamer.run.output_checks import check_new
from streamer.run.outputs import write_whole
from streamer.run.reading import PageReader
from streamer.sketch.settings import SignatureSettings

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
    threshold: Annotated[float, typer.Option(min=0.01, max=1.0)] = reference.THRESHOLD,
    margin: Annotated[float, typer.Option(min=0.0, max=0.5)] = reference.MARGIN,
    min_shingles: Annotated[int, typer.Option(min=1)] = reference.MIN_SHINGLES,
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
    table = reference.pages_of(sources, reader)
    kinds = crawl.read_kinds(truth) if truth.is_file() else {}
    result = reference.score_pages(
        table, verdicts, threshold, kinds, margin=margin, min_shingles=min_shingles
    )
    show(_report(result), _print_score, as_json=as_json)


def _figures(outcomes: ConfusionCounts) -> dict[str, Any]:
    """Return counts and ratios of one line."""
    ratios = {name: getattr(outcomes, name) for name in RATIOS}
    return {
        "pages": outcomes.pages,
        "duplicates": outcomes.duplicates,
        **asdict(outcomes),
        **{name: ratio if ratio is None else round(ratio, 6) for name, ratio in ratios.items()},
    }


def _report(result: reference.Score) -> dict[str, Any]:
    """Return all of a score as JSON values."""
    own = ("kept", "missing", "repeats", "bad_representatives", "clusters")
    return {
        "threshold": result.threshold,
        "all": _figures(result.outcomes),
        "outside_margin": _figures(result.clear),
        "kinds": {kind: _figures(one) for kind, one in sorted(result.kinds.items())},
        **{name: getattr(result, name) for name in own},
    }


def _print_score(report: dict[str, Any]) -> None:
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


@dataclass(frozen=True)
class Picture:
    """The options of a picture of the S-curves.

    Attributes:
        plot: File for a plot, .png or .svg.
    """

    plot: Annotated[Path | None, typer.Option(dir_okay=False)] = None
    overwrite: Overwrite = False

    def check(self) -> None:
        """Raise what prevents a picture in this file, before any work is done.

        Raises:
            SettingsError: the file's ending is none that is known, it cannot be written, or
                matplotlib is not installed.
        """
        if self.plot is None:
            return
        if self.plot.suffix.lower() not in SUFFIXES:
            raise SettingsError(f"--plot {self.plot} must end in {' or '.join(SUFFIXES)}.")
        with needs_extra("plot", "--plot"):
            import matplotlib as _  # noqa: F401, ICN001, PLC0415 - an extra, needed here alone
        check_new([str(self.plot)], overwrite=self.overwrite)


@command
def evaluate(
    datasets: list[str],
    *,
    methods: list[str] | None = None,
    threshold: Annotated[float, typer.Option(min=0.01, max=1)] = reference.THRESHOLD,
    own_collection: bool = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: AsJson = False,
    reader: PageReader,
) -> None:
    """Judge labelled pages by all methods; show accuracy, speed and memory.

    Each method makes one pass through the stream code with a temporary index. True duplicates are
    those by exact resemblance, from a plain reference implementation that holds all pages in
    memory. Methods that decide by anything else are measured against the same. The
    table also counts the labelled pairs that are in one cluster.

    Example: streamer evaluate crawl/ --methods minhash,simhash,simhash+minhash

    Args:
        datasets (DATASET...): Folders or files of pages or their URLs, as for replay, a sample
            crawl, or a set with truth_pairs.tsv.
        methods: Methods, separated by commas: NAME or NAME+ACCEPT, each with :PARAMETER=VALUE, or
            :exact for --exact. [default: all]
        threshold: Minimum exact resemblance of true duplicates.
        own_collection: Count the words of each dataset for the methods that weigh words.
        seed: Seed of the hash functions.
    """
    names = methods or [trial.ALL]
    trial.select(names)  # a wrong name ends the run before any work
    compile_with_bar()
    trials: list[trial.Trial] = []
    with TemporaryDirectory(prefix="streamer-") as scratch:
        for path in {os.path.realpath(each): each for each in datasets}.values():
            dataset = trial.open_dataset(path, reader)
            collection = trial.write_collection(dataset, Path(scratch)) if own_collection else None
            yardstick = trial.Yardstick(dataset, threshold)
            for method in trial.select(names, collection):
                with amount_bar(f"{dataset.name}: {method.name}", len(dataset.pages)) as report:
                    trials.append(trial.try_method(yardstick, method, seed=seed, progress=report))
    show(trials, partial(_print_trials, threshold), as_json=as_json)


def _print_trials(threshold: float, trials: Sequence[trial.Trial]) -> None:
    """Print a table for each dataset, with its trials in their order."""
    for dataset, group in groupby(trials, key=lambda trial: trial.dataset):
        own = list(group)
        labels = [f"of {own[0].labelled[1]:,}"] if own[0].labelled else []
        heads = ("method", "P", "R", "F1", "pairs P", "R", "F1", "ARI", *labels, "pages/s", "bytes")
        title = (
            f"{dataset}: duplicates at exact resemblance {threshold:g} or more; pages, pairs of a "
            "cluster, clusters, labelled pairs"
        )
        Terminal().print(listing(heads, [trial.cells() for trial in own], title=title))


DEFAULT = SignatureSettings()
CAPTION = "* the default"


@command
def tune(
    *,
    threshold: Annotated[float, typer.Option(min=0.01, max=0.99)] = reference.THRESHOLD,
    hashes: Annotated[int, typer.Option(min=1, max=tuning.HASHES_MAX)] = 84,
    weight_fp: Annotated[float, typer.Option(min=0.0, max=1.0)] = tuning.WEIGHT_FP,
    sample: list[str] | None = None,
    shingle_width: Annotated[int, typer.Option(min=1, max=32)] = 5,
    best: Annotated[int, typer.Option(min=1, max=20)] = 5,
    picture: Picture,
    reader: PageReader,
) -> None:
    """Find the bands and rows with the least error for a threshold.

    Of all with bands x rows <= hashes, the best are those with the least weighted sum of the area
    under the S-curve below the threshold (false positives: work) and over it above (false
    negatives: duplicates missed). The detector verifies candidates, so to it a false positive is
    work and no wrong verdict: hence the small weight. The default bands and rows are shown next to
    the best. On a sample, candidates are counted; a page of it takes about 2 kB of memory.

    Example: streamer tune --threshold 0.9 --sample crawl/ --plot curve.svg

    Args:
        threshold: Minimum resemblance of duplicates.
        hashes: Maximum number of min-hashes per page.
        weight_fp: Weight of false positives, 0 to 1; false negatives have the rest.
        sample: Page files or folders on which to count candidates.
        shingle_width: Tokens a shingle, on the sample.
        best: How many to show.
    """
    picture.check()
    ranked = tuning.rank_bandings(threshold, hashes, weight_fp)[:best]
    console = Terminal()
    shown = [*ranked]
    if not any(_default_sign(banding.bands, banding.rows) for banding in ranked):
        shown.append(tuning.weigh_banding(threshold, DEFAULT.bands, DEFAULT.rows, weight_fp))
    console.print(_banding_table(shown, threshold))
    if sample:
        sources = reader.open(sample)
        compile_with_bar()
        bandings = [(banding.bands, banding.rows) for banding in shown]
        total = sum(source.total_bytes or 0 for source in sources)
        with amount_bar("signing the sample", total) as report:
            trials = tuning.try_bandings(
                sources, bandings, threshold, shingle_width, report, reader
            )
        if not trials[0].pages:
            raise InputError(f"{', '.join(sample)}: no page that can be judged; give page files")
        console.print(_candidates_table(trials, threshold))
    if picture.plot is not None:
        draw_curves(ranked, threshold, picture.plot)
        console.say(f"The S-curves are in {picture.plot}.")
    console.say(_settings(ranked[0], threshold))


def _banding_table(ranked: Sequence[tuning.BandChoice], threshold: float) -> Table:
    """Return the bandings with their areas and the probabilities about the threshold."""
    around = [round(threshold + step, 6) for step in (-0.2, -0.1, 0, 0.1)]
    shown = [similarity for similarity in around if 0 < similarity < 1]
    chances = [f"P({each:g})" for each in shown]
    heads = ("bands", "rows", "fp area", "fn area", "error", *chances, "")
    lines: list[tuple[str | int, ...]] = []
    for bands, rows, *areas in ranked:
        found = (tuning.detection_probability(similarity, bands, rows) for similarity in shown)
        figures = (f"{value:.4f}" for value in (*areas, *found))
        lines.append((bands, rows, *figures, _default_sign(bands, rows)))
    title = "areas of false positives and negatives, the least error first"
    return listing(heads, lines, text=0, title=title, caption=CAPTION)


def _candidates_table(trials: Sequence[tuning.BandTrial], threshold: float) -> Table:
    """Return the candidates that the bandings find on the sample."""
    least = f"at {threshold:g} or more"
    heads = ("bands", "rows", "candidates a page", least, "below", "recall", "")
    rows = [
        (bands, rows, f"{found.duplicates / max(1, pages):.2f}", found.true_positive,
         found.false_positive, ratio_text(found.recall), _default_sign(bands, rows))
        for bands, rows, pages, found in trials
    ]  # fmt: skip
    title = f"candidates on the sample of {trials[0].pages:,} pages"
    return listing(heads, rows, text=0, title=title, caption=CAPTION)


def _default_sign(bands: int, rows: int) -> str:
    return "*" if (bands, rows) == (DEFAULT.bands, DEFAULT.rows) else ""


def _settings(banding: tuning.BandChoice, threshold: float) -> str:
    """Return the settings of a banding, to paste into a file or a command line."""
    bands, rows = banding.bands, banding.rows
    return (
        f"Settings file:\n  threshold = {threshold:g}\n  bands = {bands}\n  rows = {rows}\n"
        f"Flags:\n  --threshold {threshold:g} --bands {bands} --rows {rows}"
    )


SUFFIXES = (".png", ".svg")
CURVE_POINTS = 401
CURVE_INCHES = (7.0, 4.2)


def draw_curves(bandings: Sequence[tuning.BandChoice], threshold: float, path: Path) -> None:
    """Write the S-curves of bandings to a PNG or SVG file; the first one's errors are shaded.

    Raises:
        SettingsError: the file cannot be written.
    """
    import matplotlib as mpl  # noqa: PLC0415 - as in Picture.check
    from matplotlib.figure import Figure  # noqa: PLC0415 - as in Picture.check

    figure = Figure(figsize=CURVE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    places = [i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    for number, banding in enumerate(bandings):
        curve = [tuning.detection_probability(s, banding.bands, banding.rows) for s in places]
        label = f"{banding.bands} x {banding.rows}"
        axes.plot(places, curve, label=label, linewidth=2 if number == 0 else 1)
        if number == 0:
            below = [s <= threshold for s in places]
            above = [s >= threshold for s in places]
            axes.fill_between(places, curve, where=below, alpha=0.25, label="false positives")
            axes.fill_between(places, curve, 1, where=above, alpha=0.25, label="false negatives")
    axes.axvline(threshold, linestyle="--", linewidth=1, color="black")
    axes.set(
        xlabel="resemblance", ylabel="probability of a shared band key", xlim=(0, 1), ylim=(0, 1.01)
    )
    axes.legend(title="bands x rows", frameon=False)
    kind, drawn = path.suffix.lower()[1:], io.BytesIO()
    # Without a date and with fixed names, an SVG file is the same whenever it is drawn.
    with mpl.rc_context({"svg.hashsalt": "streamer"}):
        figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, drawn.getvalue())
