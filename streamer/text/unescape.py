r"""Undoing the escapes of a JSON string, straight from the record's bytes into UTF-8.

A body arrives as the inside of a JSON string. Making a `str` of it and UTF-8 of that would copy and
check each byte twice; most bytes are no escapes and are copied sixteen at a time.

Nothing here is an error: an escape that JSON does not know is kept as its characters, a surrogate
without its partner becomes U+FFFD, and bytes that are no UTF-8 pass unchanged (the tokenizer
replaces them). An escape is at least as long as what it stands for: the output never outgrows the
input.
"""

from __future__ import annotations

import numpy as np

from streamer.kernel import kernel
from streamer.text.codepoint import (
    LOW_SURROGATES,
    REPLACEMENT,
    SURROGATES,
    SURROGATES_END,
    put_code_point,
)
from streamer.text.scan import Bytes, copy_until

BACKSLASH = 0x5C
UNIT_BYTES = 6  # of an escape \uXXXX
NO_DIGIT = 255

PLAIN = np.zeros(256, np.uint8)  # escaped character -> what it stands for; 0: no escape
for _escaped, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    PLAIN[_escaped] = _meaning

_HEX = np.full(256, NO_DIGIT, np.uint8)
for _value, _digit in enumerate("0123456789abcdef"):
    _HEX[ord(_digit)] = _HEX[ord(_digit.upper())] = _value


@kernel
def code_unit(source: Bytes, at: int, end: int) -> int:
    r"""Return the number in the escape \uXXXX at `at`, or -1 if none is there."""
    if at + UNIT_BYTES > end or source[at] != BACKSLASH or source[at + 1] != ord("u"):
        return -1
    code = 0
    for position in range(at + 2, at + UNIT_BYTES):
        digit = _HEX[source[position]]
        if digit == NO_DIGIT:
            return -1
        code = code << 4 | digit
    return code


@kernel
def unescape_json(source: Bytes, start: int, end: int, out: Bytes, place: int) -> int:
    """Write source[start:end], the inside of a JSON string, to out[place:] with escapes undone.

    Args:
        source: the record's bytes.
        start: the position behind the opening quote.
        end: the position of the closing quote.
        out: must have end - start bytes from `place` on, and not overlap with `source`.
        place: where to write.

    Returns:
        The place behind the last byte written; what follows it in `out` is scratch.
    """
    at = start
    while True:
        stop = copy_until(source, at, end, out, place, (BACKSLASH, BACKSLASH))
        place += stop - at
        if stop == end:
            return place
        at = stop
        meaning = PLAIN[source[at + 1]] if at + 1 < end else np.uint8(0)
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
            place = put_code_point(code, out, place)
