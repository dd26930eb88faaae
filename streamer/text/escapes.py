"""Character references of HTML and escapes of JSON strings, to UTF-8.

References (`&eacute;`, `&#233;`, `&#xE9;`) are read by the rules of HTML. The names are the
standard library's copy of the HTML list, laid out at import as one open-addressed table: a slot
leads to a name, its bytes are compared, its value is copied. A name with a semicolon is looked up
once, one without at most five times (the old names that need no semicolon have two to six letters,
the longest wins): the work for an ampersand has a fixed bound. The results are those of
`html.unescape`, except that numbers of any length are accepted.

A value is at most 6/5 as long as its reference (`&nGt;`: five bytes to six), which is the reason
for the size of the output that `html_to_text` asks for; a table that breaks this bound is refused.

A body arrives as the inside of a JSON string. Making a `str` of it and UTF-8 of that would copy and
check each byte twice; most bytes are no escapes and are copied a vector at a time. Nothing there is
an error: an escape that JSON does not know is kept as its characters, a surrogate without its
partner becomes U+FFFD, and bytes that are no UTF-8 pass unchanged (the tokenizer replaces them).
"""

import html
from html.entities import html5

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.text import scan
from streamer.text.scan import LOW_SURROGATES, REPLACEMENT, SURROGATES, SURROGATES_END, Bytes

AMPERSAND, SEMICOLON, NUMBER_SIGN = b"&;#"
GROWTH = (6, 5)  # a value's bytes : its reference's bytes, at most

_SLOTS = 4096
_HASH_FACTOR = 31
_BARE_MIN, _BARE_MAX = 2, 6  # letters of the names that are valid without a semicolon

_ALPHANUMERIC = np.zeros(256, np.uint8)
_ALPHANUMERIC[list(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] = 1

NO_DIGIT = 255
_DIGIT = np.full(256, NO_DIGIT, np.uint8)  # of base 16
for _value, _letter in enumerate("0123456789abcdef"):
    _DIGIT[ord(_letter)] = _DIGIT[ord(_letter.upper())] = _value

# Numbers below 160 as html.unescape has them (Windows-1252 where HTML wants it); -1: no character.
_LOW_NUMBERS = np.array(
    [ord(html.unescape(f"&#{code};") or "\uffff") for code in range(160)], np.int64
)
_LOW_NUMBERS[ord("\uffff") == _LOW_NUMBERS] = -1
_NONE = (0xFDD0, 0xFDF0, 0xFFFE)  # noncharacters: a range, and the last two of each plane


def _hash(name: bytes) -> int:
    """Return a name's slot hash: the same polynomial as `_look_up`."""
    value = 0
    for byte in name:
        value = (value * _HASH_FACTOR + byte) & 0xFFFFFFFF
    return value


def _table() -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int32], npt.NDArray[np.int32], Bytes]:
    """Lay out the names.

    Returns:
        slots: int16[4096], an entry's number or -1.
        starts: int32[2 * entries + 1]; entry k has its name at starts[2k], its value at
            starts[2k + 1] of `text`.
        bare: int32[entries], 1 where the name is valid without a semicolon.
        text: uint8[:], all names and values.
    """
    slots = np.full(_SLOTS, -1, np.int16)
    names = sorted(name[:-1] for name in html5 if name.endswith(";"))
    text, starts = bytearray(), [0]
    for entry, name in enumerate(names):
        value = html5[name + ";"].encode()
        reference_bytes = len(name) + (1 if name in html5 else 2)
        assert len(value) * GROWTH[1] <= reference_bytes * GROWTH[0], name
        for part in (name.encode(), value):
            text += part
            starts.append(len(text))
        slot = _hash(name.encode()) % _SLOTS
        while slots[slot] >= 0:
            slot = (slot + 1) % _SLOTS
        slots[slot] = entry
    bare = np.array([name in html5 for name in names], np.int32)
    return slots, np.array(starts, np.int32), bare, np.frombuffer(bytes(text), np.uint8)


_ENTRY, _STARTS, _BARE, _TEXT = _table()
NAME_BYTES_MAX = int(max(_STARTS[1::2] - _STARTS[:-1:2]))


@kernel
def _look_up(source: Bytes, start: int, end: int) -> int:
    """Return the entry whose name is source[start:end], or -1."""
    value = 0
    for at in range(start, end):
        value = (value * _HASH_FACTOR + source[at]) & 0xFFFFFFFF
    slot = value % _SLOTS
    while _ENTRY[slot] >= 0:
        entry: int = _ENTRY[slot]
        name = _STARTS[2 * entry]
        if _STARTS[2 * entry + 1] - name == end - start:
            same = 0
            while same < end - start and _TEXT[name + same] == source[start + same]:
                same += 1
            if same == end - start:
                return entry
        slot = (slot + 1) % _SLOTS
    return -1


@kernel
def _find_named(source: Bytes, start: int, end: int) -> tuple[int, int]:
    """Return the entry of the longest name at `start` and where it ends, or (-1, start)."""
    stop = start
    while stop < end and stop - start <= NAME_BYTES_MAX and _ALPHANUMERIC[source[stop]]:
        stop += 1
    if stop < end and source[stop] == SEMICOLON:
        entry = _look_up(source, start, stop)
        if entry >= 0:
            return entry, stop + 1
    for letters in range(min(stop - start, _BARE_MAX), _BARE_MIN - 1, -1):
        entry = _look_up(source, start, start + letters)
        if entry >= 0 and _BARE[entry]:
            return entry, start + letters
    return -1, start


@kernel
def _number(source: Bytes, start: int, end: int) -> tuple[int, int]:
    """Read the number after `&#`; return it (held at LARGEST + 1) and the position after it.

    The position is `start` if there is no number.
    """
    base = 10
    at = start
    if at < end and source[at] | 0x20 == ord("x"):
        base = 16
        at += 1
    digits = at
    code = 0
    while at < end and _DIGIT[source[at]] < base:
        code = min(code * base + _DIGIT[source[at]], scan.LARGEST + 1)
        at += 1
    if at == digits:
        return 0, start
    if at < end and source[at] == SEMICOLON:
        at += 1
    return code, at


@kernel
def _put_number(code: int, out: Bytes, place: int) -> int:
    """Write the character of a numeric reference; what is no character writes nothing."""
    if code < len(_LOW_NUMBERS):
        code = _LOW_NUMBERS[code]
        return place if code < 0 else scan.put_code_point(code, out, place)
    if code > scan.LARGEST or SURROGATES <= code < SURROGATES_END:
        return scan.put_code_point(REPLACEMENT, out, place)
    if _NONE[0] <= code < _NONE[1] or code & _NONE[2] == _NONE[2]:
        return place
    return scan.put_code_point(code, out, place)


@kernel
def put_reference(source: Bytes, at: int, end: int, out: Bytes, place: int) -> tuple[int, int]:
    """Decode the reference at source[at] into out[place:].

    An ampersand that begins no reference is copied. Only source[at:end] is read.

    Returns:
        The position after the reference and the place after its value.
    """
    if at + 1 < end and source[at + 1] == NUMBER_SIGN:
        code, stop = _number(source, at + 2, end)
        if stop > at + 2:
            return stop, _put_number(code, out, place)
    elif at + 1 < end:
        entry, stop = _find_named(source, at + 1, end)
        if entry >= 0:
            for index in range(_STARTS[2 * entry + 1], _STARTS[2 * entry + 2]):
                out[place] = _TEXT[index]
                place += 1
            return stop, place
    out[place] = AMPERSAND
    return at + 1, place + 1


BACKSLASH = 0x5C
UNIT_BYTES = 6  # of an escape \uXXXX

MEANING = np.zeros(256, np.uint8)  # escaped character -> its meaning; 0: no escape
for _escaped, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    MEANING[_escaped] = _meaning


@kernel
def code_unit(source: Bytes, at: int, end: int) -> int:
    r"""Return the number in the escape \uXXXX at `at`, or -1 if none is there."""
    if at + UNIT_BYTES > end or source[at] != BACKSLASH or source[at + 1] != ord("u"):
        return -1
    code = 0
    for position in range(at + 2, at + UNIT_BYTES):
        digit = _DIGIT[source[position]]
        if digit == NO_DIGIT:
            return -1
        code = code << 4 | digit
    return code


@kernel
def unescape_json(source: Bytes, start: int, end: int, out: Bytes, place: int) -> int:
    """Write source[start:end], the inside of a JSON string, to out[place:] with escapes undone.

    An escape is at least as long as its meaning: the output never outgrows the input.

    Args:
        source: the record's bytes.
        start: the position after the opening quote.
        end: the position of the closing quote.
        out: must have end - start bytes from `place` on, and not overlap with `source`.
        place: where to write.

    Returns:
        The place after the last byte written; what follows it in `out` is scratch.
    """
    at = start
    while True:
        stop = scan.copy_until(source, at, end, out, place, (BACKSLASH, BACKSLASH))
        place += stop - at
        if stop == end:
            return place
        at = stop
        meaning = MEANING[source[at + 1]] if at + 1 < end else np.uint8(0)
        code = -1 if meaning else code_unit(source, at, end)
        if meaning:
            out[place] = meaning
            place += 1
            at += 2
        elif code < 0:
            out[place] = BACKSLASH
            place += 1
            at += 1
        else:
            at += UNIT_BYTES
            if SURROGATES <= code < LOW_SURROGATES:
                low = code_unit(source, at, end)
                if LOW_SURROGATES <= low < SURROGATES_END:
                    code = 0x10000 + ((code - SURROGATES) << 10) + (low - LOW_SURROGATES)
                    at += UNIT_BYTES
            if SURROGATES <= code < SURROGATES_END:
                code = REPLACEMENT
            place = scan.put_code_point(code, out, place)
