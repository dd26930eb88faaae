"""One code point as UTF-8: written to an array, packed into a word, or read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.kernel import inline_kernel, kernel, uint8, uint32, uint64

if TYPE_CHECKING:
    from streamer.text.scan import Bytes

REPLACEMENT = 0xFFFD  # stands for what is no character
LARGEST = 0x10FFFF
INVALID = 0x110000
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


@inline_kernel
def pack_code_point(code: int) -> tuple[int, int]:
    """Return (UTF-8 bytes in a little-endian word, their number) of a code point."""
    c = uint64(code)
    low = uint64(0x80) | (c & uint64(0x3F))
    if c < 0x80:
        return c, uint64(1)
    if c < 0x800:
        return uint64(0xC0) | (c >> uint64(6)) | (low << uint64(8)), uint64(2)
    middle = uint64(0x80) | ((c >> uint64(6)) & uint64(0x3F))
    if c < 0x10000:
        return uint64(0xE0) | (c >> uint64(12)) | (middle << uint64(8)) | (
            low << uint64(16)
        ), uint64(3)
    upper = uint64(0x80) | ((c >> uint64(12)) & uint64(0x3F))
    head = uint64(0xF0) | (c >> uint64(18))
    return head | (upper << uint64(8)) | (middle << uint64(16)) | (low << uint64(24)), uint64(4)


@inline_kernel
def _continuation(text: Bytes, place: int, end: int) -> int:
    """Return the six bits of a continuation byte, 0xFF if there is none at `place`."""
    if place < end and text[place] & uint8(0xC0) == uint8(0x80):
        return uint32(text[place]) & uint32(0x3F)
    return uint32(0xFF)


@kernel
def decode(text: Bytes, place: int, end: int) -> tuple[int, int]:
    """Return (code point, bytes) of the two to four bytes at `place`, else (INVALID, 1).

    Strict as the standard is: no overlong forms, no surrogates, nothing above U+10FFFF.
    """
    lead = uint32(text[place])
    second = _continuation(text, place + 1, end)
    if lead < 0xC2 or lead > 0xF4 or second == 0xFF:
        return uint32(INVALID), 1
    if lead < 0xE0:
        return ((lead & uint32(0x1F)) << uint32(6)) | second, 2
    third = _continuation(text, place + 2, end)
    if third == 0xFF:
        return uint32(INVALID), 1
    if lead < 0xF0:
        code = ((lead & uint32(0x0F)) << uint32(12)) | (second << uint32(6)) | third
        bad = code < 0x800 or (code >= 0xD800 and code < 0xE000)
        return (uint32(INVALID), 1) if bad else (code, 3)
    fourth = _continuation(text, place + 3, end)
    code = (
        ((lead & uint32(7)) << uint32(18)) | (second << uint32(12)) | (third << uint32(6)) | fourth
    )
    if fourth == 0xFF or code < 0x10000 or code > 0x10FFFF:
        return uint32(INVALID), 1
    return code, 4
