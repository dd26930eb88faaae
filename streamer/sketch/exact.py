"""Exact comparison of texts: shares of shingles, without hashing and without estimates.

Three shares answer three questions: how alike two texts are as wholes (Jaccard, Dice), and how much
of one lies in the other (containment), which alone tells a quotation in a text many times its
length. All need both texts, so nothing here runs in a stream; the estimates are held against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from streamer.errors import SettingsError
from streamer.sketch.word_shingles import shingles


def dice_percentage(one: Sequence[str], other: Sequence[str]) -> float:
    """Return 2 * same / (n1 + n2) * 100 over two lists of shingles, as the published `compaire`.

    `same` counts the items of `one` that `other` has, each as often as it stands in `one`; with
    repeats the result therefore depends on the order of the two. Two empty lists give 0.
    """
    if not one and not other:
        return 0.0
    there = frozenset(other)
    same = sum(item in there for item in one)
    return same * 2 / (len(one) + len(other)) * 100


def jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Return |A & B| / |A | B|: the resemblance of two sets; 0 if both are empty."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def containment(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Return |A & B| / |A|: the share of the first set that lies in the second; 0 if it is empty.

    Source: Broder 1997, On the resemblance and containment of documents.
    """
    return len(one & other) / len(one) if one else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two texts share, exactly.

    Attributes:
        width: words a shingle, as it was fit to the shorter text.
        shingles: of the first text and of the second, with repeats.
        shared: distinct shingles in both.
        dice_percentage: 0 to 100; the others are 0 to 1.
        containment: of the first in the second, and of the second in the first.
    """

    width: int
    shingles: tuple[int, int]
    shared: int
    dice_percentage: float
    jaccard: float
    containment: tuple[float, float]


def compare_words(one: Sequence[str], other: Sequence[str], width: int) -> Comparison:
    """Compare two texts by their shingles of `width` words, or fewer if one is shorter than that.

    Raises:
        SettingsError: `width` is not positive.
    """
    fitted = fit_width(width, len(one), len(other))
    first, second = shingles(one, fitted), shingles(other, fitted)
    a, b = frozenset(first), frozenset(second)
    return Comparison(
        width=fitted,
        shingles=(len(first), len(second)),
        shared=len(a & b),
        dice_percentage=dice_percentage(first, second),
        jaccard=jaccard(a, b),
        containment=(containment(a, b), containment(b, a)),
    )


def fit_width(width: int, *lengths: int) -> int:
    """Return the width of shingles at which the shortest text still has one: at least 1.

    Raises:
        SettingsError: `width` is not positive.
    """
    if width < 1:
        raise SettingsError(f"a shingle cannot be {width} wide; give 1 or more")
    return max(1, min(width, *lengths))


@dataclass(slots=True)
class Uniqueness:
    """How much of a text is found nowhere in a collection, whose texts are added one by one.

    Only the text's own shingles are held, so a collection can be of any size. A shingle that stands
    in the text n times counts n times: the share is one of the text.
    """

    words: Sequence[str]
    width: int
    _counts: Counter[str] = field(init=False)
    _unseen: set[str] = field(init=False)
    _found: dict[str, set[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.width = fit_width(self.width, len(self.words))
        self._counts = Counter(shingles(self.words, self.width))
        self._unseen = set(self._counts)

    def add(self, source: str, words: Sequence[str]) -> None:
        """Look for the text's shingles in one text of the collection.

        Texts of one source count as one: a page that was fetched again is no second source.
        """
        found = self._counts.keys() & shingles(words, self.width)
        self._unseen -= found
        if found:
            self._found.setdefault(source, set()).update(found)

    @property
    def by_source(self) -> dict[str, int]:
        """Return how many of the text's shingles each source has, those that have any."""
        return {source: self._total(found) for source, found in self._found.items()}

    @property
    def shingles(self) -> int:
        """Return how many shingles the text has."""
        return self._counts.total()

    @property
    def unique(self) -> int:
        """Return how many of them were found nowhere."""
        return self._total(self._unseen)

    @property
    def percentage(self) -> float:
        """Return the share that was found nowhere, 0 to 100; 100 for a text without shingles."""
        return 100 * self.unique / self.shingles if self.shingles else 100.0

    def _total(self, found: Iterable[str]) -> int:
        return sum(self._counts[shingle] for shingle in found)
