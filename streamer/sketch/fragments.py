"""The fragments that two texts share, located in both.

A fragment is a run of consecutive shingles that stands in both texts and cannot be longer where it
stands. Fragments are found from left to right in one text, each where it reaches farthest in the
other; then what the other text shares and no fragment covers yet is looked for the other way. So
every shared shingle lies in a fragment, in either text.

Each place of a text is compared with at most PLACES_MAX places of the other: time is linear even
for a text of one word repeated, whose fragments may then be cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streamer.sketch.word_shingles import shingles
from streamer.text.words import Word

PLACES_MAX = 64


class Span(NamedTuple):
    """A part of a text: text[start:end], in characters."""

    start: int
    end: int


class Fragment(NamedTuple):
    """A run of `words` words that stands in both texts."""

    one: Span
    other: Span
    words: int


class _Run(NamedTuple):
    """`length` equal shingles from these on."""

    one: int
    other: int
    length: int


def shared_fragments(one: Sequence[Word], other: Sequence[Word], width: int) -> list[Fragment]:
    """Return the fragments of at least `width` words that two texts share, in order of the first.

    Neighbours may overlap by up to `width` - 1 words, where shingles of one follow each other and
    those of the other do not.

    Raises:
        SettingsError: `width` is not positive.
    """
    first = shingles([word.text for word in one], width)
    second = shingles([word.text for word in other], width)
    runs = list(_runs(first, second, [False] * len(first)))
    covered = [False] * len(second)
    for run in runs:
        covered[run.other : run.other + run.length] = [True] * run.length
    runs += [_Run(b, a, length) for a, b, length in _runs(second, first, covered)]
    return [_located(run, one, other, width) for run in sorted(runs)]


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
    length = 0
    while (
        at + length < len(one)
        and place + length < len(other)
        and one[at + length] == other[place + length]
    ):
        length += 1
    return length


def _located(run: _Run, one: Sequence[Word], other: Sequence[Word], width: int) -> Fragment:
    last = run.length + width - 2
    return Fragment(
        Span(one[run.one].start, one[run.one + last].end),
        Span(other[run.other].start, other[run.other + last].end),
        run.length + width - 1,
    )
