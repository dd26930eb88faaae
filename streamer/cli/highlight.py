"""Two texts cut into pieces by the fragments that they share: what is to be coloured, and how.

Fragments may overlap, and one place of a text may answer to several of the other. A character has
one colour, so the earlier fragment keeps it; a fragment that is covered by others on either side
takes the colour of the one that covers its start. Every colour therefore occurs in both texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from streamer.sketch.fragments import Fragment, Span

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Piece(NamedTuple):
    """A part of a text: `group` numbers its colour from 0, None for what is not shared.

    `first` marks the group's first piece in its text, to which links lead.
    """

    text: str
    group: int | None
    first: bool = False


def highlighted(
    one: str, other: str, fragments: Sequence[Fragment]
) -> tuple[list[Piece], list[Piece]]:
    """Return both texts as pieces; joined, the pieces of a text are the text."""
    leaders = list(range(len(fragments)))
    painted = [
        _paint([fragment.one for fragment in fragments], leaders),
        _paint([fragment.other for fragment in fragments], leaders),
    ]
    numbers: dict[int, int] = {}

    def group_of(number: int) -> int:
        return numbers.setdefault(_leader(leaders, number), len(numbers))

    return _pieces(one, painted[0], group_of), _pieces(other, painted[1], group_of)


def visible(text: str) -> str:
    """Return a text for showing: control characters, which could steer a terminal, as U+FFFD."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def _leader(leaders: list[int], number: int) -> int:
    """Return which fragment leads the group of this one."""
    while leaders[number] != number:
        number = leaders[number]
    return number


def _paint(spans: Sequence[Span], leaders: list[int]) -> list[tuple[Span, int]]:
    """Return disjoint spans with their fragments, ascending; join the groups of covered ones."""
    painted: list[tuple[Span, int]] = []
    for number in sorted(range(len(spans)), key=lambda n: (spans[n], n)):
        start, end = spans[number]
        free = max(start, painted[-1][0].end) if painted else start
        if free < end:
            painted.append((Span(free, end), number))
            continue
        by = next(owner for span, owner in reversed(painted) if span.start <= start)
        one, other = sorted((_leader(leaders, by), _leader(leaders, number)))
        leaders[other] = one
    return painted


def _pieces(
    text: str, painted: Sequence[tuple[Span, int]], group_of: Callable[[int], int]
) -> list[Piece]:
    pieces: list[Piece] = []
    seen: set[int] = set()
    at = 0
    for span, number in painted:
        if at < span.start:
            pieces.append(Piece(text[at : span.start], None))
        group = group_of(number)
        pieces.append(Piece(text[span.start : span.end], group, group not in seen))
        seen.add(group)
        at = span.end
    if at < len(text):
        pieces.append(Piece(text[at:], None))
    return pieces
