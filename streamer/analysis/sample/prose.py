"""Random text with the shape of an article: a title and paragraphs of words.

Common words are drawn by rank (Zipf), and between them stand words of the document's own topic,
made of syllables; so tokens repeat from page to page, and sequences of five hardly ever do. All
weights are whole numbers and all draws come from one `random.Random`: the same seed gives the same
text on every machine.

A language's `common` words are real and in order of use, so that a draw by rank gives text with the
skew of natural text. `syllables` make the topic words, which keep unrelated pages apart. `labels`
are those of a site's navigation, `furniture` what it says on each of its pages. `charset` is what
sites in this language used before UTF-8. Change a word of languages.toml and every crawl changes:
the digest in the tests must then change too.

Edits replace, insert, delete a share of the words, or move paragraphs. The places are a sample
without replacement, so an edit of share p touches exactly round(p * words) words. With w-token
shingles an edited word spoils up to w of them: for single words replaced at random, the expected
resemblance is q / (2 - q), q = (1 - p)^w. The truth file has the exact value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import accumulate
from random import Random

import msgspec

Edit = Callable[[Random, "Article", float], "Article"]


class Language(msgspec.Struct, frozen=True):
    """One language of languages.toml: its words, and how they are joined into sentences."""

    code: str
    charset: str
    joiner: str
    comma: str
    stop: str
    common: tuple[str, ...]
    syllables: tuple[str, ...]
    labels: tuple[str, ...]
    furniture: tuple[str, ...]


_FILE = files("streamer.analysis.sample").joinpath("languages.toml").read_bytes()
LANGUAGES = msgspec.toml.decode(_FILE, type=dict[str, tuple[Language, ...]])["languages"]

TOPIC_WORDS = 48
TOPIC_TENTHS = 4  # of ten words, this many belong to the topic
ZIPF_SCALE = 1_000_000

Paragraph = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """The sentences of a page: words with their punctuation, `language.joiner` between them."""

    language: Language
    title: str
    topic: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]


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


def _edit(
    rng: Random, article: Article, share: float, put: Callable[[str, str], Sequence[str]]
) -> Article:
    """Put what `put` returns of a new word and the old one in the place of `share` of the words."""
    everywhere = [(p, w) for p, words in enumerate(article.paragraphs) for w in range(len(words))]
    chosen = {*rng.sample(everywhere, round(share * len(everywhere)))}
    fresh = iter(draw_words(rng, article.language, article.topic, len(chosen)))
    paragraphs = []
    for p, words in enumerate(article.paragraphs):
        edited: list[str] = []
        for w, word in enumerate(words):
            edited += put(next(fresh), word) if (p, w) in chosen else (word,)
        paragraphs.append(tuple(edited))
    return replace(article, paragraphs=tuple(paragraphs))


replace_words: Edit = partial(_edit, put=lambda new, _old: (new,))
insert_words: Edit = partial(_edit, put=lambda new, old: (new, old))  # the new one before it
delete_words: Edit = partial(_edit, put=lambda _new, _old: ())


def move_paragraphs(rng: Random, article: Article, share: float) -> Article:
    """Take `share` of the paragraphs, at least one, out and put each back at a random place."""
    stay = list(article.paragraphs)
    count = max(1, round(share * len(stay)))
    moved = [stay.pop(int(rng.random() * len(stay))) for _ in range(count)]
    for paragraph in moved:
        stay.insert(int(rng.random() * (len(stay) + 1)), paragraph)
    return replace(article, paragraphs=tuple(stay))
