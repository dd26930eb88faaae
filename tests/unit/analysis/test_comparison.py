"""Texts side by side: which pieces are coloured, and where they are on the page."""

from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis.comparison import Piece, highlight, in_place
from streamer.analysis.exact import Fragment, Span
from streamer.text.visible import TextPart
from tests.unit.analysis.test_exact import fragments_of, texts


def painted(pieces: list[Piece]) -> list[bool]:
    return [piece.group is not None for piece in pieces for _ in piece.text]


def test_pieces_stand_where_they_stand_on_the_page() -> None:
    parts = [TextPart(*part) for part in (("menu ", False), ("a b ", True), ("end", False))]
    pieces = [Piece("a", 0, first=True), Piece(" b ", None)]
    assert in_place(pieces, parts) == [
        Piece("menu ", None, counts=False), *pieces, Piece("end", None, counts=False),
    ]  # fmt: skip
    halves = [TextPart("a ", counts=True), TextPart("b c ", counts=True)]
    assert in_place([Piece("a b c ", 1, first=True)], halves) == [
        Piece("a ", 1, first=True), Piece("b c ", 1),
    ]  # fmt: skip


@given(texts, texts, st.integers(1, 3))
def test_what_fragments_cover_is_coloured_nothing_else(one: str, other: str, width: int) -> None:
    found = fragments_of(one, other, width)
    first, second = highlight(one, other, found)
    assert "".join(piece.text for piece in first) == one
    assert "".join(piece.text for piece in second) == other
    spans = [fragment.one for fragment in found]
    assert painted(first) == [any(s.start <= i < s.end for s in spans) for i in range(len(one))]
    spans = [fragment.other for fragment in found]
    assert painted(second) == [any(s.start <= i < s.end for s in spans) for i in range(len(other))]


@given(texts, texts, st.integers(1, 3))
def test_every_colour_has_one_first_piece_in_each_text(one: str, other: str, width: int) -> None:
    first, second = highlight(one, other, fragments_of(one, other, width))
    for pieces in (first, second):
        groups = {piece.group for piece in pieces if piece.group is not None}
        assert groups == {piece.group for piece in (*first, *second)} - {None}
        assert sorted(groups) == list(range(len(groups)))
        assert sorted(piece.group or 0 for piece in pieces if piece.first) == sorted(groups)


def test_of_overlapping_fragments_the_earlier_keeps_the_characters() -> None:
    found = [Fragment(Span(0, 3), Span(0, 3), 2), Fragment(Span(2, 5), Span(4, 7), 2)]
    first, _ = highlight("a b c", "a b b c", found)
    assert first == [Piece("a b", 0, first=True), Piece(" c", 1, first=True)]
