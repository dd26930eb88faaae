"""What each preset finds and what it takes for the same page wrongly: docs/quality.md.

Truth here is not resemblance, which methods_page.py holds methods against, but what the makers of a
set say: the same article, the same page of another release, the same text. The sets are the
project's own sample crawl, and those beside the checkout where they are.

    python benchmarks/presets.py --out /tmp/quality.md
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
from matplotlib.figure import Figure

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import broad, fallback, main_text_picture
from benchmarks.figures import empty_table, markdown
from benchmarks.labelled_sets import SAMPLE, Score, Set, judged, sets
from benchmarks.machine import ROOT
from benchmarks.plots import OTHERS, OURS, TARGET, WIDTH, save
from benchmarks.results import figures_of_page
from streamer.analysis.datasets import open_dataset
from streamer.analysis.exact import compare_words
from streamer.analysis.trial import Yardstick, select, try_method
from streamer.analysis.tuning import detection_probability
from streamer.config import PURPOSES
from streamer.pages.files import Source
from streamer.run.page_reader import DEFAULT_READER
from streamer.sketch.method import PageText
from streamer.text.words import CanonicalOptions

OUT = ROOT / "docs" / "quality.md"
PLOTS = "quality"
FOLDER = ROOT / "build" / "evaluate"


# ---- measures on pairs ---------------------------------------------------------------------------

PAIRS_MAX = 1_000  # of the same page, and of different ones of each sort
FOLDS = 10
WORDS_MIN = 5


class Pair(NamedTuple):
    """Two pages: how alike each measure says they are, and whether they are the same."""

    shares: Mapping[str, float]
    same: bool


class Measured(msgspec.Struct):
    """How well a measure tells the pairs of a set: F1 and threshold as folds learn them."""

    measure: str
    f1: float
    threshold: float


def shares(one: Sequence[str], other: Sequence[str]) -> dict[str, float]:
    """Return by measure how alike two texts are."""
    exact = compare_words(one, other, 5)
    covered = min(exact.covered)
    return {
        "five-word sequences": exact.jaccard,
        "bag of words": exact.bag,
        "covered share": covered,
        "lesser of sequences and bag": min(exact.jaccard, exact.bag),
        "lesser of bag and covered share": min(exact.bag, covered),
    }


def pairs_of(labelled: Set, form: CanonicalOptions) -> list[Pair]:
    """Return pairs of one label, pairs of one site or template, and pairs of any pages."""
    draw = random.Random(1)
    texts = dict(_texts(labelled.pages, form))
    groups = [_grouped(labelled.labels, texts), _grouped(labelled.templates, texts)]
    same, alike = (
        draw.sample(found, min(len(found), PAIRS_MAX))
        for found in (
            [pair for urls in group for pair in combinations(urls, 2)] for group in groups
        )
    )
    urls = list(texts)
    far = [(draw.choice(urls), draw.choice(urls)) for _ in range(PAIRS_MAX)]
    return [
        Pair(shares(texts[one], texts[other]), labelled.labels[one] == labelled.labels[other])
        for one, other in (*same, *alike, *far)
        if one != other
    ]


def _grouped(labels: Mapping[str, str], texts: Mapping[str, object]) -> list[list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for url in texts:
        if url in labels:
            groups[labels[url]].append(url)
    return list(groups.values())


def _texts(pages: Path, form: CanonicalOptions) -> Iterator[tuple[str, list[str]]]:
    """Yield URL and words of each page that has some."""
    for _, _, batch in DEFAULT_READER.read([Source(str(pages), is_regular=True)]):
        for url, body, flags in zip(batch.urls, batch.bodies, batch.flags, strict=True):
            words = PageText.of_body(body, flags, form).words
            if len(words) >= WORDS_MIN:
                yield url.decode(), words


def measured(pairs: Sequence[Pair]) -> list[Measured]:
    """Return for each measure its F1, each fold judged at the best threshold of the others."""
    found = []
    for name in pairs[0].shares:
        right = said = 0
        thresholds = []
        for fold in range(FOLDS):
            others = [pair for i, pair in enumerate(pairs) if i % FOLDS != fold]
            thresholds.append(best_threshold(name, others))
            own = [pair.same for pair in pairs[fold::FOLDS] if pair.shares[name] >= thresholds[-1]]
            right, said = right + sum(own), said + len(own)
        true = sum(pair.same for pair in pairs)
        found.append(Measured(name, 2 * right / max(1, said + true), sum(thresholds) / FOLDS))
    return found


def best_threshold(measure: str, pairs: Sequence[Pair]) -> float:
    """Return the threshold at which a measure has the greatest F1."""
    ordered = sorted(((pair.shares[measure], pair.same) for pair in pairs), reverse=True)
    true = sum(same for _, same in ordered)
    right, best, threshold = 0, 0.0, 1.0
    for said, (share, same) in enumerate(ordered, 1):
        right += same
        f1 = 2 * right / max(1, said + true)
        if (said == len(ordered) or ordered[said][0] < share) and f1 > best:
            best, threshold = f1, share
    return threshold


# ---- exact resemblance ---------------------------------------------------------------------------

BY_SKETCHES, BY_SHINGLES = "minhash", "minhash:exact"  # as analysis/trial.py names them
THRESHOLD = 0.8
KEYS = 5


class Decided(msgspec.Struct):
    """Decisions on the pages of a set under some keys, held against their exact resemblance.

    Attributes:
        right, wrong: pages said to be duplicates; missed: those that were not, and are.
        kept_bytes: what is kept of a page, mean: keys, sketch, shingles.
    """

    right: int = 0
    wrong: int = 0
    missed: int = 0
    kept_bytes: float = 0.0

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)


def decided(pages: Path, scratch: Path) -> dict[str, Decided]:
    """Return the decisions by sketches alone, and by shingles where these leave doubt."""
    yardstick = Yardstick(open_dataset(pages, scratch), THRESHOLD)
    results = {}
    for method in select([BY_SKETCHES, BY_SHINGLES]):
        result = results[method.name] = Decided()
        for seed in range(KEYS):
            trial = try_method(yardstick, method, seed=seed)
            result.right += trial.pages.said - trial.pages.wrong
            result.wrong += trial.pages.wrong
            result.missed += trial.pages.missed
            result.kept_bytes += trial.signature_bytes / KEYS
    return results


def decided_table(results: Results) -> str:
    """Return both ways of deciding on all sets."""
    table = empty_table(
        "", "set", "decided by", "right", "wrong", "missed", "F1", "bytes kept a page"
    )
    for name, found in results.decided.items():
        for way, one in found.items():
            by = "shingles in doubt (`--exact`)" if way == BY_SHINGLES else "sketches"
            table.add_row(
                name, by, f"{one.right:,}", f"{one.wrong:,}", f"{one.missed:,}",
                f"{one.f1:.4f}", f"{one.kept_bytes:,.0f}",
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
    """All figures of the page: of each set what it is, the scores by way, and the measures.

    `decided` are the decisions on each set by sketches and by shingles; `tried` are those of
    broad.py; `fallbacks` are the scores of `balanced` by the threshold of pages without main text.
    """

    sets: dict[str, str]
    scores: dict[str, dict[str, Score]]
    measures: dict[str, list[Measured]]
    decided: dict[str, dict[str, Decided]] = {}
    tried: dict[str, broad.Tried] = {}
    fallbacks: dict[str, dict[str, Score]] = {}


def measure(folder: Path) -> Results:
    """Judge all sets in each way, and measure their pairs."""
    results = Results({}, {}, {})
    for labelled in sets(folder):
        results.sets[labelled.name] = labelled.what
        results.scores[labelled.name] = {}
        for way, options in WAYS.items():
            found = judged(labelled, *options)
            results.scores[labelled.name][way] = found
            print(f"{labelled.name}: {way}, F1 {found.f1:.3f}", flush=True)
        if labelled.templates:
            for form in (CanonicalOptions(text="visible"), CanonicalOptions(text="main")):
                found_pairs = pairs_of(labelled, form)
                results.measures[f"{labelled.name}, {form.text} text"] = measured(found_pairs)
        with tempfile.TemporaryDirectory(prefix="streamer-") as scratch:
            results.decided[labelled.name] = decided(labelled.pages, Path(scratch))
        results.tried[labelled.name] = broad.try_out(labelled)
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


def measures_table(results: Results) -> str:
    """Return F1 of each measure on the pairs of each set, at thresholds that other folds gave."""
    names = [one.measure for one in next(iter(results.measures.values()))]
    table = empty_table("", "pairs of", *names)
    for name, found in results.measures.items():
        table.add_row(name, *(f"{one.f1:.3f} at {one.threshold:.2f}" for one in found))
    return markdown([table])


def lesser_sentence(results: Results) -> str:
    """Return whether the lesser of two measures holds up against the better one of them."""
    gains = []
    for found in results.measures.values():
        f1 = {one.measure: one.f1 for one in found}
        for lesser, parts in LESSER.items():
            gains.append(f1[lesser] - max(f1[part] for part in parts))
    return (
        f"The lesser of two measures gains {max(gains):+.3f} of F1 at best over the better one of "
        f"the two, {min(gains):+.3f} at worst, and {sum(gains) / len(gains):+.3f} on average."
    )


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


LESSER = {
    "lesser of sequences and bag": ("five-word sequences", "bag of words"),
    "lesser of bag and covered share": ("bag of words", "covered share"),
}

HEAD = """\
# What is found, and what is not

Written by `make evaluate`. A true duplicate here is what the makers of a set call the same page,
however much of it has changed: the same article on another site, the same page of another release.
Where resemblance itself is the yardstick, hardly any verdict is wrong
([methods-results.md](methods-results.md)); this page says how far that is what a reader means.
"""
SETS = """\
Precision: of the pages called duplicates, how many are duplicates of the page named. Recall: of the
pages of which one was kept before, how many were called duplicates of it. The fourth row of a set
is `--method words --text main --threshold 0.7 --method-option bands=40 --method-option rows=6`.
"""
NOTES = """\
The model of main text has learnt from the pages that *articles in templates* is made of, so the
figures there are better than on pages that it has not seen; [main-text.md](main-text.md) has those
by folds.

- `strict` is what there is without a preset. Take it where no page may go unless it is a copy or a
  new fetch of another: archives, mirrors, monitoring of changes.
- `balanced` compares the page's own text and lets a few sentences differ. Take it for corpora and
  search: it finds nearly all that `strict` finds, and the article on another site.
- `broad` finds pages of which half is new. Take it where one page of a story is enough. Pages that
  fill one form with other data (references, product lists) become duplicates of each other.
- `words` finds texts in which words are replaced throughout. It is no preset, since below
  0.7 it takes unrelated pages for duplicates (231 of the sample crawl at 0.6).
"""
BANDS = """\
Two pages are compared if they share a band key; the curves say how likely that is. What lies under
a curve left of its threshold (dashed) is work, what lies over it to the right is missed:
"""
KINDS = """\
## Which copies are found

Of the sample crawl, by what was done to the page that was kept before: shares that are found. A
print view lacks the furniture of its site, which is a fifth to a half of these pages; the numbers
say how many of 100 words were replaced, inserted, deleted, or are in paragraphs that were moved.
"""
PICTURE = f"""\
## What is compared of a page

With `--text main`, as in `balanced` and `broad`: blue blocks count, grey ones do not. The same
article stands on two sites, among the furniture of each. The front page has no main text, so all
of it counts; its verdict says `"text": "visible"`. `streamer compare a.html b.html --text main
--html out.html` shows pages of one's own like that.

![Three pages with their blocks coloured]({PLOTS}/pages.svg)
"""
LACKS = """\
## What is not found

- **A text inside a longer one**: a quotation, a press release in a report. Similarity is of whole
  pages; `streamer uniqueness` looks for parts.
- **Translations and retellings.** Nothing here knows meaning; `--canonical synonyms=...` helps a
  little.
- **Pages of a few words** match equal content only.
- **The same form with other data** is found though it should not be: 125 pages of *releases* are of
  a reference, and differ in a few names each. A rule with a higher threshold for such a path helps
  (`--rules`).
- **What a script puts on a page** is not seen.
"""
EXACT = """\
## Exact resemblance

Here the yardstick is resemblance itself: a page is a true duplicate if a page that was kept before
has 0.8 or more of its five-word sequences in common with it. Sums over five keys. With `--exact`
every decision on a candidate within three standard deviations of the threshold is that of the
shingles themselves; what is left as missed has no candidate: the pair shares no band key, which at
0.8 happens to one or two of 100 pairs, and hardly ever above 0.85.
"""
MEASURES = """\
## Other measures, and two at once

How well exact measures tell pairs: F1, each tenth of the pairs judged at the threshold that the
other nine gave, which is shown. Pairs of the same page, of pages of one site or template, and of
any two pages, 1,000 each at most. *Covered share*: of the words of each page those inside a
five-word sequence that both have, the smaller of the two.
"""
NO_AND = """\
There is no `--accept A --and B` for that: it would halve the bits of each sketch, or double the
bytes of a page, for a gain that another choice of pages turns into a loss.
"""


def page(results: Results) -> str:
    """Return the page of these results."""
    parts = [HEAD, "## Presets", "\n".join(f"- **{n}**: {w}." for n, w in results.sets.items())]
    parts += [SETS, sets_table(results), f"![Precision and recall by set]({PLOTS}/sets.svg)", NOTES]
    parts += [BANDS, f"![Share of pairs compared over their resemblance]({PLOTS}/curves.svg)"]
    parts += [KINDS, kinds_table(results)]
    if results.fallbacks:
        parts.append(fallback.section(results.scores[SAMPLE]["balanced"], results.fallbacks))
    parts += [PICTURE, LACKS]
    if results.decided:
        parts += [EXACT, decided_table(results)]
    if results.measures:
        parts += [MEASURES, measures_table(results), lesser_sentence(results), NO_AND]
    if results.tried:
        parts.append(broad.section(results.tried))
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
