"""Two pages side by side: their verdicts, and where their texts are at hand what these share.

The comparison is that of `streamer compare`, by the method of the index, or else by the default
one. Its time grows with the texts and cannot be cut short, so of long texts only the beginning is
compared.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec

from streamer.analysis import comparison
from streamer.analysis.documents import Body, Document
from streamer.analysis.exact import shingle_sets
from streamer.console.answers import ConsoleData, JudgedPage, Name, PageQuery, page
from streamer.console.index import TEXT_CHARACTERS_MAX, check_until, collapse_space
from streamer.errors import StreamerError
from streamer.model import Basis
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


class TextRow(msgspec.Struct, frozen=True):
    """Parts of both texts that stand next to each other; `alike` are those that both have."""

    one: list[TextPiece]
    other: list[TextPiece]
    alike: bool


class ComparedPage(msgspec.Struct, frozen=True):
    """One of two pages: its newest verdict, if it has one."""

    name: str
    judged: JudgedPage | None


class Figure(msgspec.Struct, frozen=True):
    """A figure of a comparison, as people read it."""

    name: str
    value: str


class PairSimilarity(msgspec.Struct, frozen=True):
    """How similar two pages are, as one number.

    Attributes:
        value: what a verdict says of the pair; where none does, what `method` says of the texts.
        source: which of both it is.
        exact: whether it is a share of shingles; else it is estimated from signatures.
        threshold: from which on they are duplicates; None where no text and no index is at hand.
        measured: the share of shingles that the texts have in common, where they are at hand.
    """

    value: float
    source: Literal["verdict", "texts"]
    exact: bool
    threshold: float | None
    measured: float | None
    method: str


class CompareAnswer(msgspec.Struct, frozen=True):
    """Two pages side by side.

    Attributes:
        pages: both, or none if the query names none.
        similarity: of the pair; None where neither a verdict nor the texts say it.
        figures: what is exact; empty without texts.
        rows: both texts, aligned by what they share.
        notes: why texts or figures are missing or not whole, or of another fetch.
    """

    pages: list[ComparedPage]
    similarity: PairSimilarity | None
    figures: list[Figure]
    rows: list[TextRow]
    notes: list[str]


_Judged = Sequence[JudgedPage | None]  # of both pages, as far as they are


class _ComparedTexts(NamedTuple):
    pieces: tuple[Sequence[comparison.Piece], Sequence[comparison.Piece]]
    figures: list[Figure]
    methods: list[comparison.MethodResult]
    notes: list[str]
    measured: float | None = None


def compare(data: ConsoleData, query: CompareQuery) -> CompareAnswer:
    """Return two pages side by side.

    Raises:
        QueryTooLong: reading the files of pages takes longer than it may.
    """
    if not (query.page and query.other):
        return CompareAnswer([], None, [], [], [])
    names = query.page, query.other
    judged = [next(iter(page(data, PageQuery(name, "no")).found), None) for name in names]
    nothing = _ComparedTexts(([], []), [], [], [NO_FILES])
    texts = _texts(data, names, judged) if data.texts.sources else nothing
    notes, pieces = texts.notes, texts.pieces
    if not data.shows_text:
        notes, pieces = [HIDDEN, *(note for note in notes if note != NO_FILES)], ([], [])
    pages = [ComparedPage(*each) for each in zip(names, judged, strict=True)]
    sides = [
        [TextPiece(collapse_space(one.text), one.group, one.first, one.counts) for one in side]
        for side in pieces
    ]
    rows = align(*sides)
    return CompareAnswer(pages, _similarity(data, judged, texts), texts.figures, rows, notes)


def _similarity(data: ConsoleData, judged: _Judged, texts: _ComparedTexts) -> PairSimilarity | None:
    """Return the similarity that a verdict has of the pair, else that of their texts."""
    for one, other in itertools.permutations(judged):
        if one is None or other is None:
            continue
        verdict = one.verdict
        kept = verdict.representative or verdict.nearest
        by = verdict if verdict.representative else verdict.nearest
        if not kept or not by or kept.index or kept.page != other.verdict.page:
            continue
        is_known = data.index is not None or texts.methods
        threshold = _settings(data, verdict.url, judged).threshold if is_known else None
        value, is_exact = by.similarity or 0.0, by.exact or verdict.basis != Basis.SIGNATURE
        return PairSimilarity(value, "verdict", bool(is_exact), threshold, texts.measured, "")
    for said in (each for each in texts.methods if not each.unavailable):
        return PairSimilarity(
            said.similarity, "texts", said.exact, said.threshold, texts.measured, said.name
        )
    return None


def align(one: Sequence[TextPiece], other: Sequence[TextPiece]) -> list[TextRow]:
    """Return two texts as rows: what both have in one order side by side, the rest between."""
    rows, first, second = list[TextRow](), 0, 0
    for here, there in [*_anchors(one, other), (len(one), len(other))]:
        rows.append(TextRow(_trim(one[first:here]), _trim(other[second:there]), alike=False))
        both = one[here : here + 1], other[there : there + 1]
        rows.append(TextRow(_trim(both[0]), _trim(both[1]), alike=True))
        first, second = here + 1, there + 1
    return [row for row in rows if row.one or row.other]


def _anchors(one: Sequence[TextPiece], other: Sequence[TextPiece]) -> list[tuple[int, int]]:
    """Return the places of shared pieces that come in one order in both texts, the most of them.

    It is a longest increasing subsequence, so the time is n log n of any texts.
    """
    places = {piece.group: n for n, piece in enumerate(other) if piece.first}
    shared = [(n, places[p.group]) for n, p in enumerate(one) if p.first and p.group in places]
    ends, last, before = list[int](), list[int](), list[int]()  # of the chains of each length
    for number, (_, place) in enumerate(shared):
        at = bisect_left(ends, place)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [place], [number]
    found, number = list[tuple[int, int]](), last[-1] if last else -1
    while number >= 0:
        found.append(shared[number])
        number = before[number]
    return found[::-1]


def _trim(pieces: Sequence[TextPiece]) -> list[TextPiece]:
    """Return pieces without white space around them, which a row of its own does not need."""
    trimmed = [*pieces] if any(each.text.strip() for each in pieces) else []
    for at, strip in ((0, str.lstrip), (-1, str.rstrip)):
        if trimmed:
            trimmed[at] = msgspec.structs.replace(trimmed[at], text=strip(trimmed[at].text))
    return trimmed


def _texts(data: ConsoleData, names: tuple[str, str], judged: _Judged) -> _ComparedTexts:
    """Return what the texts of two pages have in common."""
    places = [one.place if one else name for name, one in zip(names, judged, strict=True)]
    urls = [one.verdict.url if one else name for name, one in zip(names, judged, strict=True)]
    check = check_until(data.seconds, data.view.stopped)
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


def _settings(data: ConsoleData, url: str, judged: _Judged) -> SignatureSettings:
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
        panel = comparison.Panel.of(settings)
    except StreamerError as error:  # a method that weighs words lacks its file
        panel = comparison.Panel([], {})
        notes.append(f"The method {settings.method} cannot be asked here. {error}")
    documents = [_document(each, canonical) for each in (one, other)]
    if any(is_cut for _, is_cut in documents):
        notes.append(_CUT.format(TEXT_CHARACTERS_MAX))
    (first, _), (second, _) = documents
    report = comparison.compare_documents(first, second, width, panel)
    pieces = comparison.highlight(first.page.text, second.page.text, report.fragments)
    here = comparison.in_place(pieces[0], first.parts)
    there = comparison.in_place(pieces[1], second.parts)
    return _ComparedTexts(
        (here, there),
        [Figure(*row) for row in report.exact_rows()],
        report.methods,
        notes,
        report.exact.jaccard,
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
