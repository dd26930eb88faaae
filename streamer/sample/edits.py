"""Edits of known strength: a share of the words replaced, inserted, deleted; paragraphs moved.

The places are a sample without replacement, so an edit of share p touches exactly round(p * words)
words. With w-token shingles an edited word spoils up to w of them: for single words replaced at
random, the expected resemblance is q / (2 - q), q = (1 - p)^w. The truth file has the exact value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamer.sample.prose import Article, draw_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Edit = Callable[[Random, Article, float], Article]


def _places(rng: Random, article: Article, share: float) -> set[tuple[int, int]]:
    """Choose (paragraph, word) places to edit."""
    everywhere = [(p, w) for p, words in enumerate(article.paragraphs) for w in range(len(words))]
    return set(rng.sample(everywhere, round(share * len(everywhere))))


def replace_words(rng: Random, article: Article, share: float) -> Article:
    """Put another word in the place of `share` of the words."""
    chosen = _places(rng, article, share)
    fresh = iter(draw_words(rng, article.language, article.topic, len(chosen)))
    paragraphs = tuple(
        tuple(next(fresh) if (p, w) in chosen else word for w, word in enumerate(words))
        for p, words in enumerate(article.paragraphs)
    )
    return replace(article, paragraphs=paragraphs)


def insert_words(rng: Random, article: Article, share: float) -> Article:
    """Put a new word before `share` of the words."""
    chosen = _places(rng, article, share)
    fresh = iter(draw_words(rng, article.language, article.topic, len(chosen)))
    paragraphs = []
    for p, words in enumerate(article.paragraphs):
        longer: list[str] = []
        for w, word in enumerate(words):
            if (p, w) in chosen:
                longer.append(next(fresh))
            longer.append(word)
        paragraphs.append(tuple(longer))
    return replace(article, paragraphs=tuple(paragraphs))


def delete_words(rng: Random, article: Article, share: float) -> Article:
    """Take `share` of the words away."""
    chosen = _places(rng, article, share)
    paragraphs = tuple(
        tuple(word for w, word in enumerate(words) if (p, w) not in chosen)
        for p, words in enumerate(article.paragraphs)
    )
    return replace(article, paragraphs=paragraphs)


def move_paragraphs(rng: Random, article: Article, share: float) -> Article:
    """Take `share` of the paragraphs, at least one, out and put each back at a random place."""
    stay = list(article.paragraphs)
    count = max(1, round(share * len(stay)))
    moved = [stay.pop(int(rng.random() * len(stay))) for _ in range(count)]
    for paragraph in moved:
        stay.insert(int(rng.random() * (len(stay) + 1)), paragraph)
    return replace(article, paragraphs=tuple(stay))
