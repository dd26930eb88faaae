"""Pages without a main text: what their stricter threshold does."""

from collections.abc import Mapping

from benchmarks.figures import empty_table, markdown
from benchmarks.labelled_sets import Score, Set, judged

SET = "releases"  # the one set in which it matters
THRESHOLDS = ("0.63", "0.7", "0.8")  # that of `balanced`, the default, one above

TEXTS = """\
## Pages without a main text

A page without main text is compared by all of its text, at `--fallback-threshold`. At that of
`balanced` (0.63), pages of a reference, which share menus and forms, are taken for each other; at
0.8, more new releases of a page are missed. On the other sets it changes F1 by 0.001 at most.
"""


def try_out(labelled: Set) -> dict[str, Score]:
    """Judge a set at `balanced`, with each threshold for pages without main text."""
    return {
        each: judged(labelled, "--preset", "balanced", "--fallback-threshold", each)
        for each in THRESHOLDS
    }


def section(scores: Mapping[str, Mapping[str, Score]]) -> str:
    """Return the part of the page."""
    return f"{TEXTS}\n{thresholds_table(scores)}"


def thresholds_table(scores: Mapping[str, Mapping[str, Score]]) -> str:
    """Return what the threshold of pages without main text does to the pages that are found."""
    table = empty_table(
        "", "set", "`--fallback-threshold`", "new pages called duplicates", "found", "F1"
    )
    for name, found in scores.items():
        for threshold, one in found.items():
            table.add_row(
                name, threshold, f"{one.false:,} of {one.new:,}",
                f"{one.found:,} of {one.seen:,}", f"{one.f1:.3f}",
            )  # fmt: skip
    return markdown([table])
