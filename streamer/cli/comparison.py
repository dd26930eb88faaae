"""What `compare` finds out about two texts, as one value: for JSON, tables and the HTML page.

Exact shares come from the texts themselves, the similarity of each method from signatures alone, as
the stream would see it: two pages meet if they share a key, and are duplicates if their sketches
are then similar enough. Pages of equal words are duplicates for every method there, and here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamer.errors import SettingsError
from streamer.sketch.exact import Comparison, compare_words
from streamer.sketch.fragments import Fragment, shared_fragments
from streamer.sketch.measures import similarity_of
from streamer.sketch.method import ABSENT_KEY, Method, PageText
from streamer.sketch.registry import method, methods
from streamer.sketch.secret import SECRET_BYTES
from streamer.stream.documents import Document
from streamer.text.words import canonical_words, words_with_spans

SECRET = bytes(SECRET_BYTES)  # two texts at hand: nobody can prepare them against a secret
ALL = "all"

MethodOptions = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What one method says; `unavailable` tells why it can say nothing, else it is empty."""

    name: str
    similarity: float = 0.0
    threshold: float = 0.0
    shared_keys: int = 0
    keys: int = 0
    duplicate: bool = False
    unavailable: str = ""


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
            ("Jaccard similarity", f"{exact.jaccard:.4f}"),
            ("Dice", f"{exact.dice_percentage:.2f} %"),
            ("share of A in B", f"{exact.containment[0]:.2%}"),
            ("share of B in A", f"{exact.containment[1]:.2%}"),
            ("shared fragments", f"{len(self.fragments):,}"),
        ]

    def method_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return each method's name, similarity, threshold, shared keys and verdict as text."""
        return [
            (one.name, "", "", "", one.unavailable)
            if one.unavailable
            else (
                one.name,
                f"{one.similarity:.4f}",
                f"{one.threshold:.4f}",
                f"{one.shared_keys} of {one.keys}",
                "duplicate" if one.duplicate else "different",
            )
            for one in self.methods
        ]


class Panel:
    """The methods to ask, made once for any number of pairs."""

    def __init__(self, names: Iterable[str], options: MethodOptions) -> None:
        """Make the methods of these names; `all` stands for all that need no option more.

        Raises:
            SettingsError: a method does not exist or lacks an option, or an option is of none.
        """
        self._methods: dict[str, Method[Any] | str] = {}
        for name in names:
            for one in methods() if name == ALL else (name,):
                self._methods[one] = _made(one, options.get(one, {}), strict=name != ALL)
        for name in options:
            if name not in self._methods:
                raise SettingsError(f"The method {name} has options but is not asked; name it too.")

    def ask(self, one: PageText, other: PageText) -> list[MethodResult]:
        """Return what each method says of two texts."""
        same = canonical_words(one.text) == canonical_words(other.text)
        return [_result(name, made, one, other, same=same) for name, made in self._methods.items()]


def _made(name: str, options: Mapping[str, str], *, strict: bool) -> Method[Any] | str:
    """Return a method, or if not `strict` why there is none."""
    try:
        return method(name, options, SECRET)
    except SettingsError as error:
        if strict:
            raise
        return str(error)


def _result(
    name: str, made: Method[Any] | str, one: PageText, other: PageText, *, same: bool
) -> MethodResult:
    """Return what one method says of two texts; `same` is whether their words are equal."""
    if isinstance(made, str):
        return MethodResult(name, unavailable=made)
    if not (one.words and other.words):
        return MethodResult(name, unavailable="A text has no words.")
    a, b = made.sign(one), made.sign(other)
    shared = len((set(a.keys) & set(b.keys)) - {ABSENT_KEY})
    similarity = similarity_of(made.measure, a.sketch, b.sketch)
    return MethodResult(
        name=name,
        similarity=similarity,
        threshold=made.threshold,
        shared_keys=shared,
        keys=made.bands,
        duplicate=same or (shared > 0 and similarity >= made.threshold),
    )


def compare_documents(one: Document, other: Document, width: int, panel: Panel) -> Report:
    """Compare two texts exactly, by shingles of `width` words, and by the methods of a panel.

    Raises:
        SettingsError: the width cannot be.
    """
    first = words_with_spans(one.page.text, one.page.canonical)
    second = words_with_spans(other.page.text, other.page.canonical)
    exact = compare_words([w.text for w in first], [w.text for w in second], width)
    fragments = shared_fragments(first, second, exact.width)
    said = panel.ask(one.page, other.page)
    return Report(one.name, other.name, (len(first), len(second)), exact, said, fragments)
