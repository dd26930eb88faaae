"""Short texts: which share of pairs each candidate for them finds, and what the preset promises.

Pairs are in English, Russian and Chinese, from a fixed seed. A test holds the preset to FOUND_MIN
and FALSE_MAX.

A pair is a text of 5 to 50 words, and the same or another one with some changed. The sentences are
invented of a language's common words and of made-up words of a topic. Near misses are what makes
short texts hard, so these come in two kinds: another text of the same topic and length, and the
same text with half of its words replaced. A pair is a function of language, seed and number.

A pair is found as in a stream of the two: they share a key and their sketches reach the threshold,
or their content is equal. What a stream adds are full buckets; for two texts there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import numpy as np

from benchmarks.figures import empty_table
from streamer.analysis.sample.prose import CHINESE, ENGLISH, RUSSIAN, draw_topic, draw_words
from streamer.analysis.trial import Selected, select
from streamer.sketch.method import sketch_similarity
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SECRET_BYTES

if TYPE_CHECKING:
    from rich.table import Table

    from streamer.analysis.sample.prose import Language
    from streamer.index.settings import IndexSettings
    from streamer.sketch.settings import SignatureSettings

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
            rng = Random(f"{seed}/{language.code}/{change}/{number}")
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


Class = TypeVar("Class", bound=Hashable)


def found_shares(
    pairs: Iterable[tuple[str, str, Class]],
    signature: SignatureSettings,
    index: IndexSettings,
    secret: bytes,
) -> Mapping[Class, float]:
    """Return the share of pairs that are found, 0 to 1, by their class."""
    texts, classes = [], []
    for one, other, of in pairs:
        texts += [one.encode(), other.encode()]
        classes.append(of)
    signed = make_signer(signature, secret).sign(texts, [0] * len(texts))
    equal = signed.keys[::2] == signed.keys[1::2]
    long_enough = signed.distinct.reshape(-1, 2).min(axis=1) >= index.shingles_min
    found: Counter[Class] = Counter()
    for i, of in enumerate(classes):
        if equal[i, -1]:
            found[of] += 1
        elif long_enough[i] and equal[i, :-1].any():
            pair = np.ascontiguousarray(signed.sketches[2 * i : 2 * i + 2])
            similarity = int(sketch_similarity(int(index.measure), pair[0], pair[1]))
            found[of] += similarity >= index.similarity_min
    return {of: found[of] / count for of, count in Counter(classes).items()}


PRESET = "short-texts"
PAIRS = 300  # a change and language
SEED = 1
FOUND_MIN = {Change.ONE_WORD: 0.98, Change.TWO_WORDS: 0.93}
FALSE_MAX = {Change.HALF: 0.02, Change.OTHER: 0.002}
NAMES = ("minhash", "simhash", "banding:shingle_width=2:rows=2:bands=24", "one_permutation")
# Sets of 4 characters or of one or two words, each at several thresholds.
SWEPT = tuple(
    (f"bottom_k:{shingle}:bands=24:rows=2", threshold)
    for shingle, thresholds in (
        ("unit=characters:shingle_width=3", (0.5, 0.6)),
        ("unit=characters:shingle_width=4", (0.4, 0.5, 0.6)),
        ("unit=characters:shingle_width=5", (0.4, 0.5)),
        ("shingle_width=1", (0.5, 0.6)),
        ("shingle_width=2", (0.3, 0.35, 0.45)),
    )
    for threshold in thresholds
)
TEXT = f"""\
{PAIRS:,} pairs of each sort in English, Russian and Chinese, of 5 to 50 words: invented sentences
of a language's common words and the made-up words of a topic. "One word" and "two words" is a text
with so many words replaced, put in or taken out: these are to be found. "Half" has half of the
words replaced, three at least, and "other" is another text of the same topic and length: finding
these is an error. A pair is found if the two share a key and reach the threshold. Pages of 3
distinct words are compared here, in place of the usual 5.
"""


class Tried(msgspec.Struct, frozen=True):
    """A method at a threshold, with the share of pairs that it finds, by change and language."""

    name: str
    threshold: float
    found: dict[str, dict[str, float]]

    def share(self, change: Change) -> float:
        """Return the mean over the languages."""
        values = [by_change[change] for by_change in self.found.values()]
        return sum(values) / len(values)


def measure(pairs: int = PAIRS, names: Sequence[str] = NAMES) -> list[Tried]:
    """Try the preset first, then `names` at their thresholds, then what is swept."""
    (preset,) = select([PRESET])
    tried = [preset, *(_short(one) for one in select(names))]
    tried += [_short(one, threshold) for name, threshold in SWEPT for one in select([name])]
    return [_try(one, pairs) for one in tried]


def measure_preset(pairs: int = PAIRS, seed: int = SEED) -> Tried:
    """Try the preset alone."""
    (preset,) = select([PRESET])
    return _try(preset, pairs, seed)


def _short(one: Selected, threshold: float | None = None) -> Selected:
    """Return a method for texts as short as the preset's, at a threshold."""
    (preset,) = select([PRESET])
    changes = {"shingles_min": preset.rules.shingles_min}
    rules = one.rules.model_copy(
        update=changes if threshold is None else {**changes, "threshold": threshold}
    )
    return one._replace(rules=rules)


def _try(one: Selected, pairs: int, seed: int = SEED) -> Tried:
    found = {}
    for language in LANGUAGES:
        classed = ((p.one, p.other, p.change.value) for p in short_pairs(language, pairs, seed))
        shares = found_shares(classed, one.signature, one.rules, bytes(SECRET_BYTES))
        found[language.code] = dict(shares)
    return Tried(one.name, one.rules.threshold, found)


def table(tried: Sequence[Tried]) -> Table:
    """Return what was tried, in percent; the preset first."""
    by_language = [f"{language.code}: two words" for language in LANGUAGES]
    columns = ("one word", "two words", "half", "other", *by_language)
    result = empty_table("", "method", "threshold", *(f"{name}, %" for name in columns))
    for one in tried:
        shares = [one.share(change) for change in Change]
        shares += [one.found[language.code][Change.TWO_WORDS] for language in LANGUAGES]
        cells = (f"{100 * share:.1f}" for share in shares)
        result.add_row(one.name.replace(":", " "), f"{one.threshold:.4g}", *cells)
    return result


def promise(tried: Sequence[Tried]) -> str:
    """Return what the preset is held to by a test, and what else finds more at no more errors."""
    preset = tried[0]
    found = ", ".join(f"{100 * FOUND_MIN[c]:g} % of {_name(c)}" for c in FOUND_MIN)
    false = ", ".join(f"{100 * FALSE_MAX[c]:g} % of {_name(c)}" for c in FALSE_MAX)
    better = ", ".join(f"`{one.name}` at {one.threshold:g}" for one in _ahead(preset, tried[1:]))
    return (
        f"A test holds `{PRESET}` to at least {found}, and to at most {false}."
        f" {better or 'Nothing in the table'} finds more at no more errors."
    )


def _ahead(preset: Tried, others: Sequence[Tried]) -> Iterator[Tried]:
    for one in others:
        finds = sum(one.share(c) - preset.share(c) for c in NEAR) > 0
        if finds and all(one.share(c) <= preset.share(c) for c in FALSE_MAX):
            yield one


def _name(change: Change) -> str:
    return f'"{change.value.replace("_", " ")}"'
