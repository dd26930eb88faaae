"""Digests: five ways to hash what a page says it is about.

    description    its meta description, or the first 512 bytes of its text without one
    con            its keywords in order of weight
    sort           its keywords by alphabet
    con_weights    as con, and the weights near each other
    sort_weights   as sort, and the weights near each other

Keywords are the N words of greatest TF*IDF; TF is the share of the page's words, so that pages of
different length compare. Weights are near each other if those of each word, w and v, have
(w - v)**2 / (w**2 + v**2) < a, which is a similarity above 1 - a. By alphabet it does not matter
which of two words of about equal weight comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple

from pydantic import Field

from streamer.sketch.collection import CollectionOption, WordFrequencies, frequencies_for, idf
from streamer.sketch.measures import WEIGHTS_MAX, pack_weighted
from streamer.sketch.method import (
    ABSENT_KEY,
    Measure,
    Method,
    MethodSignature,
    PageText,
    Parameters,
)
from streamer.sketch.methods.hashes import HashName, digest_of, hash64, seed_of
from streamer.text.words import canonical_words

BEGINNING_BYTES = 512  # of UTF-8, in place of a description


class Keyword(NamedTuple):
    """A word and its weight on the page."""

    word: str
    weight: float


def top_keywords(words: Sequence[str], frequencies: WordFrequencies, count: int) -> list[Keyword]:
    """Return at most `count` words by descending TF*IDF, equal ones by alphabet.

    Words that stand on all pages weigh nothing and are no keywords.
    """
    weighed = (
        Keyword(word, times / len(words) * idf(word, frequencies))
        for word, times in Counter(words).items()
    )
    keywords = [keyword for keyword in weighed if keyword.weight > 0]
    return sorted(keywords, key=lambda keyword: (-keyword.weight, keyword.word))[:count]


class Variant(StrEnum):
    """What is hashed, and whether weights must be near each other."""

    DESCRIPTION = "description"
    CON = "con"
    SORT = "sort"
    CON_WEIGHTS = "con_weights"
    SORT_WEIGHTS = "sort_weights"


BY_ALPHABET = frozenset({Variant.SORT, Variant.SORT_WEIGHTS})
WITH_WEIGHTS = frozenset({Variant.CON_WEIGHTS, Variant.SORT_WEIGHTS})


class DigestsParameters(Parameters):
    """The parameters of `digests`."""

    variant: Variant = Field(
        default=Variant.SORT,
        description="description, con, sort, con_weights or sort_weights",
    )
    keywords: int = Field(
        default=10, ge=1, le=WEIGHTS_MAX, description="N: how many keywords are hashed"
    )
    apart: float = Field(
        default=0.01, gt=0, lt=1, description="a: how far apart the weights of a word may be"
    )
    collection: CollectionOption | None = Field(
        default=None, description="file with document frequencies; without one, by word length"
    )
    hash: HashName = Field(default="md5", description="hash of the string that gives the key")


class Digests(Method[DigestsParameters]):
    """Pages with the same description, or the same keywords."""

    name: ClassVar[str] = "digests"
    summary: ClassVar[str] = "Hash of the description, or of the 10 keywords, in five variants."
    advice: ClassVar[str] = (
        "Take sort where pages are long and you want one cheap key, con_weights where a false match"
        " costs much. Take description only where sites write one for each page: many write one for"
        " all."
    )
    defaults: ClassVar[type[Parameters]] = DigestsParameters
    measure: ClassVar[Measure] = Measure.WEIGHTED

    def __init__(self, parameters: DigestsParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._seed = seed_of(secret, self.name)

    @property
    def bands(self) -> int:
        """Return 1: the hash of the string."""
        return 1

    @property
    def threshold(self) -> float:
        """Return 1 - a: weights that are near each other are at least so similar."""
        return 1 - self.parameters.apart

    def sign(self, page: PageText) -> MethodSignature:
        """Return the key of the description or keywords, and their digest with the weights."""
        keywords = self.keywords(page)
        weighted = self.parameters.variant in WITH_WEIGHTS
        string = (
            self.description(page)
            if self.parameters.variant is Variant.DESCRIPTION
            else " ".join(keyword.word for keyword in keywords)
        )
        if not string:
            lacking = digest_of(page.content, self.secret, f"{self.name} lacking")
            return MethodSignature([ABSENT_KEY], pack_weighted(lacking % 2**128))
        key = hash64(string.encode(), self._seed, self.parameters.hash)
        digest = digest_of(string, self.secret, self.name) % 2**128
        weights = [keyword.weight for keyword in keywords] if weighted else []
        return MethodSignature([key], pack_weighted(digest, weights))

    def description(self, page: PageText) -> str:
        """Return the words of the description, or of the beginning of a text without one."""
        words = canonical_words(page.description, page.canonical)
        if not words:
            beginning = page.text.encode(errors="surrogatepass")[:BEGINNING_BYTES]
            words = canonical_words(beginning.decode(errors="ignore"), page.canonical)
        return " ".join(words)

    def keywords(self, page: PageText) -> list[Keyword]:
        """Return the keywords of a page in the variant's order; none if it has fewer than N."""
        if self.parameters.variant is Variant.DESCRIPTION:
            return []
        frequencies = frequencies_for(self.parameters.collection, page.canonical)
        top = top_keywords(page.words, frequencies, self.parameters.keywords)
        if len(top) < self.parameters.keywords:
            return []
        return sorted(top) if self.parameters.variant in BY_ALPHABET else top
