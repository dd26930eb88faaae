r"""Where a JSON value ends, found without making anything of it.

The grammar is that of RFC 8259, and what these kernels pass is JSON by it, but for two things that
need a reader of the text: whether it is UTF-8, and whether surrogates come in pairs. Whatever they
do not pass they answer with -1 and leave to a full parser; so they may be narrower (nesting has a
limit), never wider.
"""

from __future__ import annotations

import numpy as np

from streamer.kernel import kernel
from streamer.text.scan import VECTOR_BYTES, Bytes, string_lane
from streamer.text.unescape import BACKSLASH, PLAIN, UNIT_BYTES, code_unit

QUOTE = 0x22
OPEN_OBJECT = ord("{")
CLOSE_OBJECT = ord("}")
OPEN_ARRAY = ord("[")
CLOSE_ARRAY = ord("]")
COLON = ord(":")
COMMA = ord(",")
DEPTH_MAX = 60  # a bit each of one word

_SPACE = np.zeros(256, np.bool_)
_SPACE[list(b" \t\n\r")] = True
_DIGIT = np.zeros(256, np.bool_)
_DIGIT[list(b"0123456789")] = True
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)


@kernel
def skip_space(data: Bytes, at: int, end: int) -> int:
    """Return the first place in data[at:end] that is no white space, or `end`."""
    while at < end and _SPACE[data[at]]:
        at += 1
    return at


@kernel
def skip_string(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Return where the quote stands that ends a string, and whether the string has escapes.

    `at` is the first place inside the string. The place is -1 where no string ends before `end`.
    """
    escaped = False
    while True:
        while at + VECTOR_BYTES <= end:
            lane = string_lane(data, at)
            if lane < VECTOR_BYTES:
                at += lane
                break
            at += VECTOR_BYTES
        while at < end and data[at] != QUOTE and data[at] != BACKSLASH and data[at] >= ord(" "):
            at += 1
        if at >= end or data[at] < ord(" "):
            return -1, escaped
        if data[at] == QUOTE:
            return at, escaped
        escaped = True
        at = _skip_escape(data, at, end)
        if at < 0:
            return -1, escaped


@kernel
def _skip_escape(data: Bytes, at: int, end: int) -> int:
    r"""Return the place behind the escape at `at`, or -1 for what is none."""
    if at + 1 < end and PLAIN[data[at + 1]]:
        return at + 2
    return at + UNIT_BYTES if code_unit(data, at, end) >= 0 else -1


@kernel
def _skip_digits(data: Bytes, at: int, end: int) -> int:
    """Return the place behind the digits at `at`, of which there must be one; else -1."""
    start = at
    while at < end and _DIGIT[data[at]]:
        at += 1
    return at if at > start else -1


@kernel
def _skip_number(data: Bytes, at: int, end: int) -> int:
    """Return the place behind the number at `at`, or -1."""
    if data[at] == ord("-"):
        at += 1
    if at < end and data[at] == ord("0"):
        at += 1
    else:
        at = _skip_digits(data, at, end)
    if at >= 0 and at < end and data[at] == ord("."):
        at = _skip_digits(data, at + 1, end)
    if at >= 0 and at < end and (data[at] == ord("e") or data[at] == ord("E")):
        at += 1
        if at < end and (data[at] == ord("+") or data[at] == ord("-")):
            at += 1
        at = _skip_digits(data, at, end)
    return at


@kernel
def _skip_word(data: Bytes, at: int, end: int, word: Bytes) -> int:
    """Return the place behind `word` where it stands at `at`, or -1."""
    if at + word.shape[0] > end:
        return -1
    for i in range(word.shape[0]):
        if data[at + i] != word[i]:
            return -1
    return at + int(word.shape[0])


@kernel
def _skip_scalar(data: Bytes, at: int, end: int) -> int:
    """Return the place behind the string, number or literal at `at`, or -1."""
    first = data[at]
    if first == QUOTE:
        at, _ = skip_string(data, at + 1, end)
        return at + 1 if at >= 0 else -1
    if first == ord("t"):
        return _skip_word(data, at, end, _TRUE)
    if first == ord("f"):
        return _skip_word(data, at, end, _FALSE)
    if first == ord("n"):
        return _skip_word(data, at, end, _NULL)
    return _skip_number(data, at, end)


@kernel
def skip_name(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return where a member's name ends, and where its value begins; -1 twice for no plain name.

    `at` is the first place inside the name's quotes, the first place returned is the closing one.
    A name with escapes is not plain: it may be another than its bytes say.
    """
    close, escaped = skip_string(data, at, end)
    if close < 0 or escaped:
        return -1, -1
    at = skip_space(data, close + 1, end)
    if at >= end or data[at] != COLON:
        return -1, -1
    return close, skip_space(data, at + 1, end)


@kernel
def _enter_value(data: Bytes, at: int, end: int, stack: int) -> tuple[int, int]:
    """Pass the scalar at `at`, or the bracket that opens a container; return place and stack."""
    is_object = data[at] == OPEN_OBJECT
    if not is_object and data[at] != OPEN_ARRAY:
        return _skip_scalar(data, at, end), stack
    if stack >> DEPTH_MAX:
        return -1, stack
    return at + 1, stack << 1 | is_object


@kernel
def _leave_containers(data: Bytes, at: int, end: int, stack: int) -> tuple[int, int]:
    """Pass the brackets at `at` that close containers; return place and stack."""
    while at >= 0 and stack > 1:
        at = skip_space(data, at, end)
        if at >= end:
            return -1, stack
        if data[at] != (CLOSE_OBJECT if stack & 1 else CLOSE_ARRAY):
            break
        stack >>= 1
        at += 1
    return at, stack


@kernel
def _next_value(data: Bytes, at: int, end: int, in_object: int, is_first: int) -> int:
    """Return where a container's next value begins, behind its comma and its name; or -1."""
    if not is_first:
        if data[at] != COMMA:
            return -1
        at = skip_space(data, at + 1, end)
    if in_object:
        if at >= end or data[at] != QUOTE:
            return -1
        _, at = skip_name(data, at + 1, end)
    return at


@kernel
def skip_value(data: Bytes, at: int, end: int) -> int:
    """Return the place behind the value that begins at `at`, or -1 for what is none."""
    stack = 1  # below its highest one, a bit for each open container: one for an object
    while 0 <= at < end:
        before = stack
        at, opened = _enter_value(data, at, end, stack)
        at, stack = _leave_containers(data, at, end, opened)
        if at < 0 or stack == 1:
            return at
        at = _next_value(data, at, end, stack & 1, before < opened == stack)
    return -1
