"""Segments: the page cut into n pieces, each signed by itself.

Pages are duplicates if at least m of their n pieces are equal. A change costs the pieces that it
touches, and those behind it as far as it moves their borders: pieces of whole sentences move less
than pieces of equal numbers of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar, Self

from pydantic import Field, model_validator

from streamer.sketch.digest import share_of
from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import SeveralStrings, StringParameters
from streamer.text.sentences import sentences
from streamer.text.words import canonical_words


class Rule(StrEnum):
    """Where a page is cut."""

    WORDS = "words"
    SENTENCES = "sentences"


class SegmentsParameters(StringParameters):
    """The parameters of `segments`."""

    segments: int = Field(default=10, ge=2, le=32, description="n: pieces a page")
    equal: int = Field(default=5, ge=1, description="m: pieces that are equal in duplicates")
    rule: Rule = Field(
        default=Rule.WORDS, description="cut into equal numbers of words, or of sentences"
    )
    min_words: int = Field(default=5, ge=1, description="pieces with fewer words have no key")

    @model_validator(mode="after")
    def _no_more_equal_than_there_are(self) -> Self:
        if self.equal > self.segments:
            raise ValueError("equal is above segments, the number of pieces; give at most that")
        return self


def cut(parts: Sequence[str], pieces: int) -> list[list[str]]:
    """Return `parts` in that many pieces in order, whose lengths differ by one at most."""
    borders = [len(parts) * (i + 1) // pieces for i in range(pieces)]
    return [list(parts[start:end]) for start, end in pairwise([0, *borders])]


class Segments(SeveralStrings[SegmentsParameters]):
    """Pages of which most pieces are equal."""

    name: ClassVar[str] = "segments"
    summary: ClassVar[str] = "The page in 10 pieces, each hashed; duplicates if half are equal."
    advice: ClassVar[str] = (
        "Take it where copies are changed in one place, such as a header or the end. "
        "Words put in or taken out move the borders of all pieces behind them; by sentences less."
    )
    defaults: ClassVar[type[Parameters]] = SegmentsParameters

    @property
    def bands(self) -> int:
        """Return the number of pieces."""
        return self.parameters.segments

    @property
    def threshold(self) -> float:
        """Return the similarity of two pages of which m pieces are equal."""
        return share_of(self.parameters.equal, self.parameters.segments)

    def strings(self, page: PageText) -> list[str]:
        """Return the pieces of a page, empty where they have too few words.

        A short page has fewer: a piece by words has `min_words` at least, a piece by sentences one
        sentence at least, of any length.
        """
        least = self.parameters.min_words
        if self.parameters.rule is Rule.WORDS:
            parts, most = page.words, len(page.words) // least
        else:
            parts = self._sentences(page)
            most = len(parts)
        pieces = map(" ".join, cut(parts, min(self.parameters.segments, most)))
        return [piece if piece.count(" ") + 1 >= least else "" for piece in pieces]

    def _sentences(self, page: PageText) -> list[str]:
        """Return the sentences that have words, in canonical form."""
        said = (" ".join(canonical_words(one, page.canonical)) for one in sentences(page.text))
        return [sentence for sentence in said if sentence]
