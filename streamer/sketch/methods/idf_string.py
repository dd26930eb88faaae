"""IDF string: the rarer words of a page, whatever their order and number.

A page's distinct words are put into descending order of IDF, the rarest 70 % are joined and hashed.
So the frequent words, which a writer changes freely, do not count. This is I-Match with a cut by
share instead of a lexicon (Chowdhury, Frieder, Grossman and McCabe 2002, Collection statistics for
fast duplicate document detection).
"""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from streamer.sketch.collection import CollectionOption, frequencies_for
from streamer.sketch.frequencies import rarest_first
from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import OneString, StringParameters


class IdfStringParameters(StringParameters):
    """The parameters of `idf_string`."""

    collection: CollectionOption | None = Field(
        default=None, description="file with document frequencies; without one, by word length"
    )
    kept_percent: int = Field(
        default=70, ge=1, le=100, description="share of the distinct words kept, the rarest first"
    )
    min_words: int = Field(
        default=5, ge=1, description="pages that keep fewer words match equal content only"
    )


class IdfString(OneString[IdfStringParameters]):
    """Pages with the same rarer words."""

    name: ClassVar[str] = "idf_string"
    summary: ClassVar[str] = "Hash of the 70 % rarest words by descending IDF (I-Match family)."
    advice: ClassVar[str] = (
        "Take it for copies that are reordered or differ in frequent words only; it is fast and"
        " seldom wrong. One new rare word hides a copy, and it is better with a collection of its"
        " own pages."
    )
    defaults: ClassVar[type[Parameters]] = IdfStringParameters

    def string(self, page: PageText) -> str:
        """Return the kept words, rarest first; their number is rounded up."""
        frequencies = frequencies_for(self.parameters.collection, page.canonical)
        words = rarest_first(page.words, frequencies)
        kept = words[: math.ceil(len(words) * self.parameters.kept_percent / 100)]
        return " ".join(kept) if len(kept) >= self.parameters.min_words else ""
