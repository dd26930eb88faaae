"""Short texts in pairs: a text of 5 to 50 words, and the same or another one with some changed.

The sentences are invented of a language's common words and of made-up words of a topic. Near
misses are what makes short texts hard, so these come in two kinds: another text of the same topic
and length, and the same text with half of its words replaced. A pair is a function of language,
seed and number.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from streamer.lab.sample.prose import CHINESE, ENGLISH, RUSSIAN, draw_topic, draw_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamer.lab.sample.prose import Language


LANGUAGES = (ENGLISH, RUSSIAN, CHINESE)
WORDS_MIN, WORDS_MAX = 5, 50
HALF_MIN = 3  # words replaced at least where half of them are


class Change(StrEnum):
    """What the second text of a pair is."""

    ONE_WORD = "one_word"  # one word replaced, put in, or taken out
    TWO_WORDS = "two_words"  # two
    HALF = "half"  # half of the words replaced
    OTHER = "other"  # another text of the same topic and length


NEAR = frozenset({Change.ONE_WORD, Change.TWO_WORDS})
EDITED = {Change.ONE_WORD: 1, Change.TWO_WORDS: 2}


class ShortPair(NamedTuple):
    """Two texts, how the second came from the first, and how many words the first has."""

    one: str
    other: str
    change: Change
    words: int


def short_pairs(language: Language, count: int, seed: int = 0) -> Iterator[ShortPair]:
    """Yield `count` pairs of each change."""
    for number in range(count):
        for change in Change:
            rng = Random(f"{seed}/{language.code}/{change}/{number}")  # noqa: S311 - repeatable pairs, no secret
            length = WORDS_MIN + int(rng.random() * (WORDS_MAX - WORDS_MIN + 1))
            topic = draw_topic(rng, language)
            words = draw_words(rng, language, topic, length)
            other = _changed(rng, words, change, language, topic)
            yield ShortPair(_written(words, language), _written(other, language), change, length)


def _changed(
    rng: Random, words: list[str], change: Change, language: Language, topic: tuple[str, ...]
) -> list[str]:
    fresh = iter(draw_words(rng, language, topic, len(words)))
    if change is Change.OTHER:
        return list(fresh)
    result = list(words)
    if change is Change.HALF:
        for place in rng.sample(range(len(words)), max(HALF_MIN, len(words) // 2)):
            result[place] = _another(rng, next(fresh), words[place], topic)
        return result
    # From the end on, so that a word put in or taken out moves no place that is still to come.
    for place in sorted(rng.sample(range(len(words)), EDITED[change]), reverse=True):
        word = _another(rng, next(fresh), words[place], topic)
        new: list[list[str]] = [[word], [word, words[place]], []]
        result[place : place + 1] = new[int(rng.random() * len(new))]
    return result


def _another(rng: Random, word: str, old: str, topic: tuple[str, ...]) -> str:
    """Return a word, or one of the topic where it is the old one."""
    while word == old:
        word = topic[int(rng.random() * len(topic))]
    return word


def _written(words: list[str], language: Language) -> str:
    text = language.joiner.join(words)
    return text[:1].upper() + text[1:] + language.stop
