"""The canonical form of text, as a table over code points.

Two texts are equal for us if they are equal under NFKC and case folding, whatever their punctuation
and white space. Composition (the C of NFKC) looks at neighbours; decomposition does not, and tells
the same texts apart. So each code point maps to its folded, fully decomposed sequence, and only
combining marks look back: they are put into canonical order. Default-ignorable code points (soft
hyphens, zero-width and bidi characters) vanish, as in Unicode's NFKC_Casefold.

A token is a run of letters, marks, numbers and underscores. Scripts written without spaces give one
token a character: Han and Kana, and those of South-East Asia. The tables follow the interpreter's
Unicode version, which is therefore part of an index's fingerprint.
"""

# Words of scripts without spaces cannot be found without a dictionary, and shingles of five
# characters work well.

from __future__ import annotations

import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

VERSION = 1  # of the rules in this file: part of the fingerprint
CODE_POINTS = 0x110000
IOTA_MARK, IOTA_LETTER = "\u0345", "\u03b9"

SEPARATOR, WORD, UNSPACED, MARK, IGNORED, EXPANDED = range(6)
CLASS_SHIFT = 24  # entry = class << 24 | code point (or, EXPANDED, the place of its sequence)
VALUE_MASK = (1 << CLASS_SHIFT) - 1

FOLDING_BLOCK = 64  # characters that are looked at together for whether folding changes one
_building = threading.Lock()

# Unicode DerivedCoreProperties.txt, Default_Ignorable_Code_Point; the interpreter has no such
# table.
_IGNORABLE = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip

# Han and Kana blocks, and the scripts of Line_Break=SA: Thai, Lao, Myanmar, Khmer, Tai. Ascending.
_UNSPACED = (
    (0x0E01, 0x0E4E), (0x0E81, 0x0ECF), (0x0EDC, 0x0EDF), (0x1000, 0x103F), (0x1050, 0x108F),
    (0x109A, 0x109F), (0x1780, 0x17D3), (0x17D7, 0x17DD), (0x1950, 0x1974), (0x1980, 0x19C9),
    (0x1A20, 0x1A7F), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B),
    (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9EF), (0xA9FA, 0xA9FE), (0xAA60, 0xAA7F),
    (0xAA80, 0xAADF), (0xF900, 0xFAFF), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFD),
)  # fmt: skip

_ASSIGNED = (slice(0, 0x34000), slice(0xE0000, 0xE1000))  # what is beyond has no characters yet


class CanonicalTable(NamedTuple):
    """The rules as arrays for kernels.

    Attributes:
        entries: uint32[0x110000], class and value of each code point.
        sequences: uint32, the expansions: a length, then that many plain entries, one after
        another. combining: uint8[0x110000], canonical combining classes.
    """

    entries: npt.NDArray[np.uint32]
    sequences: npt.NDArray[np.uint32]
    combining: npt.NDArray[np.uint8]


_IGNORABLE_SET = frozenset(c for first, last in _IGNORABLE for c in range(first, last + 1))


def is_ignorable(code_point: int) -> bool:
    """Return whether a code point has no visible effect of its own."""
    return code_point in _IGNORABLE_SET


def fold(character: str) -> str:
    """Return the folded, fully decomposed sequence of one character.

    The Greek iota below (IOTA_MARK) stays a mark: it folds to a letter, but only once the marks
    about it are in order (Unicode, definition D145).
    """
    folded = unicodedata.normalize("NFKD", character)
    while (again := unicodedata.normalize("NFKD", _casefold(folded))) != folded:
        folded = again  # case folding and decomposition can each make work for the other
    if len(folded) == 1:
        return folded
    return "".join(c for c in folded if not is_ignorable(ord(c)))


def _casefold(text: str) -> str:
    return IOTA_MARK.join(part.casefold() for part in text.split(IOTA_MARK))


def _in_ranges(code_point: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    place = bisect_right(ranges, (code_point, CODE_POINTS)) - 1
    return place >= 0 and code_point <= ranges[place][1]


def class_of(character: str) -> int:
    """Return SEPARATOR, WORD, UNSPACED or MARK of one folded character."""
    category = unicodedata.category(character)
    if category[0] == "M":
        return MARK
    if character == "_" or category[0] in "LN" or character.isalnum():
        return UNSPACED if _in_ranges(ord(character), _UNSPACED) else WORD
    return SEPARATOR


def canonical_table() -> CanonicalTable:
    """Return the table; whichever thread comes first builds it, once a process."""
    with _building:
        return _built_table()


@cache
def _built_table() -> CanonicalTable:
    """Build the table, in about a tenth of a second: most characters fold to themselves."""
    code_points, text, categories = _visible_characters()
    entries = np.zeros(CODE_POINTS, np.uint32)
    for first, last in _IGNORABLE:
        entries[first : last + 1] = IGNORED << CLASS_SHIFT
    entries[code_points] = _classes(code_points, text, categories) << CLASS_SHIFT | code_points
    sequences: list[int] = []
    for character in _folding(text):
        folded = fold(character)
        if len(folded) > 1:
            entries[ord(character)] = EXPANDED << CLASS_SHIFT | len(sequences)
            sequences += [len(folded), *map(_entry, folded)]
        else:
            entries[ord(character)] = _entry(folded) if folded else 0
    combining = np.zeros(CODE_POINTS, np.uint8)
    marks = code_points[np.char.startswith(categories, b"M")]
    combining[marks] = [unicodedata.combining(chr(mark)) for mark in marks.tolist()]
    return CanonicalTable(entries, np.array(sequences, np.uint32), combining)


def _visible_characters() -> tuple[npt.NDArray[np.uint32], str, npt.NDArray[np.bytes_]]:
    """Return the assigned characters that do not vanish: code points, text, and categories."""
    code_points = np.r_[_ASSIGNED].astype(np.uint32)
    characters = [*map(chr, code_points.tolist())]
    categories = np.frombuffer("".join(map(unicodedata.category, characters)).encode(), "S2")
    visible = ~np.isin(categories, [b"Cn", b"Cs", b"Co"])
    for first, last in _IGNORABLE:
        visible[(code_points >= first) & (code_points <= last)] = False
    return code_points[visible], "".join(compress(characters, visible)), categories[visible]


def _classes(
    code_points: npt.NDArray[np.uint32], text: str, categories: npt.NDArray[np.bytes_]
) -> npt.NDArray[np.uint32]:
    """Return what `class_of` gives for each character of `text`, as if none were folded."""
    starts, ends = np.array(_UNSPACED).T
    place = np.searchsorted(starts, code_points, side="right") - 1
    unspaced = (place >= 0) & (code_points <= ends[place])
    classes = np.where(unspaced, UNSPACED, WORD).astype(np.uint32)
    kinds = categories.astype("S1")
    for other in np.flatnonzero((kinds != b"L") & (kinds != b"N")).tolist():
        classes[other] = class_of(text[other])
    return classes


def _folding(text: str) -> Iterator[str]:
    """Yield the characters that folding changes; of most blocks one look tells that none does."""
    for start in range(0, len(text), FOLDING_BLOCK):
        block = text[start : start + FOLDING_BLOCK]
        if _folds(block):
            yield from filter(_folds, block)


def _folds(text: str) -> bool:
    return text.casefold() != text or not unicodedata.is_normalized("NFKD", text)


@cache
def _entry(character: str) -> int:
    return class_of(character) << CLASS_SHIFT | ord(character)
