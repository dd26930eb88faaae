"""What is known of single words: stop words, stems, dictionary forms, parts of speech.

Everything here comes from a library, apart from one list: the Russian stop words are those of the
published shingle example whose checksums the tests hold. A library is imported when its first
option is on, for a dictionary takes a third of a second to read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

RUSSIAN_STOP_WORDS = (
    "это как так и в над к до не на но за то с ли а во от со для о же ну вы бы что кто он она"  # noqa: RUF001 - Russian
)
ADJECTIVES = frozenset({"ADJF", "ADJS", "COMP"})  # OpenCorpora: full, short, comparative


@lru_cache(1)
def stop_word_languages() -> frozenset[str]:
    """Return the languages, by their English names, that have a list of stop words."""
    from stop_words import AVAILABLE_LANGUAGES, LANGUAGE_MAPPING  # noqa: PLC0415 - read when used

    return frozenset(LANGUAGE_MAPPING.values()) & frozenset(AVAILABLE_LANGUAGES) | {"russian"}


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language of `stop_word_languages`."""
    if language == "russian":
        return frozenset(RUSSIAN_STOP_WORDS.split())
    from stop_words import get_stop_words  # noqa: PLC0415 - read when used

    return frozenset(get_stop_words(language))


@lru_cache(1)
def stem_languages() -> frozenset[str]:
    """Return the languages, by their English names, that have a Snowball stemmer."""
    import snowballstemmer  # noqa: PLC0415 - read when used

    return frozenset(snowballstemmer.algorithms())


def stemmer(language: str) -> Callable[[str], str]:
    """Return the Snowball stemmer of a language: a composed, lower-case word to its stem."""
    import snowballstemmer  # noqa: PLC0415 - read when used

    stem: Callable[[str], str] = snowballstemmer.stemmer(language).stemWord
    return stem


def dictionary_form(word: str) -> str:
    """Return a Russian word's dictionary form: of nouns the nominative singular."""
    return str(_likeliest(word).normal_form)


def is_adjective(word: str) -> bool:
    """Tell whether a Russian word is most likely an adjective."""
    return _likeliest(word).tag.POS in ADJECTIVES


def _likeliest(word: str) -> Any:  # noqa: ANN401 - pymorphy3 is untyped
    """Return the likeliest reading of a word; words out of the dictionary are guessed by ending."""
    return _analyzer().parse(word)[0]


@lru_cache(1)
def _analyzer() -> Any:  # noqa: ANN401 - pymorphy3 is untyped
    import pymorphy3  # noqa: PLC0415 - read when used

    return pymorphy3.MorphAnalyzer(lang="ru")
