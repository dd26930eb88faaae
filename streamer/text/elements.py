"""What the scanner knows of elements: which part words, which hide what is in them.

An element's entry is a set of traits; names that are not listed have none and are inline, as in
a browser. Block elements part words at their start and end tags. Raw elements hold no markup: their
contents end at their own end tag; those of RCDATA elements are text, those of the others are never
seen. The contents of containers are markup that nobody sees, and containers nest.

A name is held as a number in base 38: exact for up to twelve letters and digits, longer names are
unknown. The numbers are hashed into a table without collisions, found at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel

if TYPE_CHECKING:
    from streamer.text.scan import Bytes

BLOCK, RAW, RCDATA, CONTAINER, ENDLESS = 1, 2, 4, 8, 16  # ENDLESS: hides the rest if never closed
MEMO_SHIFT = 8  # traits << 0 | the element's number among those that keep state << MEMO_SHIFT
MEMOS = 10  # elements with state

_BLOCKS = (
    "address article aside blockquote body br button canvas caption center col colgroup dd "
    "details dialog dir div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 "
    "h5 h6 head header hgroup hr html iframe legend li link listing main menu meta nav "
    "noframes ol optgroup option p plaintext pre search section select summary table tbody td "
    "textarea tfoot th thead title tr ul video xmp"
)
_STATEFUL = {
    "script": RAW | ENDLESS,
    "style": RAW | ENDLESS,
    "noscript": RAW,
    "noembed": RAW,
    "iframe": RAW | BLOCK,
    "noframes": RAW | BLOCK,
    "title": RAW | RCDATA | BLOCK,
    "textarea": RAW | RCDATA | BLOCK,
    "svg": CONTAINER,
    "template": CONTAINER,
}
SVG_MEMO, TEMPLATE_MEMO = (list(_STATEFUL).index(name) for name in ("svg", "template"))
NAME_BYTES_MAX = 12  # 38 ** 12 is the last power below 2 ** 63
_BASE = 38
_SLOT_BITS = 10

# Byte -> digit of a name: 0 ends a name, 1..36 letter (either case) or digit, 37 anything else.
_DIGIT = np.full(256, 37, np.uint8)
_DIGIT[list(b"\t\n\f\r />")] = 0
for _digit, _letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789", 1):
    _DIGIT[ord(_letter)] = _DIGIT[ord(_letter.upper())] = _digit


def name_number(name: str) -> int:
    """Return the number of an element's name, as `read_name` gives it."""
    number = 0
    for byte in name.encode():
        number = number * _BASE + int(_DIGIT[byte])
    return number


def _table() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return the numbers and traits by slot, and the odd factor that hashes without a collision."""
    traits = dict.fromkeys(_BLOCKS.split(), BLOCK)
    for memo, (name, kind) in enumerate(_STATEFUL.items()):
        traits[name] = kind | memo << MEMO_SHIFT
    assert len(_STATEFUL) == MEMOS, len(_STATEFUL)
    numbers = [name_number(name) for name in traits]
    factor = 0x9E3779B97F4A7C15  # a start with well-mixed bits; each step gives another odd factor
    slots = [_slot(number, factor) for number in numbers]
    while len(set(slots)) < len(slots):
        factor = (factor + 0x2545F4914F6CDD1E) & 0xFFFFFFFFFFFFFFFF
        slots = [_slot(number, factor) for number in numbers]
    by_slot = np.zeros((2, 1 << _SLOT_BITS), np.int64)
    by_slot[:, slots] = [numbers, list(traits.values())]
    return by_slot[0].copy(), by_slot[1].copy(), factor


def _slot(number: int, factor: int) -> int:
    """Return the upper bits of number * factor modulo 2 ** 64."""
    return (number * factor & 0xFFFFFFFFFFFFFFFF) >> (64 - _SLOT_BITS)


_NUMBERS, _TRAITS, _factor = _table()
_FACTOR = np.uint64(_factor)
_SHIFT = np.uint64(64 - _SLOT_BITS)


@kernel
def read_name(source: Bytes, start: int, end: int) -> tuple[int, int]:
    """Read the tag name at `start`; return its number (0 if it is too long) and where it ends."""
    number = 0
    at = start
    while at < end and _DIGIT[source[at]]:
        number = number * _BASE + _DIGIT[source[at]]
        at += 1
    return (number if at - start <= NAME_BYTES_MAX else 0), at


@kernel
def traits_of(number: int) -> int:
    """Return the traits of the element with this name number; 0 for unknown ones."""
    slot = np.int64(np.uint64(number) * _FACTOR >> _SHIFT)
    return _TRAITS[slot] if _NUMBERS[slot] == number else 0
