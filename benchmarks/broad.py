"""What `broad` is to be built on, by folds over sets: sequences of words, or weighed words.

Both judge main text at several thresholds. Each set is then judged at the threshold that was best
for the others, so no set chooses its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import empty_table, markdown
from benchmarks.labelled_sets import Score, Set, judged

SEQUENCES, WORDS = "five-word sequences", "words"
OPTIONS: Mapping[str, tuple[str, ...]] = {
    SEQUENCES: ("--bands", "40", "--rows", "3"),
    WORDS: ("--method", "words", "--method-option", "bands=40", "--method-option", "rows=6"),
}
THRESHOLDS: Mapping[str, tuple[str, ...]] = {
    SEQUENCES: ("0.3", "0.4", "0.5", "0.65", "0.8"),
    WORDS: ("0.5", "0.6", "0.7", "0.8", "0.9"),
}

Tried = dict[str, dict[str, Score]]  # by what is compared, by threshold

TEXT = """\
## Words, or sequences of words

`broad` could compare words that are weighed by how often they stand on a page (`--method words`)
instead of five-word sequences. Each set is judged at the threshold that had the best mean F1 on the
other sets; false ones are new pages that are called duplicates, of all new pages.
"""
REASON = """\
Sequences are ahead on average, and take fewer new pages for duplicates, so `broad` stays with them.
Words find copies of which words are replaced throughout, and take pages of one reference, which
share their words, for the same. The best threshold of sequences is lower here than that of `broad`,
which stays where it is: half of a page is what one can explain, and these sets have few pages that
share a third and are not the same.
"""


def try_out(labelled: Set) -> Tried:
    """Judge a set in both ways, at all thresholds."""
    return {
        way: {
            each: judged(labelled, "--text", "main", *options, "--threshold", each)
            for each in THRESHOLDS[way]
        }
        for way, options in OPTIONS.items()
    }


def chosen(tried: Mapping[str, Tried], way: str, apart_from: str) -> str:
    """Return the threshold that is best for all sets but one."""
    others = [found[way] for name, found in tried.items() if name != apart_from]

    def mean_f1(threshold: str) -> float:
        return sum(scores[threshold].f1 for scores in others) / len(others)

    return max(THRESHOLDS[way], key=mean_f1)


def section(tried: Mapping[str, Tried]) -> str:
    """Return the part of the page."""
    ways = [*OPTIONS]
    table = empty_table("", "set", *(f"{way}: {what}" for way in ways for what in ("F1", "false")))
    sums = dict.fromkeys(ways, 0.0)
    for name, found in tried.items():
        cells = []
        for way in ways:
            threshold = chosen(tried, way, name)
            one = found[way][threshold]
            sums[way] += one.f1 / len(tried)
            cells += [f"{one.f1:.3f} at {threshold}", f"{one.false / max(1, one.new):.1%}"]
        table.add_row(name, *cells)
    means = [cell for way in ways for cell in (f"{sums[way]:.3f}", "")]
    table.add_row("mean", *means)
    return "\n\n".join(part.strip() for part in (TEXT, markdown([table]), REASON))
