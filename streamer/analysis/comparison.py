"""What `compare` finds out about two texts, as one value: for JSON, tables and the HTML page.

Exact shares come from the texts themselves, the similarity of each method from signatures alone, as
the stream would see it: two pages meet if they share a key or have equal words, and are duplicates
if their sketches are then similar enough. Pages too short for that can only have equal words.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamer.analysis.documents import Document
from streamer.analysis.exact import Comparison, Fragment, Span, compare_words, find_shared_fragments
from streamer.errors import SettingsError, needs_extra
from streamer.model import SIMILARITY_ONE
from streamer.run.explanation import describe_repeats
from streamer.sketch.hash_sets import decide_similarity
from streamer.sketch.method import ABSENT_KEY, Measure, PageText
from streamer.sketch.method_signer import hash_set
from streamer.sketch.methods.shingled import shingles
from streamer.sketch.scheme import Scheme, choose, methods, scheme_of
from streamer.sketch.settings import NATIVE, SECRET_BYTES, SignatureSettings
from streamer.text.visible import TextPart
from streamer.text.words import canonical_words, words_with_spans

GOLDEN_ANGLE = 137.508  # degrees: hues in steps of it are far apart, however many there are
TEMPLATE = "side_by_side.html.jinja"


def hue(group: int) -> int:
    """Return the hue of a group's colour, in degrees."""
    return round(40 + group * GOLDEN_ANGLE) % 360


def side_by_side(report: Report, one: Sequence[Piece], other: Sequence[Piece]) -> str:
    """Return a comparison as one HTML file; `one` and `other` are the texts in pieces.

    The page needs no network and no script. Everything that comes from the texts is escaped by the
    template engine, and a policy in the page forbids whatever might be loaded.
    """
    with needs_extra("analysis", "--html"):
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - an extra

    environment = Environment(
        loader=PackageLoader("streamer.analysis", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    groups = sorted({piece.group for piece in one if piece.group is not None})
    return environment.get_template(TEMPLATE).render(
        report=report,
        sides=(("a", "b", report.a, one), ("b", "a", report.b, other)),
        hues=[(group, hue(group)) for group in groups],
    )


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Piece(NamedTuple):
    """A part of a text: `group` numbers its colour from 0, None for what is not shared.

    `first` marks the group's first piece in its text, to which links lead. What does not count is
    on the page, but is not compared; `note` says why, where that is what the site repeats.
    """

    text: str
    group: int | None
    first: bool = False
    counts: bool = True
    note: str = ""


def highlight(
    one: str, other: str, fragments: Sequence[Fragment]
) -> tuple[list[Piece], list[Piece]]:
    """Return both texts as pieces; joined, the pieces of a text are the text.

    Fragments may overlap, and one place of a text may answer to several of the other. A character
    has one colour, so the earlier fragment keeps it; a fragment that is covered by others on either
    side takes the colour of the one that covers its start. Every colour occurs in both texts.
    """
    leaders = list(range(len(fragments)))
    painted = [
        _paint([fragment.one for fragment in fragments], leaders),
        _paint([fragment.other for fragment in fragments], leaders),
    ]
    numbers: dict[int, int] = {}

    def group_of(number: int) -> int:
        return numbers.setdefault(_leader(leaders, number), len(numbers))

    return _pieces(one, painted[0], group_of), _pieces(other, painted[1], group_of)


def in_place(pieces: Sequence[Piece], parts: Sequence[TextPart]) -> list[Piece]:
    """Return the pieces of what counts with what does not count between them, as on the page."""
    if not parts:
        return list(pieces)
    waiting = deque(pieces)
    result: list[Piece] = []
    for part in parts:
        if not part.counts:
            note = describe_repeats(part.repeats, dropped=part.dropped)
            result.append(Piece(part.text, None, counts=False, note=note))
            continue
        left = len(part.text)
        while left > 0:
            piece = waiting.popleft()
            if len(piece.text) > left:
                waiting.appendleft(piece._replace(text=piece.text[left:], first=False))
                piece = piece._replace(text=piece.text[:left])
            result.append(piece)
            left -= len(piece.text)
    assert not waiting, len(waiting)
    return result


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


SECRET = bytes(SECRET_BYTES)  # two texts at hand: nobody can prepare them against a secret
ALL = "all"

MethodOptions = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What one method says; `unavailable` says why it can say nothing, else it is empty.

    `exact` says whether the similarity is that of sets of shingles, and no estimate.
    """

    name: str
    similarity: float = 0.0
    threshold: float = 0.0
    shared_keys: int = 0
    keys: int = 0
    duplicate: bool = False
    unavailable: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about two texts; spans of `fragments` are in characters of the visible texts."""

    a: str
    b: str
    words: tuple[int, int]
    exact: Comparison
    methods: list[MethodResult]
    fragments: list[Fragment]

    def exact_rows(self) -> list[tuple[str, str]]:
        """Return the exact figures as text."""
        exact, one, other = self.exact, *self.exact.shingles
        return [
            ("words", f"{self.words[0]:,} and {self.words[1]:,}"),
            (f"shingles of {exact.width} words", f"{one:,} and {other:,}"),
            ("distinct shingles shared", f"{exact.shared:,}"),
            ("Jaccard similarity", _show(exact.jaccard, ".4f")),
            ("Dice", _show(exact.dice_percentage, ".2f", " %")),
            ("share of A in B", _show(exact.containment[0], ".2%")),
            ("share of B in A", _show(exact.containment[1], ".2%")),
            ("words of A covered", _show(exact.covered[0], ".2%")),
            ("words of B covered", _show(exact.covered[1], ".2%")),
            ("same words, any order", _show(exact.bag, ".4f")),
            ("shared fragments", f"{len(self.fragments):,}"),
        ]

    def method_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return each method's name, similarity, threshold, shared keys and verdict as text."""
        return [
            (one.name, "", "", "", one.unavailable)
            if one.unavailable
            else (
                one.name,
                f"{one.similarity:.4f}" + (" exact" if one.exact else ""),
                f"{one.threshold:.4f}",
                f"{one.shared_keys} of {one.keys}",
                "duplicate" if one.duplicate else "different",
            )
            for one in self.methods
        ]


def _show(share: float | None, form: str, unit: str = "") -> str:
    return "-" if share is None else f"{share:{form}}{unit}"


_Asked = tuple[Scheme, SignatureSettings]


class Panel:
    """The methods to ask, made once for any number of pairs."""

    def __init__(
        self,
        names: Iterable[str],
        options: MethodOptions,
        canonical: Sequence[str] = (),
        *,
        exact: bool = False,
    ) -> None:
        """Make what the names stand for: methods, presets, two as KEYS+ACCEPT, or `all` methods.

        Those that estimate resemblance decide as an index with `exact` does, if that is asked for.

        Raises:
            SettingsError: a name or an option does not exist, or an option is of none that is
                asked.
        """
        wanted = [one for name in names for one in (methods() if name == ALL else (name,))]
        for name in options:
            if name not in wanted:
                raise SettingsError(f"The method {name} has options but is not asked; name it too.")
        self._asked: dict[str, _Asked] = {}
        for name in wanted:
            given = [f"{option}={value}" for option, value in options.get(name, {}).items()]
            settings = choose(name, options=given, canonical=canonical)
            settings = settings.model_copy(update={"exact": exact})
            self._asked[name] = scheme_of(settings, SECRET), settings

    @classmethod
    def of(cls, settings: SignatureSettings) -> Panel:
        """Make the panel of one method, as an index with these settings has it.

        Raises:
            SettingsError: the method needs a file that is not there.
        """
        panel = cls((), {})
        name = "+".join(filter(None, (settings.method, settings.accept)))
        panel._asked[name] = scheme_of(settings, SECRET), settings
        return panel

    def ask(self, one: PageText, other: PageText) -> list[MethodResult]:
        """Return what each method says of two texts."""
        words = [canonical_words(page.text) for page in (one, other)]
        return [_result(name, asked, (one, other), words) for name, asked in self._asked.items()]


def _result(
    name: str, asked: _Asked, pages: tuple[PageText, PageText], words: Sequence[list[str]]
) -> MethodResult:
    """Return what a method says, by the rule of index/rule.py: share a key, then be similar.

    Equal words are a key of their own there, and the only one of a page that is too short; `words`
    are those by the rules of equal content.
    """
    (scheme, settings), (one, other) = asked, pages
    if not (one.words and other.words):
        return MethodResult(name, unavailable="A text has no words.")
    same = words[0] == words[1]
    width = settings.shingle_width if settings.method == NATIVE else 1
    least = min(len(set(shingles(each, width))) for each in words)
    if least < settings.min_shingles and not same:
        what = "shingles" if width > 1 else "words"
        return MethodResult(
            name, unavailable=f"Fewer than {settings.min_shingles} distinct {what}."
        )
    a, b = scheme.sign(one), scheme.sign(other)
    by_sets = settings.exact and settings.measure == Measure.RESEMBLANCE
    shared = len((set(a.keys) & set(b.keys)) - {ABSENT_KEY})
    least = round(settings.threshold * SIMILARITY_ONE)
    decided, exact = decide_similarity(
        int(settings.measure), a.sketch, b.sketch, least,
        (lambda: (hash_set(a.hashes), hash_set(b.hashes))) if by_sets else None,
    )  # fmt: skip
    return MethodResult(
        name=name,
        similarity=decided / SIMILARITY_ONE,
        threshold=settings.threshold,
        shared_keys=shared,
        keys=settings.bands,
        duplicate=(same or shared > 0) and decided >= least,
        exact=exact,
    )


def compare_documents(one: Document, other: Document, width: int, panel: Panel) -> Report:
    """Compare two texts exactly, by shingles of `width` words, and by the methods of a panel."""
    first = words_with_spans(one.page.text, one.page.canonical)
    second = words_with_spans(other.page.text, other.page.canonical)
    exact = compare_words([w.text for w in first], [w.text for w in second], width)
    fragments = find_shared_fragments(first, second, exact.width)
    said = panel.ask(one.page, other.page)
    return Report(one.name, other.name, (len(first), len(second)), exact, said, fragments)
