"""Random text with the shape of an article: a title and paragraphs of words.

Common words are drawn by rank (Zipf), and between them stand words of the document's own topic,
made of syllables; so tokens repeat from page to page, and sequences of five hardly ever do. All
weights are whole numbers and all draws come from one `random.Random`: the same seed gives the same
text on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from streamer.sample.words import Language

TOPIC_WORDS = 48
TOPIC_TENTHS = 4  # of ten words, this many belong to the topic
ZIPF_SCALE = 1_000_000

Paragraph = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """What a page tells: words with their punctuation, `language.joiner` between them."""

    language: Language
    title: str
    topic: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]

    def words(self) -> int:
        """Return the number of words in the paragraphs."""
        return sum(map(len, self.paragraphs))


@cache
def _zipf(count: int) -> tuple[int, ...]:
    """Return cumulative weights by rank; whole numbers, so that no machine rounds differently."""
    return tuple(accumulate(ZIPF_SCALE // (rank + 2) for rank in range(count)))


def draw_words(rng: Random, language: Language, topic: tuple[str, ...], count: int) -> list[str]:
    """Draw `count` words without punctuation."""
    common = language.common
    words = rng.choices(common, cum_weights=_zipf(len(common)), k=count)
    for place in range(count):
        if rng.random() * 10 < TOPIC_TENTHS:
            words[place] = topic[int(rng.random() * len(topic))]
    return words


def draw_topic(rng: Random, language: Language) -> tuple[str, ...]:
    """Make the topic words of one document: two to four syllables each."""
    return tuple(
        "".join(rng.choices(language.syllables, k=2 + int(rng.random() * 3)))
        for _ in range(TOPIC_WORDS)
    )


def _paragraph(rng: Random, language: Language, topic: tuple[str, ...], count: int) -> Paragraph:
    """Draw a paragraph of `count` words in sentences of 6 to 21 words."""
    words = draw_words(rng, language, topic, count)
    start = 0
    while start < count:
        end = min(count, start + 6 + int(rng.random() * 16))
        words[start] = words[start][:1].upper() + words[start][1:]
        middle = (start + end) // 2
        if middle > start:
            words[middle] += language.comma
        words[end - 1] = words[end - 1].removesuffix(language.comma) + language.stop
        start = end
    return tuple(words)


def write_article(rng: Random, language: Language, words: int) -> Article:
    """Write an article of about `words` words in paragraphs of 30 to 109 words."""
    topic = draw_topic(rng, language)
    title = language.joiner.join(draw_words(rng, language, topic, 6))
    paragraphs = []
    while words > 0:
        count = min(words, 30 + int(rng.random() * 80))
        paragraphs.append(_paragraph(rng, language, topic, count))
        words -= count
    return Article(language, title[:1].upper() + title[1:], topic, tuple(paragraphs))
