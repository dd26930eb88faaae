"""Lexicon: which words of a dictionary of middle frequency are on the page.

Frequent words are on all pages, rare ones are names and typing errors; between them lie the words
that tell topics apart and stay in a copy. Those of a page, by alphabet, are hashed (I-Match:
Chowdhury, Frieder, Grossman and McCabe 2002; descriptive words: Ilyinsky, Kuzmin, Melkov and
Segalovich 2002). A page with few of them has no key, since other pages would share these by chance.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Self

from pydantic import Field, model_validator

from streamer.sketch.collection import CollectionOption, frequencies_for
from streamer.sketch.digest import HashName
from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import OneString, StringParameters


class LexiconParameters(StringParameters):
    """The parameters of `lexicon`."""

    hash: HashName = Field(default="sha1", description="hash of the string that gives the key")
    collection: CollectionOption | None = Field(
        default=None, description="file with document frequencies; without one, by word length"
    )
    least_share: float = Field(
        default=0.001, ge=0, le=1, description="words on a smaller share of pages are too rare"
    )
    most_share: float = Field(
        default=0.05, ge=0, le=1, description="words on a greater share of pages are too frequent"
    )
    occurrences: int = Field(
        default=1, ge=1, description="how often a word must stand on the page to count"
    )
    min_words: int = Field(
        default=5, ge=1, description="pages with fewer words of the dictionary have no key"
    )

    @model_validator(mode="after")
    def _some_room(self) -> Self:
        if self.least_share > self.most_share:
            raise ValueError("least_share is above most_share: no word lies between; swap them")
        return self


def lexicon_words(page: PageText, parameters: LexiconParameters) -> list[str]:
    """Return the distinct words of a page that the dictionary has, by alphabet."""
    frequencies = frequencies_for(parameters.collection, page.canonical)
    least, most = parameters.least_share, parameters.most_share
    return sorted(
        word
        for word, times in Counter(page.words).items()
        if times >= parameters.occurrences and least <= frequencies.share(word) <= most
    )


class Lexicon(OneString[LexiconParameters]):
    """Pages with the same words of a dictionary of middle frequency."""

    name: ClassVar[str] = "lexicon"
    summary: ClassVar[str] = "Hash of the page's words of middle frequency, by alphabet (I-Match)."
    advice: ClassVar[str] = (
        "Take it where order and frequent words change, and you have a collection to count words"
        " in. One word of the dictionary more or less hides a copy: random_lexicon bears that."
    )
    defaults: ClassVar[type[Parameters]] = LexiconParameters

    def string(self, page: PageText) -> str:
        """Return the page's words of the dictionary by alphabet; empty if they are too few."""
        words = lexicon_words(page, self.parameters)
        return " ".join(words) if len(words) >= self.parameters.min_words else ""
