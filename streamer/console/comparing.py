"""Two pages side by side: their verdicts, and where their texts are at hand what these share.

The comparison is that of `streamer compare`, by the method of the index, or else by the default
one. Its time grows with the texts and cannot be cut short, so of long texts only the beginning is
compared.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import msgspec

from streamer.analysis.comparison import (
    MethodResult,
    Panel,
    Piece,
    compare_documents,
    highlight,
    in_place,
)
from streamer.analysis.documents import Body, Document
from streamer.analysis.exact import shingle_sets
from streamer.console.answers import ConsoleData, JudgedPage, Name, PageQuery, page
from streamer.console.index import TEXT_CHARACTERS_MAX, collapse_space
from streamer.console.view import QueryTooLong
from streamer.errors import StreamerError
from streamer.run.explanation import place_name
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.text.visible import TextPart
from streamer.text.words import CanonicalOptions

NO_FILES = "There are no texts: start the console with --pages and the files that were judged."
HIDDEN = "The texts are hidden by --no-text."
_CUT = "Only the first {:,} characters of each text are compared."


class CompareQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two pages, each by its URL or its place as SOURCE:NUMBER."""

    page: Name = ""
    other: Name = msgspec.field(name="with", default="")


class TextPiece(msgspec.Struct, frozen=True):
    """A part of a text.

    Attributes:
        group: numbers what both texts share, from 0; None for what they do not.
        first: whether it is the first part of its group in its text.
        counts: whether it is compared.
    """

    text: str
    group: int | None
    first: bool
    counts: bool


class ComparedPage(msgspec.Struct, frozen=True):
    """One of two pages: its newest verdict, if it has one, and its text, if it is at hand."""

    name: str
    judged: JudgedPage | None
    text: list[TextPiece]


class Figure(msgspec.Struct, frozen=True):
    """A figure of a comparison, as people read it."""

    name: str
    value: str


class CompareAnswer(msgspec.Struct, frozen=True):
    """Two pages side by side.

    Attributes:
        pages: both, or none if the query names none.
        figures: what is exact; empty without texts.
        methods: what the method of the index says of the texts, or the default one without one.
        notes: why texts or figures are missing or not whole, or of another fetch.
    """

    pages: list[ComparedPage]
    figures: list[Figure]
    methods: list[MethodResult]
    notes: list[str]


class _ComparedTexts(NamedTuple):
    pieces: tuple[Sequence[Piece], Sequence[Piece]]
    figures: list[Figure]
    methods: list[MethodResult]
    notes: list[str]


def compare(data: ConsoleData, query: CompareQuery) -> CompareAnswer:
    """Return two pages side by side.

    Raises:
        QueryTooLong: reading the files of pages takes longer than it may.
    """
    if not (query.page and query.other):
        return CompareAnswer([], [], [], [])
    names = query.page, query.other
    judged = [next(iter(page(data, PageQuery(name)).found), None) for name in names]
    if data.texts.sources:
        texts = _texts(data, names, judged)
    else:
        texts = _ComparedTexts(([], []), [], [], [NO_FILES])
    notes, pieces = texts.notes, texts.pieces
    if not data.shows_text:
        notes, pieces = [HIDDEN, *(note for note in notes if note != NO_FILES)], ([], [])
    pages = [
        ComparedPage(name, found, [_show_piece(piece) for piece in side])
        for name, found, side in zip(names, judged, pieces, strict=True)
    ]
    return CompareAnswer(pages, texts.figures, texts.methods, notes)


def _texts(
    data: ConsoleData, names: tuple[str, str], judged: Sequence[JudgedPage | None]
) -> _ComparedTexts:
    """Return what the texts of two pages have in common."""
    places = [one.place if one else name for name, one in zip(names, judged, strict=True)]
    urls = [one.verdict.url if one else name for name, one in zip(names, judged, strict=True)]
    deadline = time.monotonic() + data.seconds

    def check(_amount: int) -> None:
        if time.monotonic() > deadline or data.view.stopped.is_set():
            raise QueryTooLong

    expected = {one.place: one.verdict.url for one in judged if one}
    found = data.texts.find([*places, *urls], check, expected)
    both = [found.get(place) or found.get(url) for place, url in zip(places, urls, strict=True)]
    notes = [
        f"{name}: its text is in none of the files of --pages."
        for name, text in zip(names, both, strict=True)
        if text is None
    ]
    notes += [
        f"{name}: the text is of {place_name(text.place)}, which is another fetch."
        for name, judgement, place, text in zip(names, judged, places, both, strict=True)
        if judgement and text and text.place and place not in found
    ]
    one, other = both
    if one is None or other is None:
        return _ComparedTexts(([], []), [], [], notes)
    compared = _compare_texts(_settings(data, urls[0], judged), one, other)
    return compared._replace(notes=[*notes, *compared.notes])


def _settings(
    data: ConsoleData, url: str, judged: Sequence[JudgedPage | None]
) -> SignatureSettings:
    """Return how two pages are signed: as in the index, else by the verdicts' text."""
    if data.index is not None:
        with suppress(StreamerError, OSError):  # it is away: the overview warns of that
            return data.index.settings_for(url)
    takes_main = any(one is not None and one.verdict.text == "main" for one in judged)
    return SignatureSettings(canonical=MAIN_TEXT if takes_main else ())


def _compare_texts(settings: SignatureSettings, one: Body, other: Body) -> _ComparedTexts:
    canonical, width, notes = CanonicalOptions(), settings.shingle_width, list[str]()
    try:
        sets = shingle_sets(settings)
        if sets is not None:
            canonical, width = sets.canonical, sets.width
        panel = Panel.of(settings)
    except StreamerError as error:  # a method that weighs words lacks its file
        panel = Panel([], {})
        notes.append(f"The method {settings.method} cannot be asked here. {error}")
    documents = [_document(each, canonical) for each in (one, other)]
    if any(is_cut for _, is_cut in documents):
        notes.append(_CUT.format(TEXT_CHARACTERS_MAX))
    (first, _), (second, _) = documents
    report = compare_documents(first, second, width, panel)
    pieces = highlight(first.page.text, second.page.text, report.fragments)
    shown = in_place(pieces[0], first.parts), in_place(pieces[1], second.parts)
    return _ComparedTexts(
        shown, [Figure(*row) for row in report.exact_rows()], report.methods, notes
    )


def _document(found: Body, canonical: CanonicalOptions) -> tuple[Document, bool]:
    """Return the text of a page, of which a beginning is left at most, and whether it is cut."""
    whole = found.document(canonical)
    parts, left = list[TextPart](), dict.fromkeys((True, False), TEXT_CHARACTERS_MAX)
    for part in whole.parts:
        parts.append(part._replace(text=part.text[: left[part.counts]]))
        left[part.counts] -= len(parts[-1].text)
    text = whole.page.text[:TEXT_CHARACTERS_MAX]
    page = replace(whole.page, text=text)
    return Document(whole.name, page, parts), len(text) < len(whole.page.text)


def _show_piece(piece: Piece) -> TextPiece:
    return TextPiece(collapse_space(piece.text), piece.group, piece.first, piece.counts)
