"""Page vector: the feature words of a page with their weights in a few steps.

The weights of the words, without stop words, are their counts over the greatest count, rounded up
to whole steps. The words of greatest count, each with its step, are hashed in order of step. One
more or less of a frequent word seldom changes a step, and so seldom the digest.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from pydantic import Field, field_validator

from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import OneString, StringParameters
from streamer.text.vocabulary import stop_word_languages
from streamer.text.words import canonical_words


class PageVectorParameters(StringParameters):
    """The parameters of `page_vector`."""

    words: int = Field(default=10, ge=1, le=1000, description="how many feature words are hashed")
    steps: int = Field(default=4, ge=1, le=255, description="steps that weights are rounded up to")
    stop_words: tuple[str, ...] = Field(
        default=("english", "russian"),
        description="leave out the stop words of these languages",
    )

    @field_validator("stop_words")
    @classmethod
    def _known(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(languages) - stop_word_languages())
        if unknown:
            known = ", ".join(sorted(stop_word_languages()))
            raise ValueError(f"no stop words for {unknown[0]!r}; there are {known}")
        return languages


class PageVector(OneString[PageVectorParameters]):
    """Pages with the same feature words of about the same weight."""

    name: ClassVar[str] = "page_vector"
    summary: ClassVar[str] = "Hash of the most frequent words without stop words, weights in steps."
    advice: ClassVar[str] = (
        "Take it for long pages on one topic that are copied with small changes anywhere. "
        "Words of about equal count change places easily, so it misses copies of short pages."
    )
    defaults: ClassVar[type[Parameters]] = PageVectorParameters

    def string(self, page: PageText) -> str:
        """Return `word:step` by descending step, then alphabet; empty with too few words."""
        dropped = tuple(sorted({*page.canonical.stop_words, *self.parameters.stop_words}))
        options = page.canonical.model_copy(update={"stop_words": dropped})
        counts = Counter(canonical_words(page.text, options))
        if len(counts) < self.parameters.words:
            return ""
        features = sorted(counts, key=lambda word: (-counts[word], word))[: self.parameters.words]
        most = counts[features[0]]
        steps = {word: -(-self.parameters.steps * counts[word] // most) for word in features}
        return " ".join(
            f"{word}:{steps[word]}" for word in sorted(features, key=lambda w: (-steps[w], w))
        )
