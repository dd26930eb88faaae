"""How far two partitions of the same pages agree: pairs, and the adjusted Rand index.

A partition is a label for each page. The true one is that of a detector without error: each page
goes to the kept page of the greatest exact resemblance, the earliest of several, or is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import comb

from streamer.sample.nearest import KeptPages
from streamer.sample.pages import Pages
from streamer.sample.reference import MIN_SHINGLES
from streamer.sample.score import Outcomes

Pair = tuple[int, int]


def true_pairs(pages: Pages, threshold: float) -> frozenset[Pair]:
    """Return all pairs of exact resemblance >= threshold, the earlier page first."""
    index = KeptPages(pages.exact, threshold, MIN_SHINGLES)
    found: list[Pair] = []
    for page in range(len(pages)):
        found += ((other, page) for other, _ in index.matches(page))
        index.keep(page)
    return frozenset(found)


def true_labels(pages: Pages, threshold: float) -> list[int]:
    """Return each page's representative, itself where it is kept, by a detector without error."""
    index = KeptPages(pages.exact, threshold, MIN_SHINGLES)
    labels: list[int] = []
    for page in range(len(pages)):
        best = min(index.matches(page), key=lambda one: (-one[1], one[0]), default=None)
        if best is None:
            index.keep(page)
        labels.append(page if best is None else best[0])
    return labels


def pair_outcomes(labels: Sequence[int], true: Collection[Pair]) -> Outcomes:
    """Count the pairs of pages under one label against the true pairs."""
    said = _pairs(Counter(labels).values())
    right = shared_pairs(labels, true)
    wrong, missed = said - right, len(true) - right
    return Outcomes(right, wrong, missed, comb(len(labels), 2) - right - wrong - missed)


def shared_pairs(labels: Sequence[int], pairs: Iterable[Pair]) -> int:
    """Return how many of the pairs are under one label."""
    return sum(labels[one] == labels[other] for one, other in pairs)


def adjusted_rand_index(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the adjusted Rand index of two partitions: 1 for equal ones, about 0 for chance.

    Source: Hubert and Arabie 1985, Comparing partitions, equation 5. Two partitions that both put
    every page, or no two pages, together are equal.
    """
    both = _pairs(Counter(zip(one, other, strict=True)).values())
    first, second = _pairs(Counter(one).values()), _pairs(Counter(other).values())
    expected = first * second / max(1, comb(len(one), 2))
    greatest = (first + second) / 2
    return 1.0 if greatest == expected else (both - expected) / (greatest - expected)


def _pairs(sizes: Iterable[int]) -> int:
    return sum(comb(size, 2) for size in sizes)
