"""Verdicts held against what is true of their pages: one way for all commands and benchmarks.

A page is a true duplicate if an earlier page *that the detector itself kept* resembles it enough; a
said duplicate is right if that holds of its representative. So a detector is judged on its own kept
pages, and one early mistake is counted once. What is true is exact resemblance, or the labels that
the makers of a set have given to its pages.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

Page = TypeVar("Page", bound=Hashable)
Asked_contra = TypeVar("Asked_contra", contravariant=True)


class PageTruth(Protocol[Asked_contra]):
    """What is true of pages, which come in the order of the stream."""

    def resemblance(self, page: Asked_contra, other: Asked_contra, /) -> float:
        """Return how much a page resembles another, 0 to 1."""

    def best(self, page: Asked_contra, /) -> float:
        """Return the greatest resemblance of a page to one of those kept so far."""

    def keep(self, page: Asked_contra, /) -> None:
        """Add a page to those kept."""


class PageVerdict(NamedTuple, Generic[Page]):
    """A verdict: whether a page is a duplicate, and of which one; None where that is unknown."""

    page: Page
    is_duplicate: bool
    of: Page | None = None


def evaluate(
    truth: PageTruth[Page], verdicts: Iterable[PageVerdict[Page]]
) -> Iterator[tuple[PageVerdict[Page], float, bool]]:
    """Yield each verdict with what is true of its page, which is kept after that if it is unique.

    That is the page's resemblance to its representative, or, of a page that is said to be unique,
    to the nearest kept page; and whether the representative was kept before.

    So `truth` is asked between two verdicts of the pages that were kept before the first of them.
    """
    kept: set[Page] = set()
    for said in verdicts:
        page, is_duplicate, of = said
        if is_duplicate:
            value = 0.0 if of is None else truth.resemblance(page, of)
            yield said, value, of in kept
        else:
            yield said, truth.best(page), True
            truth.keep(page)
            kept.add(page)


@dataclass(slots=True)
class ConfusionCounts:
    """Decisions by what they should have been; "positive" is "duplicate"."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    def count(self, *, said: bool, right: bool) -> None:
        """Count one decision: `said` duplicate or not, and whether that is right."""
        if said:
            self.true_positive += right
            self.false_positive += not right
        else:
            self.true_negative += right
            self.false_negative += not right

    @property
    def pages(self) -> int:
        """Return the number of pages judged."""
        return self.duplicates + self.false_negative + self.true_negative

    @property
    def duplicates(self) -> int:
        """Return the number of pages called duplicate."""
        return self.true_positive + self.false_positive

    @property
    def precision(self) -> float | None:
        """Return the share of right ones among the said duplicates; None where none was said."""
        return _share(self.true_positive, self.duplicates)

    @property
    def recall(self) -> float | None:
        """Return the share of true duplicates that were said; None where there is none."""
        return _share(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f1(self) -> float | None:
        """Return the harmonic mean of precision and recall; None where there is nothing to find.

        As 2 TP / (2 TP + FP + FN) it is 0 where one of the two is none of anything.
        """
        right = 2 * self.true_positive
        return _share(right, right + self.false_positive + self.false_negative)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def ratio_text(ratio: float | None, digits: int = 4) -> str:
    """Return a ratio as tables show it: a hyphen where it is of nothing."""
    return "-" if ratio is None else f"{ratio:.{digits}f}"
