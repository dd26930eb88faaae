"""What a character adds to a token, where that can be told without its neighbours.

Most letters with accents, and those of Greek, Cyrillic and their like, are as plain as ASCII: they
fold to a few bytes which follow what came before. A table has these bytes for all characters below
U+3000, and tells which ones separate. Not plain are marks that stand by themselves, since they go
into an order with others, and letters of scripts without spaces.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, inline_kernel, int64, kernel, uint32, uint64
from streamer.text.canonical import (
    CLASS_SHIFT,
    EXPANDED,
    IGNORED,
    IOTA_MARK,
    MARK,
    SEPARATOR,
    VALUE_MASK,
    WORD,
    canonical_table,
)
from streamer.text.codepoint import pack_code_point

PIECES = 0x3000  # code points that the table has
SIZE_SHIFT = uint64(56)
PIECE_MASK = (1 << 56) - 1
NOT_PLAIN, SEPARATES = 0, 0xFF  # else the upper byte is 1 + bytes, which lie below
PIECE_MAX = 7

_IOTA_MARK = ord(IOTA_MARK)


@inline_kernel
def size_of(piece: int) -> int:
    """Return NOT_PLAIN, SEPARATES, or 1 + the bytes of a piece."""
    return uint64(piece) >> SIZE_SHIFT


@kernel
def _add(piece: int, entry: int, combining: npt.NDArray[np.uint8]) -> int:
    """Return a piece with one more character behind it, NOT_PLAIN if that cannot be."""
    kind, value = entry >> uint32(CLASS_SHIFT), entry & uint32(VALUE_MASK)
    filled = size_of(piece) - uint64(1)
    packed, size = pack_code_point(value)
    is_mark = kind == MARK and filled > 0 and combining[value] != 0 and value != _IOTA_MARK
    if (kind != WORD and not is_mark) or filled + size > uint64(PIECE_MAX):
        return uint64(NOT_PLAIN)
    return (uint64(piece) | (packed << (uint64(8) * filled))) + (size << SIZE_SHIFT)


@kernel
def piece_of(
    code: int,
    entries: npt.NDArray[np.uint32],
    sequences: npt.NDArray[np.uint32],
    combining: npt.NDArray[np.uint8],
) -> int:
    """Return the piece of one code point."""
    entry = entries[code]
    kind = entry >> uint32(CLASS_SHIFT)
    empty = uint64(1) << SIZE_SHIFT
    if kind == SEPARATOR:
        return uint64(SEPARATES) << SIZE_SHIFT
    if kind == IGNORED:
        return empty
    if kind != EXPANDED:
        return _add(empty, entry, combining)
    piece = empty
    first = int64(entry & uint32(VALUE_MASK)) + 1
    for i in range(first, first + int64(sequences[first - 1])):
        piece = _add(piece, sequences[i], combining)
        if piece == NOT_PLAIN:
            break
    return piece


@allocating_kernel
def pieces_of(
    entries: npt.NDArray[np.uint32],
    sequences: npt.NDArray[np.uint32],
    combining: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint64]:
    """Return uint64[PIECES], the piece of each code point."""
    result = np.empty(PIECES, np.uint64)
    for code in range(PIECES):
        result[code] = piece_of(code, entries, sequences, combining)
    return result


class TokenTables(NamedTuple):
    """What the token kernel looks up: the canonical table's arrays, and uint64[PIECES]."""

    entries: npt.NDArray[np.uint32]
    sequences: npt.NDArray[np.uint32]
    combining: npt.NDArray[np.uint8]
    pieces: npt.NDArray[np.uint64]


@cache
def token_tables() -> TokenTables:
    """Return the tables of the token kernel."""
    table = canonical_table()
    return TokenTables(*table, pieces_of(*table))
