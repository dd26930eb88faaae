"""The page of the methods' quality: `make evaluate` writes docs/methods-results.md.

All methods judge the project's own sample crawl, and the labelled sets beside the checkout where
these are; then pairs of short texts. Everything is made from fixed seeds: another run differs in
speed alone. The text that says which method is best is made from the figures as well.

    python benchmarks/methods_page.py --out /tmp/methods-results.md
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import quality, short_texts
from benchmarks.figures import empty_table, markdown
from benchmarks.machine import ROOT
from benchmarks.results import figures_of_page
from streamer.analysis.datasets import open_dataset, write_collection
from streamer.analysis.sample.crawl import write_crawl
from streamer.analysis.sample.score import ratio_text
from streamer.analysis.trial import ALL, Ratios, Trial, Yardstick, select, try_method
from streamer.sketch.scheme import methods
from streamer.sketch.settings import NATIVE

if TYPE_CHECKING:
    from rich.table import Table

OUT = ROOT / "docs" / "methods-results.md"
FOLDER = ROOT / "build" / "evaluate"
RECORDS = 3_000
DIGESTS = tuple(
    f"digests:variant={variant}"
    for variant in ("description", "con", "con_weights", "sort_weights")
)
NAMES = (ALL, *DIGESTS)
KEYS = 5
KIND_PAGES_MIN = 10  # of a kind that has duplicates; fewer decide nothing
MARGIN = 0.005  # of F1; less is no lead

HEAD = """\
# How right the methods are

Written by `make evaluate`; nothing on this page is typed by hand but the published figures. All
methods judge the same pages through the stream, in one pass with a temporary index, at their own
thresholds and from fixed seeds. `docs/methods.md` says what each method is.

A page is a true duplicate if an earlier page that the method kept has exact resemblance 0.8 or more
with it: Jaccard similarity of the sets of five consecutive words, computed by a plain reference. So
the yardstick is the very thing that `minhash` and its kin estimate, and methods that look at other
traits of a page are measured by how far they come to the same. Pairs are any two pages of one
cluster, against all pairs at 0.8 or more; ARI is the adjusted Rand index against the clusters of a
detector without error. Speed is pages a second of CPU time, one signing thread, parsing and the
index included; bytes are a page's keys and its sketch up to the last word that is not 0. Methods
that weigh words were given the word counts of the same pages. `digests` stands for its variant
`sort`. A row `A+B` is `--method A --accept B`: the candidates of one, accepted by the other, as
Henzinger 2006 combined two. Labelled pairs are those that the makers of a set call the same page;
many of these have changed beyond 0.8.
"""
PUBLISHED_TEXT = """\
As recalled in the project's literature notes; not ours, not verified against the papers, and of
other collections with other definitions of a duplicate. Our columns are those of pairs on the first
dataset above.
"""


class Published(NamedTuple):
    """What a publication says of a method, by our literature notes; `ours` is our nearest one.

    They are of other collections, with other definitions of a duplicate: they say what order of
    quality a family of methods reached, and nothing more.
    """

    source: str
    method: str
    ours: str
    precision: float
    recall: float | None = None
    f1: float | None = None


ZELENKOV = "Zelenkov and Segalovich 2007"
HENZINGER = "Henzinger 2006"
PUBLISHED = (
    Published(ZELENKOV, "MD5", "exact_content", 1.00, 0.23, 0.38),
    Published(ZELENKOV, "megashingles", "megashingles", 0.91, 0.36, 0.51),
    Published(ZELENKOV, "log shingles", "minhash", 0.97, 0.39, 0.55),
    Published(ZELENKOV, "lex rand", "random_lexicon", 0.97, 0.50, 0.66),
    Published(ZELENKOV, "opt freq", "optimum_frequency", 0.94, 0.59, 0.73),
    Published(ZELENKOV, "long sentences", "long_sentences", 0.80, 0.84, 0.82),
    Published(HENZINGER, "Broder's shingles", "supershingles", 0.38),
    Published(HENZINGER, "Charikar's projections", "simhash", 0.50),
    Published(HENZINGER, "both combined", "minhash+simhash", 0.79),
)


class Results(msgspec.Struct):
    """All figures of the page; `keys` are F1 under each key by method, a dataset a dictionary."""

    datasets: list[list[Trial]]
    keys: list[dict[str, list[float]]]
    short: list[short_texts.Tried]


def evaluate(paths: Sequence[Path], console: Console) -> list[list[Trial]]:
    """Return the trials of each dataset; say each method when it is done."""
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for path in paths:
            yardstick = Yardstick(open_dataset(path, Path(scratch)))
            collection = write_collection(yardstick.dataset, Path(scratch))
            trials = []
            for method in select(NAMES, collection):
                trials.append(try_method(yardstick, method))
                done = f"{yardstick.dataset.name}: {method.name}, F1 {_f1(trials[-1].pages):.3f}"
                console.print(done, highlight=False)
            results.append(trials)
    return results


def under_keys(paths: Sequence[Path], measured: list[list[Trial]]) -> list[dict[str, list[float]]]:
    """Return F1 of pages under KEYS keys, by dataset, of the default and of the best other."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for path, trials in zip(paths, measured, strict=True):
            yardstick = Yardstick(open_dataset(path, Path(scratch)))
            names = [NATIVE, _best_other(trials)]
            found.append(
                {
                    method.name: [
                        _f1(try_method(yardstick, method, seed=seed).pages) for seed in range(KEYS)
                    ]
                    for method in select(names)
                }
            )
    return found


def _f1(ratios: Ratios) -> float:
    """Return F1 to compare methods by; that of nothing is the least."""
    return ratios.f1 or 0.0


def _best_other(trials: Sequence[Trial]) -> str:
    others = (trial for trial in trials if trial.method != NATIVE)
    return max(others, key=lambda trial: _f1(trial.pages)).method


def spread(keys: dict[str, list[float]]) -> str:
    """Return the sentences on what another choice of hash functions makes of the two best."""
    said = ", ".join(
        f"`{name}` {statistics.mean(each):.4f} ({min(each):.4f} to {max(each):.4f})"
        for name, each in keys.items()
    )
    own, other = keys.values()
    apart = min(own) > max(other) or min(other) > max(own)
    verdict = "One is ahead under every key." if apart else "The ranges meet: the lead is chance."
    return f"F1 of pages under {len(own)} keys, on average: {said}. {verdict}"


def page(results: Results) -> str:
    """Return the page of these results."""
    parts, short = [HEAD.strip()], results.short
    for trials, keys in zip(results.datasets, results.keys, strict=True):
        parts += [
            f"## {trials[0].dataset}",
            markdown([dataset_table(trials)]),
            best(trials),
            spread(keys),
        ]
        parts += list(kinds(trials))
    parts += ["## Beside published figures", PUBLISHED_TEXT.strip()]
    parts += [markdown([published_table(results.datasets[0])])]
    parts += ["## Short texts", short_texts.TEXT.strip(), markdown([short_texts.table(short)])]
    parts += [short_texts.promise(short)]
    parts += ["## When to use which", "\n".join(_advice())]
    return "\n\n".join(parts) + "\n"


def dataset_table(trials: Sequence[Trial]) -> Table:
    """Return a dataset's methods, the best F1 of pages first."""
    labels = [f"of {trials[0].labelled[1]:,} labelled"] if trials[0].labelled else []
    table = empty_table(
        "", "method", "precision", "recall", "F1", "pairs: precision", "recall", "F1", "ARI",
        *labels, "pages/s", "bytes",
    )  # fmt: skip
    for one in sorted(trials, key=lambda trial: -_f1(trial.pages)):
        table.add_row(*one.cells())
    return table


def best(trials: Sequence[Trial]) -> str:
    """Return the sentences on which method is best, and where the default stands."""
    greatest, own = max(_f1(trial.pages) for trial in trials), _default(trials)
    first = [trial.method for trial in trials if _f1(trial.pages) == greatest]
    ahead = sum(_f1(trial.pages) > _f1(own.pages) for trial in trials)
    quickest = max(trials, key=lambda trial: trial.pages_per_second)
    smallest = min(trials, key=lambda trial: trial.signature_bytes)
    return (
        f"Best in F1 of pages with {greatest:.3f}: {_named(first)}. The default `{NATIVE}` has"
        f" {_f1(own.pages):.3f}; ahead of it: {ahead} of {len(trials) - 1}. Fastest is"
        f" `{quickest.method}` with {quickest.pages_per_second:,.0f} pages a second, smallest"
        f" `{smallest.method}` with {smallest.signature_bytes:,.0f} bytes.{_most_labelled(trials)}"
    )


def _most_labelled(trials: Sequence[Trial]) -> str:
    """Return a sentence on which methods find more labelled pairs than the default."""
    own = _default(trials).labelled
    if own is None:
        return ""
    more = [one.method for one in trials if one.labelled and one.labelled[0] > own[0]]
    others = f"more are found by {_named(more)}" if more else "no method finds more"
    return f" Of {own[1]:,} labelled pairs the default finds {own[0]:,}; {others}."


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def kinds(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield F1 by planted kind, the default's and the best others', and a sentence on who leads."""
    own = _default(trials)
    shown = [kind for kind, one in own.kinds.items() if one.said + one.missed >= KIND_PAGES_MIN]
    if not shown:
        return
    table = empty_table("F1 by kind of page", "kind", NATIVE, "best other", "its F1")
    ahead = []
    for kind in shown:
        others = [one for one in trials if one is not own]
        other = max(others, key=lambda one: _f1(one.kinds[kind]))
        mine, theirs = _f1(own.kinds[kind]), _f1(other.kinds[kind])
        table.add_row(kind, f"{mine:.3f}", other.method, f"{theirs:.3f}")
        if theirs > mine + MARGIN:
            better = (one.method for one in others if _f1(one.kinds[kind]) > mine + MARGIN)
            ahead.append(f"on `{kind}` {_named(better)}")
    yield markdown([table])
    if ahead:
        yield f"Ahead of the default by more than {MARGIN:g}: {'; '.join(ahead)}."
    else:
        yield f"No method is ahead of the default by more than {MARGIN:g} on any kind."


def _default(trials: Sequence[Trial]) -> Trial:
    return next(trial for trial in trials if trial.method == NATIVE)


def published_table(trials: Sequence[Trial]) -> Table:
    """Return the published figures, each beside the nearest method of ours on one dataset."""
    by_name = {trial.method: trial.pairs for trial in trials}
    table = empty_table(
        "", "publication", "method", "precision", "recall", "F1",
        f"nearest of ours, on {trials[0].dataset}", "precision", "recall", "F1",
    )  # fmt: skip
    for one in PUBLISHED:
        quoted = ("" if v is None else f"{v:.2f}" for v in (one.precision, one.recall, one.f1))
        ours = by_name[one.ours]
        measured = (ratio_text(value, 3) for value in (ours.precision, ours.recall, ours.f1))
        table.add_row(one.source, one.method, *quoted, one.ours, *measured)
    return table


def _advice() -> Iterator[str]:
    for name, method in methods().items():
        yield f"- `{name}`: {method.advice}"


def datasets(folder: Path) -> list[Path]:
    """Return the sample crawl, written into `folder`, and the labelled sets that are there."""
    crawl = folder / "sample-crawl"
    write_crawl(crawl, RECORDS)
    names = [collection.name for collection in quality.COLLECTIONS]
    sets = [quality.unpacked(folder, quality.DATA, name) for name in names]
    return [crawl, *(pages.parent for pages in sets if pages is not None)]


def _measure(folder: Path) -> Results:
    paths = datasets(folder)
    trials = evaluate(paths, Console())
    return Results(trials, under_keys(paths, trials), short_texts.measure())


def main() -> None:
    """Evaluate and write the page."""
    results, out = figures_of_page(
        "Write the page of the methods' quality.", FOLDER, OUT, "results.json", Results, _measure
    )
    out.write_text(page(results), encoding="utf-8")
    print(f"The page is {out}.")


if __name__ == "__main__":
    main()
