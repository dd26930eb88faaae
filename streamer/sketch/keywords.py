"""The keywords of a page: the words of greatest TF*IDF.

TF is the share of the page's words, so that weights of pages of different length compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from streamer.sketch.frequencies import WordFrequencies, idf


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
