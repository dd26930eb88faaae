"""Optimum frequency: the few words that stand out on the page and are neither common nor odd.

A word's weight is TF * IDF', with TF = 1/2 + 1/2 * times / times of the most frequent word, and
IDF' = min(IDF / best, best / IDF): 1 at the best IDF and less on both sides of it. Common words
tell pages apart badly; the rarest are names, numbers and typing errors, which change most. The
words of greatest weight, by alphabet, are hashed.

After Zelenkov and Segalovich 2007, who hash the six words nearest an optimum of TF and IDF. Ours
are these two formulas, the best IDF of 6, and that words on all pages are left out.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from pydantic import Field

from streamer.sketch.collection import CollectionOption, frequencies_for
from streamer.sketch.frequencies import WordFrequencies, idf
from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import OneString, StringParameters


class OptimumFrequencyParameters(StringParameters):
    """The parameters of `optimum_frequency`."""

    collection: CollectionOption | None = Field(
        default=None, description="file with document frequencies; without one, by word length"
    )
    words: int = Field(default=6, ge=1, le=1000, description="how many words are hashed")
    best_idf: float = Field(
        default=6.0, gt=0, le=40, description="natural logarithm: 6 is a word on one page in 403"
    )


class OptimumFrequency(OneString[OptimumFrequencyParameters]):
    """Pages whose words of best frequency are the same."""

    name: ClassVar[str] = "optimum_frequency"
    summary: ClassVar[str] = "Hash of the 6 words whose TF*IDF is nearest the best."
    advice: ClassVar[str] = (
        "Take it for long articles of one topic, whose key words stay when sentences change. "
        "Short pages of one kind share their few words and are then taken for duplicates."
    )
    defaults: ClassVar[type[Parameters]] = OptimumFrequencyParameters

    def string(self, page: PageText) -> str:
        """Return the words of greatest weight by alphabet; empty if the page has fewer."""
        frequencies = frequencies_for(self.parameters.collection, page.canonical)
        weights = self._weights(page.words, frequencies)
        if len(weights) < self.parameters.words:
            return ""
        best = sorted(weights, key=lambda word: (-weights[word], word))
        return " ".join(sorted(best[: self.parameters.words]))

    def _weights(self, words: list[str], frequencies: WordFrequencies) -> dict[str, float]:
        """Return the weights of the words; those on all pages weigh nothing and are left out."""
        counts, best = Counter(words), self.parameters.best_idf
        most = max(counts.values(), default=1)
        weights: dict[str, float] = {}
        for word, times in counts.items():
            rarity = idf(word, frequencies)
            if rarity > 0:
                nearness = min(rarity / best, best / rarity)
                weights[word] = (0.5 + 0.5 * times / most) * nearness
        return weights
