"""Methods that look at sentences, segments and the most frequent words of a page."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from streamer.sketch.method import PageText
from streamer.sketch.methods.hashes import share_of
from streamer.sketch.methods.lexical import OneString, SeveralStrings, StringParameters
from streamer.text.words import StopWordLanguages, canonical_words, sentences, words_of_part


class LongSentencesParameters(StringParameters):
    """The parameters of `long_sentences`.

    Attributes:
        sentences: number of sentences in the hash.
        min_words: sentences with fewer distinct words do not count.
    """

    sentences: int = Field(default=2, ge=1, le=100)
    min_words: int = Field(default=5, ge=1)


class LongSentences(OneString[LongSentencesParameters], name="long_sentences"):
    """Hash of the two longest sentences.

    Use it for articles in changing page templates. Pages of a site that repeats two long legal
    sentences become duplicates of each other.

    Pages whose longest sentences are the same.

    What changes from copy to copy (dates, counters, links, headings) is short; the longest
    sentences are the author's. After Zelenkov and Segalovich 2007, who hash the two longest. Ours
    are where a sentence ends (text/words.py), length in words, the least length, and the order: by
    alphabet, so that it does not matter which comes first.
    """

    def string(self, page: PageText) -> str:
        """Return the distinct sentences of most words by alphabet, one a line."""
        parts = (words_of_part(one, page.canonical) for one in sentences(page.text))
        enough = {tuple(p) for p in parts if len(set(p)) >= self.parameters.min_words}
        longest = sorted(enough, key=lambda words: (-len(words), words))
        return "\n".join(sorted(map(" ".join, longest[: self.parameters.sentences])))


class CutRule(StrEnum):
    """Where a page is cut."""

    WORDS = "words"
    SENTENCES = "sentences"


class SegmentsParameters(StringParameters):
    """The parameters of `segments`.

    Attributes:
        segments: n: pieces per page.
        equal: m: equal pieces that make a duplicate.
        rule: cut into equal numbers of words, or of sentences.
        min_words: pieces with fewer words have no key.
    """

    segments: int = Field(default=10, ge=2, le=32)
    equal: int = Field(default=5, ge=1)
    rule: CutRule = CutRule.WORDS
    min_words: int = Field(default=5, ge=1)

    @model_validator(mode="after")
    def _check_equal(self) -> Self:
        if self.equal > self.segments:
            raise ValueError("equal is above segments, the number of pieces; give at most that")
        return self


def cut(parts: Sequence[str], pieces: int) -> list[list[str]]:
    """Return `parts` in that many pieces in order, whose lengths differ by one at most."""
    borders = [len(parts) * (i + 1) // pieces for i in range(pieces)]
    return [list(parts[start:end]) for start, end in pairwise([0, *borders])]


class Segments(SeveralStrings[SegmentsParameters], name="segments"):
    """Hashes of 10 pieces of the page; duplicates if half are equal.

    Use it when copies differ in one place, such as the header or the end. Added or removed words
    shift the borders of all later pieces, less so with the rule sentences.

    Pages of which at least m of n pieces are equal.

    A change costs the pieces that it touches, and those after it as far as it moves their borders:
    pieces of whole sentences move less than pieces of equal numbers of words.
    """

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
        if self.parameters.rule is CutRule.WORDS:
            parts, most = page.words, len(page.words) // least
        else:
            parts = self._sentences(page)
            most = len(parts)
        pieces = map(" ".join, cut(parts, min(self.parameters.segments, most)))
        return [piece if piece.count(" ") + 1 >= least else "" for piece in pieces]

    def _sentences(self, page: PageText) -> list[str]:
        """Return the sentences that have words, in canonical form."""
        said = (" ".join(words_of_part(one, page.canonical)) for one in sentences(page.text))
        return [sentence for sentence in said if sentence]


class PageVectorParameters(StringParameters):
    """The parameters of `page_vector`.

    Attributes:
        words: number of feature words in the hash.
        steps: steps to which weights are rounded up.
        stop_words: leave out the stop words of these languages.
    """

    words: int = Field(default=10, ge=1, le=1000)
    steps: int = Field(default=4, ge=1, le=255)
    stop_words: StopWordLanguages = ("english", "russian")


class PageVector(OneString[PageVectorParameters], name="page_vector"):
    """Hash of the most frequent words except stop words, weights in steps.

    Use it for long pages on one topic that are copied with small changes anywhere. Words of similar
    counts swap places easily, so it misses copies of short pages.

    Pages with the same feature words of about the same weight.

    Weights are the words' counts over the greatest count, rounded up to whole steps. One more or
    less of a frequent word seldom changes a step, and so seldom the digest.
    """

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
        ordered = sorted(features, key=lambda word: (-steps[word], word))
        return " ".join(f"{word}:{steps[word]}" for word in ordered)
