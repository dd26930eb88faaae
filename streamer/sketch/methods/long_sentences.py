"""Long sentences: the two longest of a page stand for it.

What changes from copy to copy (dates, counters, links, headings) is short; the longest sentences
are the author's. They are put in order of the alphabet, so that it does not matter which comes
first.

After Zelenkov and Segalovich 2007, who hash the two longest sentences. Ours are where a sentence
ends (text/sentences.py), length in words, the least length, and the order.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from streamer.sketch.method import PageText, Parameters
from streamer.sketch.strings import OneString, StringParameters
from streamer.text.sentences import sentences
from streamer.text.words import canonical_words


class LongSentencesParameters(StringParameters):
    """The parameters of `long_sentences`."""

    sentences: int = Field(default=2, ge=1, le=100, description="how many sentences are hashed")
    min_words: int = Field(
        default=5, ge=1, description="sentences with fewer distinct words do not count"
    )


class LongSentences(OneString[LongSentencesParameters]):
    """Pages whose longest sentences are the same."""

    name: ClassVar[str] = "long_sentences"
    summary: ClassVar[str] = "Hash of the two longest sentences."
    advice: ClassVar[str] = (
        "Take it for articles inside changing page furniture. "
        "Sites that repeat two long legal sentences make their pages duplicates of each other."
    )
    defaults: ClassVar[type[Parameters]] = LongSentencesParameters

    def string(self, page: PageText) -> str:
        """Return the distinct sentences of most words by alphabet, one a line."""
        parts = (canonical_words(one, page.canonical) for one in sentences(page.text))
        enough = {tuple(p) for p in parts if len(set(p)) >= self.parameters.min_words}
        longest = sorted(enough, key=lambda words: (-len(words), words))
        return "\n".join(sorted(map(" ".join, longest[: self.parameters.sentences])))
