"""Random lexicons: several random parts of the dictionary, one of which bears a change.

Beside the whole dictionary there are k parts, each without a random third of the words. A change of
one word spares all parts that lack it, (1 - 1/3)**k of the changes hit every part. Pages are
duplicates if any of the k + 1 strings is equal (Kolcz, Chowdhury and Alspector 2004, Improved
robustness of signature-based near-replica detection via lexicon randomization). Which words a part
lacks depends on the secret.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from streamer.sketch.digest import seed_of
from streamer.sketch.hash_functions import hash64
from streamer.sketch.method import PageText, Parameters
from streamer.sketch.methods.lexicon import LexiconParameters, lexicon_words
from streamer.sketch.strings import SeveralStrings


class RandomLexiconParameters(LexiconParameters):
    """The parameters of `random_lexicon`."""

    parts: int = Field(
        default=10, ge=1, le=31, description="random parts of the dictionary, beside the whole one"
    )
    dropped: float = Field(
        default=1 / 3, gt=0, lt=1, description="share of the words that each part lacks"
    )


class RandomLexicon(SeveralStrings[RandomLexiconParameters]):
    """Pages with the same words of the dictionary or of one of its parts."""

    name: ClassVar[str] = "random_lexicon"
    summary: ClassVar[str] = "The lexicon method over 10 random parts of the dictionary; one match."
    advice: ClassVar[str] = (
        "Take it in place of lexicon where copies differ in a few words. "
        "Each part is one more key a page, and one more chance for pages with few words to collide."
    )
    defaults: ClassVar[type[Parameters]] = RandomLexiconParameters
    fixed_threshold: ClassVar[float] = 0.01  # below 1 of 32: any equal slot

    def __init__(self, parameters: RandomLexiconParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._part_seeds = [
            seed_of(secret, f"{self.name} part {part}") for part in range(parameters.parts)
        ]
        self._dropped_below = int(parameters.dropped * 2**64)

    @property
    def bands(self) -> int:
        """Return the number of dictionaries: the whole one and its parts."""
        return 1 + self.parameters.parts

    def strings(self, page: PageText) -> list[str]:
        """Return the words of a page by each dictionary, joined; empty where they are too few."""
        words = lexicon_words(page, self.parameters)
        kept = [words, *([w for w in words if self._has(s, w)] for s in self._part_seeds)]
        return [" ".join(one) if len(one) >= self.parameters.min_words else "" for one in kept]

    def _has(self, seed: int, word: str) -> bool:
        """Tell whether the part of the dictionary with this seed has a word of it."""
        return hash64(word.encode(), seed) >= self._dropped_below
