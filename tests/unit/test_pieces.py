"""A plain character adds to a token what the plain form of tokens says, whatever is beside it."""

from __future__ import annotations

import pytest

from streamer.text.short_tokens import NOT_PLAIN, PIECE_MASK, PIECES, SEPARATES, token_tables
from streamer.text.tokens import tokens


def piece(code: int) -> tuple[int, bytes]:
    """Return the upper byte of a code point's piece, and its lower ones."""
    word = int(token_tables().pieces[code])
    return word >> 56, (word & PIECE_MASK).to_bytes(7, "little")


def test_every_plain_character_between_letters_gives_the_plain_tokens() -> None:
    kinds = {SEPARATES: 0, NOT_PLAIN: 0}
    for code in range(PIECES):
        kind, packed = piece(code)
        kinds[kind] = kinds.get(kind, 0) + 1
        found = tokens(f"x{chr(code)}y")
        if kind == SEPARATES:
            assert found == ["x", "y"], hex(code)
        elif kind != NOT_PLAIN:
            assert found == [f"x{packed[: kind - 1].decode()}y"], hex(code)
            assert not any(packed[kind - 1 :])
    assert kinds[SEPARATES] > 3000
    assert kinds[1 + 1] > 90  # ASCII, and what folds to it
    assert kinds[1 + 2] > 700  # Greek, Cyrillic, Hebrew, Arabic
    assert kinds[1 + 3] > 2000  # letters with a mark, and all from U+0800 on


@pytest.mark.parametrize("letter", ["é", "ß", "ñ", "ø", "λ", "ж", "א", "ế", "\u00ad"])
def test_letters_of_the_alphabets_are_plain(letter: str) -> None:
    assert piece(ord(letter))[0] not in {NOT_PLAIN, SEPARATES}


@pytest.mark.parametrize("character", ["\u0301", "\u0345", "ᾳ", "ก", "½", "\u0903"])
def test_what_looks_at_its_neighbours_is_not_plain(character: str) -> None:
    assert piece(ord(character))[0] == NOT_PLAIN
