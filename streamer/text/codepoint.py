"""Writing one code point as UTF-8: what escapes and character references end in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.kernel import kernel

if TYPE_CHECKING:
    from streamer.text.scan import Bytes

REPLACEMENT = 0xFFFD  # stands for what is no character
LARGEST = 0x10FFFF
SURROGATES = 0xD800  # the first code point that is half of a UTF-16 pair
LOW_SURROGATES = 0xDC00
SURROGATES_END = 0xE000

_ENDS = (0x80, 0x800, 0x10000)  # of the code points that take one, two, three bytes


@kernel
def put_code_point(code: int, out: Bytes, place: int) -> int:
    """Write a code point in [0, 0x10FFFF] as UTF-8 to out[place:]; return the place behind it."""
    if code < _ENDS[0]:
        out[place] = code
        return place + 1
    if code < _ENDS[1]:
        out[place] = 0xC0 | code >> 6
        out[place + 1] = 0x80 | code & 0x3F
        return place + 2
    if code < _ENDS[2]:
        out[place] = 0xE0 | code >> 12
        out[place + 1] = 0x80 | code >> 6 & 0x3F
        out[place + 2] = 0x80 | code & 0x3F
        return place + 3
    out[place] = 0xF0 | code >> 18
    out[place + 1] = 0x80 | code >> 12 & 0x3F
    out[place + 2] = 0x80 | code >> 6 & 0x3F
    out[place + 3] = 0x80 | code & 0x3F
    return place + 4
