"""How common a word is: the one figure behind IDF, lexicons and keywords.

A collection of pages tells it (collection.py). Without one, `ByLength` estimates it: the longer a
word, the rarer (Zipf's law of abbreviation). That is coarse, but it needs no data, fits any
language with an alphabet and is the same everywhere, whereas a table counted from one corpus would
take the words of all other languages as equally rare.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from streamer.text.canonical import UNSPACED, class_of

LETTERS_MAX = 17  # one page in 65,536
UNSPACED_LETTERS = 4  # a Han or Kana character stands for a syllable or a word
_REMEMBERED = 1 << 16


class WordFrequencies(Protocol):
    """Knows of each word, in canonical form, on what share of all pages it stands."""

    def share(self, word: str) -> float:
        """Return the share of pages that have the word, above 0 and at most 1."""


class ByLength:
    """Takes a word of n letters to stand on one page in 2**(n - 1), 17 letters at most."""

    def share(self, word: str) -> float:
        """Return the share of pages that have a word, by its number of letters."""
        return _share_by_length(word)


@lru_cache(_REMEMBERED)
def _share_by_length(word: str) -> float:
    letters = sum(
        UNSPACED_LETTERS if class_of(character) == UNSPACED else 1
        for character in word
        if unicodedata.category(character)[0] != "M"  # canonical words are decomposed
    )
    return 0.5 ** (min(max(letters, 1), LETTERS_MAX) - 1)


def idf(word: str, frequencies: WordFrequencies) -> float:
    """Return the inverse document frequency of a word: -ln of its share of pages."""
    return -math.log(frequencies.share(word)) or 0.0  # no -0.0 for a word on all pages


def rarest_first(words: Sequence[str], frequencies: WordFrequencies) -> list[str]:
    """Return the distinct words by descending IDF, equal ones by alphabet."""
    return sorted(set(words), key=lambda word: (frequencies.share(word), word))
