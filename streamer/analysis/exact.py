"""Exact comparison of texts: shares of shingles, without hashing and without estimates.

The shares answer different questions: how alike two texts are as wholes (Jaccard, Dice, the bag of
words), and how much of one is in the other (containment, the covered share of its words), which
alone shows a quotation in a text many times its length. All need both texts, so nothing here runs
in a stream; the estimates are held against it.

Sets of shingles with c in common and u in their union have the resemblance c / u. If x of the
common ones change on one page, c falls by x and u rises by x; if x that differ become equal, the
reverse. So the threshold t is crossed at x = (c - t*u) / (1 + t) shingles.

A fragment is a run of consecutive shingles that is in both texts and cannot be longer where it
is. Fragments are found from left to right in one text, each where it reaches farthest in the
other; then what the other text shares and no fragment covers yet is looked for the other way. So
every shared shingle is in a fragment, in either text.

Each place of a text is compared with at most PLACES_MAX places of the other: time is linear even
for a text of one word repeated, whose fragments may then be cut.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from streamer.sketch.method import PageText
from streamer.sketch.methods.minwise import Words, number_each_word
from streamer.sketch.methods.shingled import ShingleParameters, Shingler, shingles
from streamer.sketch.scheme import scheme_of
from streamer.sketch.settings import NATIVE, SECRET_BYTES, SignatureSettings
from streamer.text.visible import Buffer
from streamer.text.words import CanonicalOptions, Word


@dataclass(frozen=True)
class ShingleSets:
    """What of a page's words is compared under a canonical form; `width` is words a shingle."""

    width: int
    canonical: CanonicalOptions
    listed: Callable[[PageText], list[str]]

    def page(self, body: Buffer, flags: int) -> PageText:
        """Return a body, UTF-8 as `flags` say, as the text that counts."""
        return PageText.of_body(body, flags, self.canonical)

    def of(self, page: PageText) -> frozenset[str]:
        """Return the distinct shingles of a page."""
        return frozenset(self.listed(page))


def shingle_sets(settings: SignatureSettings) -> ShingleSets | None:
    """Return the shingles that decide under these settings; None if the method has no shingles.

    Raises:
        SettingsError: the settings need a file that is not there.
    """
    scheme = scheme_of(settings, bytes(SECRET_BYTES))
    parameters = scheme.sketch.parameters
    if isinstance(parameters, ShingleParameters):
        shingler = Shingler(parameters, bytes(SECRET_BYTES))
        return ShingleSets(parameters.shingle_width, scheme.canonical, shingler.shingles)
    if scheme.sketch.name == NATIVE:
        width = parameters.shingle_width
        return ShingleSets(width, scheme.canonical, lambda page: shingles(page.words, width))
    if isinstance(scheme.sketch, Words):
        return ShingleSets(1, scheme.canonical, number_each_word)
    return None


_ROUNDING = 1e-9  # of numbers of shingles, so that the threshold itself counts as reached


class Edits(msgspec.Struct, frozen=True):
    """What would change a verdict: this many shingles more, and at least so many words.

    `differ` is the direction: they would have to differ, else to agree.
    """

    differ: bool
    shingles: int
    words: int


def edits_needed(common: float, union: float, threshold: float, width: int) -> Edits:
    """Return the fewest edits of one page after which `common / union` is across `threshold`.

    One word changes at most `width` shingles, in the middle of a text and far from other edits.
    """
    beyond = (common - threshold * union) / (1 + threshold)
    differ = beyond >= -_ROUNDING
    whole = math.floor(beyond + _ROUNDING)
    shingles = whole + 1 if differ else -whole
    return Edits(differ, shingles, -(-shingles // width))


def estimate_sets(resemblance: float, one: int, other: int) -> tuple[float, float]:
    """Return (common, union) of two sets of these sizes at a resemblance, as c = R(n + m)/(1 + R).

    For sets that are only estimated to be alike; both are at most what the sizes allow.
    """
    common = min(resemblance * (one + other) / (1 + resemblance), one, other)
    return common, one + other - common


PLACES_MAX = 64


class Span(NamedTuple):
    """A part of a text: text[start:end], in characters."""

    start: int
    end: int


class Fragment(msgspec.Struct, frozen=True, rename={"one": "a", "other": "b"}):
    """A run of `words` words that is in both texts."""

    one: Span
    other: Span
    words: int


class _Run(NamedTuple):
    """`length` equal shingles from these on."""

    one: int
    other: int
    length: int


def find_shared_fragments(one: Sequence[Word], other: Sequence[Word], width: int) -> list[Fragment]:
    """Return the fragments of at least `width` words that two texts share, in order of the first.

    Neighbours may overlap by up to `width` - 1 words, where shingles of one follow each other and
    those of the other do not.
    """
    first = shingles([word.text for word in one], width)
    second = shingles([word.text for word in other], width)
    runs = list(_runs(first, second, [False] * len(first)))
    covered = [False] * len(second)
    for run in runs:
        covered[run.other : run.other + run.length] = [True] * run.length
    runs += [_Run(b, a, length) for a, b, length in _runs(second, first, covered)]
    return [_locate(run, one, other, width) for run in sorted(runs)]


def _runs(one: Sequence[str], other: Sequence[str], covered: Sequence[bool]) -> Iterator[_Run]:
    """Yield runs of `one` that stand in `other`, longest first choice, from uncovered places on."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, shingle in enumerate(other):
        if len(places[shingle]) < PLACES_MAX:
            places[shingle].append(place)
    at = 0
    while at < len(one):
        found = () if covered[at] else places.get(one[at], ())
        best = max((_Run(at, place, _reach(one, other, at, place)) for place in found),
                   key=lambda run: run.length, default=None)  # fmt: skip
        if best:
            yield best
        at += best.length if best else 1


def _reach(one: Sequence[str], other: Sequence[str], at: int, place: int) -> int:
    """Return how many shingles are equal from one[at] and other[place] on."""
    length, most = 0, min(len(one) - at, len(other) - place)
    while length < most and one[at + length] == other[place + length]:
        length += 1
    return length


def _locate(run: _Run, one: Sequence[Word], other: Sequence[Word], width: int) -> Fragment:
    last = run.length + width - 2
    return Fragment(
        Span(one[run.one].start, one[run.one + last].end),
        Span(other[run.other].start, other[run.other + last].end),
        run.length + width - 1,
    )


def dice_percentage(one: Sequence[str], other: Sequence[str]) -> float | None:
    """Return 2 * same / (n1 + n2) * 100 over two lists of shingles, as the published `compaire`.

    `same` counts the items of `one` that `other` has, each as often as `one` has it; with
    repeats the result therefore depends on the order of the two. Two empty lists give None.
    """
    there = frozenset(other)
    same = sum(item in there for item in one)
    return same * 2 / (len(one) + len(other)) * 100 if one or other else None


def jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float | None:
    """Return |A & B| / |A | B|: the resemblance of two sets; None if both are empty."""
    union = len(one | other)
    return len(one & other) / union if union else None


def containment(one: AbstractSet[str], other: AbstractSet[str]) -> float | None:
    """Return |A & B| / |A|: the share of the first set that is in the second; None if it is empty.

    Source: Broder 1997, On the resemblance and containment of documents.
    """
    return len(one & other) / len(one) if one else None


def covered_share(own: Sequence[str], others: AbstractSet[str], width: int) -> float | None:
    """Return the share of a text's words that lie in a shingle which `others` has as well.

    `own` are the shingles of `width` words in order, one a word; a text without any gives None.
    """
    covered = end = 0  # words covered, and the place after the last of them
    for start, shingle in enumerate(own):
        if shingle in others:
            covered += start + width - max(start, end)
            end = start + width
    return covered / (len(own) + width - 1) if own else None


def bag_resemblance(one: Iterable[str], other: Iterable[str]) -> float | None:
    """Return sum(min) / sum(max) of how often each word is in both; None if there is none."""
    first, second = Counter(one), Counter(other)
    union = (first | second).total()
    return (first & second).total() / union if union else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two texts share, exactly; shares of nothing are None.

    Attributes:
        width: words a shingle, as it was fit to the shorter text.
        shingles: of the first text and of the second, with repeats.
        shared: distinct shingles in both.
        dice_percentage: 0 to 100; the others are 0 to 1.
        containment: of the first in the second, and of the second in the first.
        covered: of each text the share of its words inside a shingle that both have.
        bag: the resemblance of both as bags of words.
    """

    width: int
    shingles: tuple[int, int]
    shared: int
    dice_percentage: float | None
    jaccard: float | None
    containment: tuple[float | None, float | None]
    covered: tuple[float | None, float | None]
    bag: float | None


def compare_words(one: Sequence[str], other: Sequence[str], width: int) -> Comparison:
    """Compare two texts by their shingles of `width` words, or fewer if one is shorter."""
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
        covered=(covered_share(first, b, fitted), covered_share(second, a, fitted)),
        bag=bag_resemblance(one, other),
    )


def fit_width(width: int, *lengths: int) -> int:
    """Return the width of shingles at which the shortest text still has one: at least 1."""
    return max(1, min(width, *lengths))


class Uniqueness:
    """How much of a text is found nowhere in a collection, whose texts are added one by one.

    Only the text's own shingles are held, so a collection can be of any size. A shingle that is
    in the text n times counts n times: the share is one of the text.
    """

    def __init__(self, words: Sequence[str], width: int) -> None:
        self.width = fit_width(width, len(words))
        self._counts = Counter(shingles(words, self.width))
        self._unseen = set(self._counts)
        self._found: dict[str, set[str]] = {}

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
