"""What each preset finds and what it takes for the same page wrongly: docs/quality.md.

Truth here is not resemblance, which docs/methods-results.md holds methods against, but what the
makers of a set say: the same article, the same page of another release, the same text. The sets are
the project's own sample crawl, and those next to the checkout where they are.

    python benchmarks/presets.py --out /tmp/quality.md
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from matplotlib.figure import Figure

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import fallback, main_text_picture
from benchmarks.figures import empty_table, markdown
from benchmarks.labelled_sets import SAMPLE, Score, judged, sets
from benchmarks.machine import ROOT
from benchmarks.plots import OTHERS, OURS, TARGET, WIDTH, save
from benchmarks.results import figures_of_page
from streamer.analysis.evaluation import ConfusionCounts
from streamer.analysis.trial import Yardstick, open_dataset, select, try_method
from streamer.analysis.tuning import detection_probability
from streamer.config import PURPOSES

OUT = ROOT / "docs" / "quality.md"
PLOTS = "quality"
FOLDER = ROOT / "build" / "evaluate"


# ---- exact resemblance ---------------------------------------------------------------------------

BY_SKETCHES, BY_SHINGLES = "minhash", "minhash:exact"  # as analysis/trial.py names them
THRESHOLD = 0.8
KEYS = 5


class Decided(msgspec.Struct):
    """Decisions on the pages of a set under some keys, held against their exact resemblance.

    `kept_bytes` is what is kept of a page, mean: keys, sketch, shingles.
    """

    outcomes: ConfusionCounts
    kept_bytes: float = 0.0


def decided(pages: Path) -> dict[str, Decided]:
    """Return the decisions by sketches alone, and by shingles where these leave doubt."""
    yardstick = Yardstick(open_dataset(pages), THRESHOLD)
    results = {}
    for method in select([BY_SKETCHES, BY_SHINGLES]):
        result = results[method.name] = Decided(ConfusionCounts())
        for seed in range(KEYS):
            trial = try_method(yardstick, method, seed=seed)
            result.outcomes.true_positive += trial.pages.said - trial.pages.wrong
            result.outcomes.false_positive += trial.pages.wrong
            result.outcomes.false_negative += trial.pages.missed
            result.kept_bytes += trial.signature_bytes / KEYS
    return results


def decided_table(results: Results) -> str:
    """Return both ways of deciding on all sets."""
    table = empty_table(
        "", "set", "decided by", "right", "wrong", "missed", "F1", "bytes kept a page"
    )
    for name, found in results.decided.items():
        for way, one in found.items():
            all_keys = one.outcomes
            by = "shingles in doubt (`--exact`)" if way == BY_SHINGLES else "sketches"
            table.add_row(
                name, by, f"{all_keys.true_positive:,}", f"{all_keys.false_positive:,}",
                f"{all_keys.false_negative:,}", f"{all_keys.f1 or 0:.4f}", f"{one.kept_bytes:,.0f}",
            )  # fmt: skip
    return markdown([table])


# ---- the page ------------------------------------------------------------------------------------

WORDS = "`words`"
WAYS: Mapping[str, Sequence[str]] = {
    **{name: ("--preset", name) for name in PURPOSES},
    WORDS: (
        *("--method", "words", "--method-option", "bands=40", "--method-option", "rows=6"),
        *("--text", "main", "--threshold", "0.7"),
    ),
}
COLOURS = (OTHERS, "#6f9fd8", OURS, TARGET)


class Results(msgspec.Struct):
    """All figures of the page: of each set what it is, and the scores by way.

    `decided` are the decisions on each set by sketches and by shingles; `fallbacks` are the scores
    of `balanced` by the threshold of pages without main text.
    """

    sets: dict[str, str]
    scores: dict[str, dict[str, Score]]
    decided: dict[str, dict[str, Decided]] = {}
    fallbacks: dict[str, dict[str, Score]] = {}


def measure(folder: Path) -> Results:
    """Judge all sets in each way."""
    results = Results({}, {})
    for labelled in sets(folder):
        results.sets[labelled.name] = labelled.what
        results.scores[labelled.name] = {}
        for way, options in WAYS.items():
            found = judged(labelled, *options)
            results.scores[labelled.name][way] = found
            print(f"{labelled.name}: {way}, F1 {found.f1:.3f}", flush=True)
        results.decided[labelled.name] = decided(labelled.pages)
        if labelled.name == fallback.SET:
            results.fallbacks[labelled.name] = fallback.try_out(labelled)
    return results


def sets_table(results: Results) -> str:
    """Return precision, recall and F1 of each way on each set, with pages falsely called."""
    table = empty_table(
        "", "set", "preset", "precision", "recall", "F1", "new pages called duplicates",
        "pages seen before", "found",
    )  # fmt: skip
    for name, ways in results.scores.items():
        for way, one in ways.items():
            table.add_row(
                name, way, f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}",
                f"{one.false:,} of {one.new:,}", f"{one.seen:,}", f"{one.found:,}",
            )  # fmt: skip
    return markdown([table])


def kinds_table(results: Results) -> str:
    """Return the share of each kind of copy that is found in the sample crawl."""
    ways = results.scores[SAMPLE]
    table = empty_table("", "kind of copy", *ways)
    for kind in next(iter(ways.values())).kinds:
        counts = [one.kinds.get(kind, (0, 0)) for one in ways.values()]
        table.add_row(kind, *(f"{found / max(1, seen):.2f}" for seen, found in counts))
    return markdown([table])


def draw_sets(results: Results) -> Figure:
    """Draw precision and recall of each way on each set."""
    figure = Figure(figsize=(WIDTH, 2 + 0.9 * len(results.scores)), layout="constrained")
    height = 0.8 / len(WAYS)
    for axes, what in zip(figure.subplots(1, 2, sharey=True), ("precision", "recall"), strict=True):
        for number, way in enumerate(WAYS):
            places = [i + number * height for i in range(len(results.scores))]
            values = [getattr(ways[way], what) for ways in results.scores.values()]
            label = way.strip("`")
            axes.barh(places, values, height * 0.9, color=COLOURS[number], label=label)
        middle = [i + 0.4 - height / 2 for i in range(len(results.scores))]
        axes.set_yticks(middle, list(results.scores))
        axes.set(xlabel=what, xlim=(0, 1))
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(WAYS),
                  frameon=False)  # fmt: skip
    return figure


def draw_curves() -> Figure:
    """Draw with what probability each preset compares a pair, over its resemblance."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    places = [i / 400 for i in range(401)]
    for (name, own), colour in zip(PURPOSES.items(), COLOURS, strict=False):
        compared = [detection_probability(s, own["bands"], own["rows"]) for s in places]
        axes.plot(places, compared, color=colour, label=name)
        axes.axvline(own["threshold"], color=colour, linestyle="--", linewidth=1)
    axes.set(xlabel="resemblance of two pages", ylabel="share of pairs compared", xlim=(0, 1))
    axes.legend(frameon=False, loc="center left")
    return figure


HEAD = """\
# What is found, and what is not

Written by `make evaluate`. A true duplicate here is what the makers of a set call the same page,
however much of it has changed: the same article on another site, the same page of another release.
By exact resemblance, hardly any verdict is wrong ([methods-results.md](methods-results.md));
this page shows how far that is what a reader means.
"""
SETS = """\
Precision: of the pages called duplicates, how many are duplicates of the page named. Recall: of the
pages of which one was kept before, how many were called duplicates of it. The fourth row of a set
is `--method words --text main --threshold 0.7 --method-option bands=40 --method-option rows=6`.
"""
NOTES = """\
The model of main text has learnt from the pages that *articles in templates* is made of;
[main-text.md](main-text.md) has figures for pages that it has not seen.

[near-duplicates.md](near-duplicates.md#presets) says when to take which. With `broad`, pages that
fill one form with other data (references, product lists) become duplicates of each other. `words`
is no preset, since below 0.7 it takes unrelated pages for duplicates (231 of the sample crawl at
0.6).
"""
BANDS = """\
Two pages are compared if they share a band key; the curves show how likely that is. Right of its
threshold (dashed), the area over a curve is what is missed; left of it, the area under the curve is
needless work:
"""
KINDS = """\
## Which copies are found

Shares of the sample crawl's copies that are found, by what was done to the page that was kept
before. A print view lacks the furniture of its site, a fifth to a half of these pages. The numbers
are how many of 100 words were replaced, inserted, deleted, or are in moved paragraphs.
"""
PICTURE = f"""\
## What is compared of a page

With `--text main`, as in `balanced` and `broad`: blue blocks count, grey ones do not. The same
article is on two sites, in the furniture of each. `streamer compare a.html b.html --text main
--html out.html` shows your own pages so.

![Two pages with their blocks coloured]({PLOTS}/pages.svg)
"""
LACKS = """\
## What is not found

- **A text inside a longer one**: a quotation, a press release in a report. Similarity is of whole
  pages; `streamer uniqueness` looks for parts.
- **Meaning.** Translations, retellings and paraphrases share few words. Of questions that people
  call the same, comparing words found .206 in a published run: that needs embeddings, whose answer
  no one can check word by word. `--canonical synonyms=...` helps a little.
- **What lies in an index on another machine.** An index is whole on one machine, which takes 4,000
  million pages ([scale.md](scale.md)). Beyond that, pages that may be alike must share a key, or
  Spark judges a corpus at once.
- **Questions of a test set in a corpus** (contamination) are sentences in pages: tools that look
  for equal word sequences find them.
- **Pages of a few words** match equal content only.
- **The same form with other data** is found though it should not be: 125 pages of *releases* are of
  a reference, and differ in a few names each. A rule with a higher threshold for such a path helps
  (`--rules`).
- **What a script puts on a page** is not seen.
"""
EXACT = """\
## Exact resemblance

Here a page is a true duplicate if its exact resemblance to a page that was kept before is 0.8 or
more. Sums over five keys. What `--exact` still misses shares no band key with its counterpart,
which at 0.8 happens to one or two of 100 pairs, and hardly ever above 0.85.
"""


def page(results: Results) -> str:
    """Return the page of these results."""
    parts = [HEAD, "## Presets", "\n".join(f"- **{n}**: {w}." for n, w in results.sets.items())]
    parts += [SETS, sets_table(results), f"![Precision and recall by set]({PLOTS}/sets.svg)", NOTES]
    parts += [BANDS, f"![Share of pairs compared over their resemblance]({PLOTS}/curves.svg)"]
    parts += [KINDS, kinds_table(results)]
    if results.fallbacks:
        parts.append(fallback.section(results.fallbacks))
    parts += [PICTURE, LACKS]
    if results.decided:
        parts += [EXACT, decided_table(results)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> None:
    """Measure and write the page."""
    results, out = figures_of_page(
        "Write the page of what is found.", FOLDER, OUT, "presets.json", Results, measure
    )
    plots = out.parent / PLOTS
    plots.mkdir(exist_ok=True)
    save(draw_sets(results), plots / "sets.svg")
    save(draw_curves(), plots / "curves.svg")
    (plots / "pages.svg").write_text(main_text_picture.picture(), encoding="utf-8")
    out.write_text(page(results), encoding="utf-8")
    print(f"The page is {out}.")


if __name__ == "__main__":
    main()
