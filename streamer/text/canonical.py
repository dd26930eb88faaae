"""The canonical form of text, as a table over code points.

Two texts are equal for us if they are equal under NFKC and case folding, whatever their punctuation
and white space. Composition (the C of NFKC) looks at neighbours; decomposition does not, and tells
the same texts apart. So each code point maps to its folded, fully decomposed sequence, and only
combining marks look back: they are put into canonical order. Default-ignorable code points (soft
hyphens, zero-width and bidi characters) vanish, as in Unicode's NFKC_Casefold.

A token is a run of letters, marks, numbers and underscores. Scripts written without spaces give one
token a character: Han and Kana, and those of South-East Asia. What is left out or typed in two ways
tells no texts apart: points of Hebrew and Arabic, lines made longer, yeh, kaf and digits of Persian
keyboards, apostrophes. In a text without any token, each sign is one: symbols, punctuation, and
what has no name yet.

The same text has the same tokens under each version of Python. What Unicode 14.0 assigned keeps its
folding, decomposition and order of marks (Unicode's stability policies), and later versions moved
none between classes (tests/unit/text/test_canonical_unicode.py). What it did not assign is
unassigned here.
"""

# Words of scripts without spaces cannot be found without a dictionary, and shingles of five
# characters work well.

import json
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

VERSION = 3  # of these rules and those of visible text (html.py): part of the fingerprint
UNICODE = "14.0"  # whose characters these rules know: of Python 3.11
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

# Hebrew accents and points; Arabic tatweel and vowel signs, but not hamza and madda, which are
# parts of letters.
_POINTS = (
    (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7),
    (0x0640, 0x0640), (0x064B, 0x0652), (0x0670, 0x0670),
)  # fmt: skip
_VANISHING = (*_IGNORABLE, *_POINTS)
# Persian yeh, kaf and digits are the Arabic ones; letters that are apostrophes are quotes.
_SAME = {0x06CC: 0x064A, 0x06A9: 0x0643, 0x02BB: 0x2018, 0x02BC: 0x2019}
_SAME |= {0x06F0 + digit: 0x0660 + digit for digit in range(10)}

# Han and Kana blocks, and the scripts of Line_Break=SA: Thai, Lao, Myanmar, Khmer, Tai. Ascending.
_UNSPACED = (
    (0x0E01, 0x0E4E), (0x0E81, 0x0ECF), (0x0EDC, 0x0EDF), (0x1000, 0x103F), (0x1050, 0x108F),
    (0x109A, 0x109F), (0x1780, 0x17D3), (0x17D7, 0x17DD), (0x1950, 0x1974), (0x1980, 0x19C9),
    (0x1A20, 0x1A7F), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B),
    (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9EF), (0xA9FA, 0xA9FE), (0xAA60, 0xAA7F),
    (0xAA80, 0xAADF), (0xF900, 0xFAFF), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFD),
)  # fmt: skip

_ASSIGNED = (slice(0, 0x34000), slice(0xE0000, 0xE1000))  # what is beyond has no characters
# Where assigned code points begin and where unassigned ones do, in turns, ascending.
_BOUNDS = tuple(json.loads(Path(__file__).with_name("unicode14.json").read_bytes()))
_INVISIBLE = ("Z", "Cc", "Cf", "Cs")  # categories of what is no sign
_REPLACEMENT = "\ufffd"


Entries = npt.NDArray[np.uint32]


class CanonicalTable(NamedTuple):
    """The rules as arrays for kernels.

    Attributes:
        entries: uint32[0x110000], class and value of each code point.
        sequences: uint32, the expansions: a length, then that many plain entries, one after
        another. combining: uint8[0x110000], canonical combining classes.
    """

    entries: Entries
    sequences: Entries
    combining: npt.NDArray[np.uint8]


_VANISHING_SET = frozenset(c for first, last in _VANISHING for c in range(first, last + 1))


def is_ignorable(code_point: int) -> bool:
    """Return whether a code point has no visible effect of its own, or may be left out."""
    return code_point in _VANISHING_SET


def is_assigned(character: str) -> bool:
    """Return whether Unicode 14.0 has a character of this code point."""
    return bisect_right(_BOUNDS, ord(character)) % 2 == 1


def category(character: str) -> str:
    """Return the general category of a character; "Cn" if it is not assigned."""
    return unicodedata.category(character) if is_assigned(character) else "Cn"


def fold(character: str) -> str:
    """Return the folded, fully decomposed sequence of one character.

    The Greek iota below (IOTA_MARK) stays a mark: it folds to a letter, but only once the marks
    about it are in order (Unicode, definition D145).
    """
    if not is_assigned(character):
        return character
    folded = unicodedata.normalize("NFKD", character)
    while (again := unicodedata.normalize("NFKD", _casefold(folded))) != folded:
        folded = again  # case folding and decomposition can each make work for the other
    return in_one_way("".join(c for c in folded if not is_ignorable(ord(c))))


def in_one_way(text: str) -> str:
    """Return a text with one code point where two are typed for the same character."""
    return text.translate(_SAME)


def _casefold(text: str) -> str:
    return IOTA_MARK.join(part.casefold() for part in text.split(IOTA_MARK))


def class_of(character: str) -> int:
    """Return SEPARATOR, WORD, UNSPACED or MARK of one folded character."""
    kind = category(character)
    if kind[0] == "M":
        return MARK
    if character == "_" or kind[0] in "LN" or (kind != "Cn" and character.isalnum()):
        place = bisect_right(_UNSPACED, (ord(character), CODE_POINTS)) - 1
        return UNSPACED if place >= 0 and ord(character) <= _UNSPACED[place][1] else WORD
    return SEPARATOR


def is_sign(character: str) -> bool:
    """Return whether a separator is a token where a text has no other."""
    return not category(character).startswith(_INVISIBLE) and character != _REPLACEMENT


def canonical_table() -> CanonicalTable:
    """Return the table; whichever thread comes first builds it, once a process."""
    with _building:
        return _built_tables()[0]


def sign_table() -> CanonicalTable:
    """Return the table for a text without tokens, where each separator that is a sign is one."""
    with _building:
        return _built_tables()[1]


@cache
def _built_tables() -> tuple[CanonicalTable, CanonicalTable]:
    """Build both, in about a tenth of a second: most characters fold to themselves."""
    code_points = np.r_[_ASSIGNED].astype(np.uint32)
    code_points = code_points[np.searchsorted(_BOUNDS, code_points, side="right") % 2 == 1]
    found = "".join(map(unicodedata.category, map(chr, code_points.tolist())))
    assigned = code_points, np.frombuffer(found.encode(), "S2")
    code_points, text, categories = _visible(*assigned)
    entries = np.zeros(CODE_POINTS, np.uint32)
    for first, last in _VANISHING:
        entries[first : last + 1] = IGNORED << CLASS_SHIFT
    entries[code_points] = _classes(code_points, text, categories) << CLASS_SHIFT | code_points
    sequences: list[int] = []
    for character in _folding(text):
        folded = fold(character)
        if len(folded) > 1:
            entries[ord(character)] = EXPANDED << CLASS_SHIFT | len(sequences)
            sequences += [len(folded), *map(_entry, folded)]
        else:
            entries[ord(character)] = _entry(folded) if folded else IGNORED << CLASS_SHIFT
    combining = np.zeros(CODE_POINTS, np.uint8)
    marks = code_points[np.char.startswith(categories, b"M")]
    combining[marks] = [unicodedata.combining(chr(mark)) for mark in marks.tolist()]
    table = CanonicalTable(entries, np.array(sequences, np.uint32), combining)
    return table, _add_signs(table, *assigned)


def _add_signs(
    table: CanonicalTable, code_points: Entries, categories: npt.NDArray[np.bytes_]
) -> CanonicalTable:
    """Return the table with each separator that `is_sign` as a token by itself."""
    signs = np.ones(CODE_POINTS, np.bool_)
    signs[[*range(0xD800, 0xE000), ord(_REPLACEMENT)]] = False
    for kind in _INVISIBLE:
        signs[code_points[np.char.startswith(categories, kind.encode())]] = False

    def turned(entries: Entries, own: npt.NDArray[np.integer[Any]]) -> Entries:
        chosen = signs[own] & (entries >> CLASS_SHIFT == SEPARATOR)
        return np.where(chosen, UNSPACED << CLASS_SHIFT | own, entries).astype(np.uint32)

    values, parts = table.entries & VALUE_MASK, table.sequences & VALUE_MASK
    entries = turned(table.entries, np.where(values, values, np.arange(CODE_POINTS)))
    sequences = turned(table.sequences, parts)
    starts = values[table.entries >> CLASS_SHIFT == EXPANDED]
    sequences[starts] = table.sequences[starts]  # these are lengths
    return CanonicalTable(entries, sequences, table.combining)


def _visible(
    code_points: Entries, categories: npt.NDArray[np.bytes_]
) -> tuple[Entries, str, npt.NDArray[np.bytes_]]:
    """Return the characters that do not vanish: code points, text, and categories."""
    visible = ~np.isin(categories, [b"Cs", b"Co"])
    for first, last in _VANISHING:
        visible[(code_points >= first) & (code_points <= last)] = False
    code_points = code_points[visible]
    return code_points, "".join(map(chr, code_points.tolist())), categories[visible]


def _classes(code_points: Entries, text: str, categories: npt.NDArray[np.bytes_]) -> Entries:
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
    """Yield the characters that folding changes; one look shows that most blocks have none."""
    for start in range(0, len(text), FOLDING_BLOCK):
        block = text[start : start + FOLDING_BLOCK]
        if _folds(block):
            yield from filter(_folds, block)


def _folds(text: str) -> bool:
    return in_one_way(text.casefold()) != text or not unicodedata.is_normalized("NFKD", text)


@cache
def _entry(character: str) -> int:
    return class_of(character) << CLASS_SHIFT | ord(character)
