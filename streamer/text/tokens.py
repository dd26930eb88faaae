"""UTF-8 to token hashes in one pass: decode, canonical form, token boundaries, MurmurHash3.

The kernel never holds a token: each canonical byte goes straight into the hash, so a token of any
length costs its bytes and no memory. It stops between two tokens when its output is full and goes
on from the place that it returns, so a page of any size is signed through one small buffer.

`tokens` is the same rule in plain Python, on text; tests hold the kernel against it bit for bit.
"""

from __future__ import annotations

import unicodedata

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish
from streamer.kernel import inline_kernel, kernel, load_u64, trailing_zeros, uint8, uint32, uint64
from streamer.text.canonical import (
    CLASS_SHIFT,
    EXPANDED,
    IGNORED,
    IOTA_LETTER,
    IOTA_MARK,
    MARK,
    SEPARATOR,
    UNSPACED,
    VALUE_MASK,
    WORD,
    class_of,
    fold,
    is_ignorable,
)

MARKS_MAX = 30  # marks put into order together: Unicode's stream-safe limit (UAX #15, D4)
SPARE = 64  # room in the output beyond its limit: what one code point can expand to
INVALID = 0x110000
_IOTA_MARK, _IOTA_LETTER = ord(IOTA_MARK), ord(IOTA_LETTER)

SLACK = (
    16  # readable bytes that every text has behind its end: words are read eight bytes at a time
)

_ASCII_SEPARATOR = np.array(
    [c < 128 and not (chr(c).isalnum() or c == ord("_")) for c in range(256)]
)

_ONES = 0x0101010101010101  # eight bytes worked on at once, in one word ("SWAR")
_HIGHS = 0x8080808080808080


def tokens(text: str) -> list[str]:
    """Return the canonical tokens of `text`: folded, decomposed, marks in canonical order."""
    result: list[str] = []
    current = ""
    unspaced = False
    for character in (f for c in text if not is_ignorable(ord(c)) for f in fold(c)):
        kind = class_of(character)
        if kind == MARK:
            current += character if current else ""
            continue
        if current and (kind != WORD or unspaced):
            result.append(_in_order(current))
            current = ""
        if kind != SEPARATOR:
            current += character
            unspaced = kind == UNSPACED
    if current:
        result.append(_in_order(current))
    return result


def _in_order(token: str) -> str:
    """Sort each run of at most MARKS_MAX non-starters by combining class, stably."""
    result: list[str] = []
    run: list[str] = []
    for character in token:
        if not unicodedata.combining(character) or len(run) == MARKS_MAX:
            result += sorted(run, key=unicodedata.combining)
            run.clear()
        (run if unicodedata.combining(character) else result).append(character)
    ordered = "".join(result + sorted(run, key=unicodedata.combining))
    return ordered.replace(IOTA_MARK, IOTA_LETTER)


@inline_kernel
def _continuation(text: npt.NDArray[np.uint8], place: int, end: int) -> int:
    """Return the six bits of a continuation byte, 0xFF if there is none at `place`."""
    if place < end and text[place] & uint8(0xC0) == uint8(0x80):
        return uint32(text[place]) & uint32(0x3F)
    return uint32(0xFF)


@kernel
def decode(text: npt.NDArray[np.uint8], place: int, end: int) -> tuple[int, int]:
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


@inline_kernel
def _encode(code: int) -> tuple[int, int]:
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
def _push(
    lane1: int, lane2: int, low: int, word: int, length: int, packed: int, size: int
) -> tuple[int, int, int, int, int]:
    """Feed up to four bytes to the hash of the open token."""
    filled = length & uint64(7)
    word |= packed << (uint64(8) * filled)
    if filled + size >= uint64(8):
        if length & uint64(8):
            lane1, lane2 = absorb(lane1, lane2, low, word)
            low = uint64(0)
        else:
            low = word
        # a shift by 64 is undefined; it cannot come up, since size <= 4 means filled >= 4 here
        word = packed >> (uint64(8) * (uint64(8) - filled))
    return lane1, lane2, low, word, length + size


@inline_kernel
def _close(lane1: int, lane2: int, low: int, word: int, length: int) -> int:
    """Return the hash of the open token."""
    if length & uint64(8):
        return finish(lane1, lane2, low, word, length)
    return finish(lane1, lane2, word, uint64(0), length)


@inline_kernel
def _between(word: int, first: int, last: int) -> int:
    """Mark (0x80) the bytes of `word` in [first, last]; only where each byte is below 0x80."""
    above = uint64(word) + uint64(_ONES) * uint64(0x80 - first)
    beyond = uint64(word) + uint64(_ONES) * uint64(0x7F - last)
    return above & ~beyond & uint64(_HIGHS)


@inline_kernel
def _ascii_word(word: int) -> tuple[int, int, int]:
    """Return (folded bytes, token bytes before the first other one, whether that one is ASCII)."""
    plain = uint64(word) & ~uint64(_HIGHS)
    folded = plain | (_between(plain, 0x41, 0x5A) >> uint64(2))  # A..Z
    inside = (
        _between(folded, 0x61, 0x7A) | _between(plain, 0x30, 0x39) | _between(plain, 0x5F, 0x5F)
    )
    stop = (~inside | uint64(word)) & uint64(_HIGHS)
    length = trailing_zeros(stop) >> uint64(3)
    return folded, length, (uint64(word) & stop & (~stop + uint64(1))) == 0


@inline_kernel
def _low_bytes(word: int, count: int) -> int:
    """Return the lowest `count` (1 to 8) bytes of a word."""
    return word & (uint64(0xFFFFFFFFFFFFFFFF) >> (uint64(64) - uint64(8) * count))


@inline_kernel
def _ascii_token(text: npt.NDArray[np.uint8], place: int, end: int, seed: int) -> tuple[int, int]:
    """Return (bytes, hash) of an ASCII token of up to 15 bytes at `place`; 0 bytes if it is none.

    A token that meets a byte of another kind than ASCII may go on behind it: that is left to the
    general way. Two thirds of the cost of ordinary text would be the branch on each byte.
    """
    lane = uint64(seed)
    left = uint64(end - place)
    low, size, ascii_stop = _ascii_word(load_u64(text, place))
    if size >= left:
        return left, finish(lane, lane, _low_bytes(low, left), uint64(0), left)
    if size < 8:
        if size == 0 or not ascii_stop:
            return uint64(0), uint64(0)
        return size, finish(lane, lane, _low_bytes(low, size), uint64(0), size)
    high, more, ascii_stop = _ascii_word(load_u64(text, place + 8))
    size = min(uint64(8) + more, left)
    if more == 8 or (not ascii_stop and size < left):
        return uint64(0), uint64(0)
    tail = uint64(0) if size == 8 else _low_bytes(high, size - uint64(8))
    return size, finish(lane, lane, low, tail, size)


@inline_kernel
def _keep_mark(
    marks: npt.NDArray[np.uint32], waiting: int, mark: int, combining: npt.NDArray[np.uint8]
) -> int:
    """Insert a mark behind those of its class or lower; return the number waiting."""
    i = waiting
    while i > 0 and combining[marks[i - 1]] > combining[mark]:
        marks[i] = marks[i - 1]
        i -= 1
    marks[i] = mark
    return waiting + 1


@inline_kernel
def _letter_of(mark: int) -> int:
    """Return what a mark becomes once the marks are in order: itself, but for the iota below."""
    return uint32(_IOTA_LETTER) if mark == _IOTA_MARK else uint32(mark)


@kernel
def hash_tokens(  # noqa: C901, PLR0912, PLR0913, PLR0915 - one loop over the text; a call a byte would double its cost
    text: npt.NDArray[np.uint8],
    place: int,
    end: int,
    seed: int,
    entries: npt.NDArray[np.uint32],
    sequences: npt.NDArray[np.uint32],
    combining: npt.NDArray[np.uint8],
    out: npt.NDArray[np.uint64],
    count: int,
) -> tuple[int, int]:
    """Hash the tokens of text[place:end] into out[count:]; return (next place, tokens in `out`).

    `text` has SLACK readable bytes behind `end`. Each hash is mmh3.hash64(token as UTF-8, seed,
    signed=False)[0]. Malformed bytes separate tokens. The next place is `end`, or lies between two
    tokens: then `out` holds its length less SPARE, and the caller goes on from there with room in
    `out`.
    """
    limit = out.shape[0] - SPARE
    marks = np.empty(MARKS_MAX + 1, np.uint32)
    waiting = 0
    lane1 = lane2 = uint64(seed)
    low = word = length = uint64(0)
    unspaced = False  # the open token is a character of an unspaced script
    sequence = left = 0
    while True:
        start = place
        if left > 0:
            entry = sequences[sequence]
            sequence += 1
            left -= 1
        elif place >= end or (length == 0 and count >= limit):
            break
        else:
            if length == 0:
                if _ASCII_SEPARATOR[text[place]]:
                    place += 1
                    continue
                size8, token = _ascii_token(text, place, end, seed)
                if size8:
                    out[count] = token
                    count += 1
                    place += size8
                    continue
            if text[place] < 128:
                code, size = uint32(text[place]), 1
            else:
                code, size = decode(text, place, end)
            place += size
            entry = entries[code] if code < INVALID else uint32(0)
        kind = entry >> uint32(CLASS_SHIFT)
        value = entry & uint32(VALUE_MASK)
        if kind == EXPANDED:
            left = sequences[value]
            sequence = value + 1
            continue
        if kind == IGNORED or (kind == MARK and length == 0):
            continue
        if kind == MARK and combining[value] != 0 and waiting < MARKS_MAX:
            waiting = _keep_mark(marks, waiting, value, combining)
            continue
        for i in range(waiting):
            packed, size8 = _encode(_letter_of(marks[i]))
            lane1, lane2, low, word, length = _push(lane1, lane2, low, word, length, packed, size8)
        waiting = 0
        if kind == MARK and combining[value] != 0:
            waiting = _keep_mark(marks, waiting, value, combining)
            continue
        if kind != MARK and length != 0 and (kind != WORD or unspaced):
            out[count] = _close(lane1, lane2, low, word, length)
            count += 1
            lane1 = lane2 = uint64(seed)
            low = word = length = uint64(0)
            unspaced = False
            if count >= limit and left == 0 and start < place:
                place = start
                break
        if kind != SEPARATOR:
            packed, size8 = _encode(value)
            lane1, lane2, low, word, length = _push(lane1, lane2, low, word, length, packed, size8)
            unspaced = unspaced or kind == UNSPACED
    if length != 0:
        for i in range(waiting):
            packed, size8 = _encode(_letter_of(marks[i]))
            lane1, lane2, low, word, length = _push(lane1, lane2, low, word, length, packed, size8)
        out[count] = _close(lane1, lane2, low, word, length)
        count += 1
    return place, count
