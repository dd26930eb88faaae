"""A text's words in canonical form: which differences between two texts do not count.

Each step is an option. The defaults give `tokens.tokens(text)`, the words that the detector's
kernel hashes. Words keep their places in the text, so that what two texts share can be shown in
both. A word is split off first and only then left out, stemmed or replaced: no step moves a place.

Text is split at white space into chunks, across which no rule looks, and the words of a short chunk
are remembered: most chunks of a language come again and again.

What is known of single words comes from libraries, apart from one list: the Russian stop words are
those of the published shingle example whose checksums the tests hold. A library is imported when
its first option is on, for a dictionary takes a third of a second to read.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from streamer.errors import needs_extra
from streamer.text import canonical
from streamer.text.canonical import MARK, SEPARATOR, UNSPACED, WORD
from streamer.text.tokens import FEW_WORDS, in_canonical_order, signs_prevail, tokens
from streamer.text.visible import HTML, MAIN

RUSSIAN_STOP_WORDS = (
    "это как так и в над к до не на но за то с ли а во от со для о же ну вы бы что кто он она"  # noqa: RUF001 - Russian
)
ADJECTIVES = frozenset({"ADJF", "ADJS", "COMP"})  # OpenCorpora: full, short, comparative


@lru_cache(1)
def stop_word_languages() -> frozenset[str]:
    """Return the languages, by their English names, that have a list of stop words."""
    with needs_extra("analysis", "stop_words"):
        from stop_words import AVAILABLE_LANGUAGES, LANGUAGE_MAPPING  # noqa: PLC0415 - an extra

    return frozenset(LANGUAGE_MAPPING.values()) & frozenset(AVAILABLE_LANGUAGES) | {"russian"}


def languages_with_stop_words(languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return languages that all have a list of stop words.

    Raises:
        ValueError: one has none; the message lists those that have.
    """
    for language in languages:
        if language not in stop_word_languages():
            known = ", ".join(sorted(stop_word_languages()))
            raise ValueError(f"no stop words for {language!r}; there are {known}")
    return languages


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language of `stop_word_languages`."""
    if language == "russian":
        return frozenset(RUSSIAN_STOP_WORDS.split())
    with needs_extra("analysis", "stop_words"):
        from stop_words import get_stop_words  # noqa: PLC0415 - an extra

    return frozenset(get_stop_words(language))


@lru_cache(1)
def stem_languages() -> frozenset[str]:
    """Return the languages, by their English names, that have a Snowball stemmer."""
    with needs_extra("analysis", "stem"):
        import snowballstemmer  # noqa: PLC0415 - an extra

    return frozenset(snowballstemmer.algorithms())


def _language_with_stemmer(language: str) -> str:
    if language not in stem_languages():
        known = ", ".join(sorted(stem_languages()))
        raise ValueError(f"no stemmer for {language!r}; there are {known}")
    return language


def _single_words(groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    for word in itertools.chain.from_iterable(groups):
        if len(tokens(word)) != 1:
            raise ValueError(f"a synonym is a single word, not {word!r}; take it out")
    return groups


def _likeliest(word: str) -> Any:  # noqa: ANN401 - pymorphy3 is untyped
    """Return the likeliest reading of a word; words out of the dictionary are guessed by ending."""
    return _analyzer().parse(_compose(word))[0]


@lru_cache(1)
def _analyzer() -> Any:  # noqa: ANN401 - pymorphy3 is untyped
    with needs_extra("analysis", "Russian dictionary forms"):
        import pymorphy3  # noqa: PLC0415 - an extra

    return pymorphy3.MorphAnalyzer(lang="ru")


CHARACTERS_REMEMBERED = 1 << 16


class Word(NamedTuple):
    """A word in canonical form, and where it is: text[start:end], in characters."""

    text: str
    start: int
    end: int


class Splitting(NamedTuple):
    """How words are split off and written: as in CanonicalOptions, and whether signs are words."""

    compatibility: bool
    fold_case: bool
    keep_punctuation: bool
    split_unspaced: bool
    signs: bool


def split_chunk(chunk: str, splitting: Splitting) -> tuple[Word, ...]:
    """Return the words of a chunk, with their places in it."""
    result: list[Word] = []
    current, first, last = "", 0, 0
    unspaced = False

    for place, character in enumerate(chunk):
        for piece, kind in _pieces(character, splitting):
            if current and kind != MARK and (kind != WORD or unspaced):
                result.append(Word(in_canonical_order(current), first, last))
                current = ""
            if kind in (WORD, UNSPACED) or (kind == MARK and current):
                first = first if current else place
                current, last = current + piece, place + 1
                unspaced = kind == UNSPACED or (kind == MARK and unspaced)
            elif splitting.keep_punctuation and canonical.category(piece)[0] in "PS":
                result.append(Word(piece, place, place + 1))
    if current:
        result.append(Word(in_canonical_order(current), first, last))
    return tuple(result)


@lru_cache(CHARACTERS_REMEMBERED)
def _pieces(character: str, splitting: Splitting) -> tuple[tuple[str, int], ...]:
    """Return what a character is written as, each piece with its class."""
    if canonical.is_ignorable(ord(character)):
        return ()
    kinds = [(piece, canonical.class_of(piece)) for piece in _read_written(character, splitting)]
    if splitting.signs:
        kinds = [(s, UNSPACED if k == SEPARATOR and canonical.is_sign(s) else k) for s, k in kinds]
    if splitting.split_unspaced:
        return tuple(kinds)
    return tuple((piece, WORD if kind == UNSPACED else kind) for piece, kind in kinds)


def _read_written(character: str, splitting: Splitting) -> str:
    """Return a character fully decomposed, folded as far as the options say."""
    if splitting.compatibility and splitting.fold_case:
        return canonical.fold(character)
    if not canonical.is_assigned(character):
        return character
    form: Literal["NFKD", "NFD"] = "NFKD" if splitting.compatibility else "NFD"
    result = unicodedata.normalize(form, character)
    if splitting.fold_case:
        result = unicodedata.normalize(form, result.casefold())
    return canonical.in_one_way("".join(c for c in result if not canonical.is_ignorable(ord(c))))


_STOP = r"[.!?\u2026\u061f\u0964]"
_CLOSING = r"[\"'\u00bb\u201d\u2019)\]]"
_FULL_WIDTH = r"[\u3002\uff01\uff1f]"
_END = re.compile(rf"(?<={_STOP})\s+|(?<={_STOP}{_CLOSING})\s+|(?<={_FULL_WIDTH})|[\r\n]+")


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, without white space about them.

    A sentence ends after full stops, question or exclamation marks that white space follows,
    after their full-width forms at once, and with a line. Abbreviations therefore end sentences
    too; what counts for a signature is that equal text is cut at equal places.
    """
    return [stripped for part in _END.split(text) if (stripped := part.strip())]


StopWordLanguages = Annotated[tuple[str, ...], AfterValidator(languages_with_stop_words)]
StemLanguage = Annotated[str, AfterValidator(_language_with_stemmer)]
Synonyms = Annotated[tuple[tuple[str, ...], ...], AfterValidator(_single_words)]
OPTIONS_REMEMBERED = 8
REMEMBERED = 1 << 16  # chunks, and words, of each set of options
CHUNK_CHARACTERS_MAX = 64  # longer chunks seldom come again
APOSTROPHES = "'\u2019"

_CHUNK = re.compile(r"\S+")


class CanonicalOptions(BaseModel):
    """The steps to canonical form, in the order in which they are taken.

    Attributes:
        keep_tags: Keep the markup of HTML as text.
        compatibility: Unify compatible characters (NFKC).
        fold_case: Fold upper and lower case.
        keep_punctuation: Keep each punctuation mark or symbol as a separate word.
        split_unspaced: Split Han, Kana and other unspaced scripts into characters.
        stop_words: Leave out the stop words of these languages.
        drop_adjectives: Leave out adjectives (Russian).
        lemmas: Reduce words to dictionary form, nouns to nominative singular (Russian).
        stem: Stem words by the Snowball rules of this language.
        synonyms: Groups of words; each word becomes the first of its group.
        text: Text of HTML: all visible text, or the main text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    keep_tags: bool = False
    compatibility: bool = True
    fold_case: bool = True
    keep_punctuation: bool = False
    split_unspaced: bool = True
    stop_words: StopWordLanguages = ()
    drop_adjectives: bool = False
    lemmas: bool = False
    stem: StemLanguage | None = None
    synonyms: Synonyms = ()

    text: Literal["visible", "main"] = "visible"

    def marks(self, flags: int) -> int:
        """Return as what a body with these flags is read: with its tags kept, it is text."""
        flags = flags & ~HTML if self.keep_tags else flags
        return flags | MAIN if self.text == "main" else flags

    @model_validator(mode="after")
    def _check_exclusions(self) -> CanonicalOptions:
        if self.keep_tags and self.text == "main":
            raise ValueError("the main text is found by the tags, which keep_tags takes as text")
        if self.lemmas and self.stem is not None:
            raise ValueError("words are stemmed or reduced to dictionary form; choose one")
        return self


DEFAULT_OPTIONS = CanonicalOptions()


def canonical_words(text: str, options: CanonicalOptions = DEFAULT_OPTIONS) -> list[str]:
    """Return the words of `text` in canonical form, in order; with signs where these prevail."""
    return [word.text for word in words_with_spans(text, options)]


def words_of_part(part: str, options: CanonicalOptions = DEFAULT_OPTIONS) -> list[str]:
    """Return the words of a part of a text in canonical form, in order."""
    words_of = _chunk_rule(options)
    return [word.text for chunk in _CHUNK.findall(part) for word in words_of(chunk)]


def words_with_spans(text: str, options: CanonicalOptions = DEFAULT_OPTIONS) -> list[Word]:
    """Return the words of `text` as `canonical_words` does, with their places in it."""
    words = _place(text, _chunk_rule(options))
    if len(words) >= FEW_WORDS or not signs_prevail(text):
        return words
    return _place(text, _chunk_rule(options, signs=True))


def _place(text: str, words_of: Callable[[str], tuple[Word, ...]]) -> list[Word]:
    return [
        Word(word, chunk.start() + start, chunk.start() + end)
        for chunk in _CHUNK.finditer(text)
        for word, start, end in words_of(chunk.group())
    ]


@lru_cache(OPTIONS_REMEMBERED)
def _chunk_rule(
    options: CanonicalOptions, *, signs: bool = False
) -> Callable[[str], tuple[Word, ...]]:
    """Return the function from a chunk to its words."""
    own = (options.compatibility, options.fold_case, options.keep_punctuation)
    splitting = Splitting(*own, options.split_unspaced, signs)
    change = _word_rule(options)

    def words_of(chunk: str) -> tuple[Word, ...]:
        words = split_chunk(chunk, splitting)
        if change is None:
            return words
        return tuple(word._replace(text=new) for word in words if (new := change(word.text)))

    remembered = lru_cache(REMEMBERED)(words_of)
    return lambda chunk: (remembered if len(chunk) <= CHUNK_CHARACTERS_MAX else words_of)(chunk)


def _word_rule(options: CanonicalOptions) -> Callable[[str], str] | None:
    """Return what becomes of a word ("" if it is left out); None if all stay as they are."""
    dropped = frozenset(part for name in options.stop_words for part in _stop_list(name))
    base = _base_rule(options)
    synonyms = _synonym_table(options, base)
    if not (dropped or options.drop_adjectives or synonyms or options.lemmas or options.stem):
        return None

    @lru_cache(REMEMBERED)
    def change(word: str) -> str:
        if dropped and "".join(tokens(word)) in dropped:
            return ""
        if options.drop_adjectives and _likeliest(word).tag.POS in ADJECTIVES:
            return ""
        result = base(word)
        return synonyms.get(result, result)

    return change


def _stop_list(language: str) -> Iterator[str]:
    """Yield a language's stop words as they are split off: `don't` is two words here.

    A stop word of several unspaced characters is left out, or else each of them would be dropped.
    """
    for word in stop_words(language):
        parts = tokens(word)
        if len(parts) == 1 or any(mark in word for mark in APOSTROPHES):
            yield from parts


def _base_rule(options: CanonicalOptions) -> Callable[[str], str]:
    """Return the function to a word's base: its stem, its dictionary form, or the word itself."""
    if options.stem is not None:
        with needs_extra("analysis", "stem"):
            import snowballstemmer  # noqa: PLC0415 - an extra

        stem = snowballstemmer.stemmer(options.stem).stemWord
        return lambda word: _decompose(stem(_compose(word)))
    if options.lemmas:
        return lambda word: _decompose(_likeliest(word).normal_form)
    return lambda word: word


def _synonym_table(options: CanonicalOptions, base: Callable[[str], str]) -> Mapping[str, str]:
    """Return word -> first word of its group, both at their base; an earlier group wins."""
    plain = CanonicalOptions(**options.model_dump(include=set(Splitting._fields)))
    table: dict[str, str] = {}
    for group in options.synonyms:
        based = [base(canonical_words(word, plain)[0]) for word in group]
        for word in based:
            table.setdefault(word, based[0])
    return table


def _compose(word: str) -> str:
    """Return a word as dictionaries and stemmers write it."""
    return unicodedata.normalize("NFC", word)


def _decompose(word: str) -> str:
    return unicodedata.normalize("NFD", word)
