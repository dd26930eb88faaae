"""Where words begin and end, with their places: the rule of `tokens.tokens`, and its variants.

A chunk is what stands between white space. No rule looks across that, so a text may be split chunk
by chunk.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple

from streamer.text.canonical import MARK, UNSPACED, WORD, class_of, fold, is_ignorable
from streamer.text.tokens import in_canonical_order

CHARACTERS_REMEMBERED = 1 << 16


class Word(NamedTuple):
    """A word in canonical form, and where it stands: text[start:end], in characters."""

    text: str
    start: int
    end: int


class Splitting(NamedTuple):
    """How words are split off and written; CanonicalOptions says what each field means."""

    compatibility: bool
    fold_case: bool
    keep_punctuation: bool
    split_unspaced: bool


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
            elif splitting.keep_punctuation and unicodedata.category(piece)[0] in "PS":
                result.append(Word(piece, place, place + 1))
    if current:
        result.append(Word(in_canonical_order(current), first, last))
    return tuple(result)


@lru_cache(CHARACTERS_REMEMBERED)
def _pieces(character: str, splitting: Splitting) -> tuple[tuple[str, int], ...]:
    """Return what a character is written as, each piece with its class."""
    if is_ignorable(ord(character)):
        return ()
    kinds = [(piece, class_of(piece)) for piece in _written(character, splitting)]
    if splitting.split_unspaced:
        return tuple(kinds)
    return tuple((piece, WORD if kind == UNSPACED else kind) for piece, kind in kinds)


def _written(character: str, splitting: Splitting) -> str:
    """Return a character fully decomposed, folded as far as the options say."""
    if splitting.compatibility and splitting.fold_case:
        return fold(character)
    form: Literal["NFKD", "NFD"] = "NFKD" if splitting.compatibility else "NFD"
    result = unicodedata.normalize(form, character)
    if splitting.fold_case:
        result = unicodedata.normalize(form, result.casefold())
    return "".join(c for c in result if not is_ignorable(ord(c)))
