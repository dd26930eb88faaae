"""Where the fields of a page stand in its message, found for a batch of messages at once.

Most messages are plain: one JSON object with a `url` and a `body`, or what a mapping calls them,
each a string, each once; and a URL of printable ASCII characters without escapes, a body that
begins with one that is no white space, the type of the message before. Kernels find where the
fields begin and end and what is so; the bytes stay where they are, and nothing is made of a message
in the interpreter. Any other message is marked `UNKNOWN`, and a full parser decides.

The grammar is that of RFC 8259. What these kernels pass is JSON by it, except for two things that
need a reader of the text: whether it is UTF-8, and whether surrogates come in pairs. Whatever they
do not pass they answer with -1 and leave to the full parser, which tests hold them against; so they
may be narrower (nesting has a limit), never wider.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.text.escapes import BACKSLASH, MEANING, UNIT_BYTES, code_unit
from streamer.text.scan import VECTOR_BYTES, Bytes, find_byte, string_lane
from streamer.text.slices import Slices

QUOTE, OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY, COLON, COMMA = b'"{}[]:,'
DEPTH_MAX = 60  # a bit each of one word

_SPACES = np.zeros(256, np.bool_)
_SPACES[list(b" \t\n\r")] = True
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@kernel
def skip_space(data: Bytes, at: int, end: int) -> int:
    """Return the first place in data[at:end] that is no white space, or `end`."""
    while at < end and _SPACES[data[at]]:
        at += 1
    return at


@kernel
def skip_string(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Return where the quote is that ends a string, and whether the string has escapes.

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
    r"""Return the place after the escape at `at`, or -1 for what is none."""
    if at + 1 < end and MEANING[data[at + 1]]:
        return at + 2
    return at + UNIT_BYTES if code_unit(data, at, end) >= 0 else -1


@kernel
def _skip_digits(data: Bytes, at: int, end: int) -> int:
    """Return the place after the digits at `at`, of which there must be one; else -1."""
    start = at
    while at < end and ord("0") <= data[at] <= ord("9"):
        at += 1
    return at if at > start else -1


@kernel
def _skip_number(data: Bytes, at: int, end: int) -> int:
    """Return the place after the number at `at`, or -1."""
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
    """Return the place after `word` where it is at `at`, or -1."""
    if at + word.shape[0] > end:
        return -1
    for byte in word:
        if data[at] != byte:
            return -1
        at += 1
    return at


@kernel
def _skip_scalar(data: Bytes, at: int, end: int) -> int:
    """Return the place after the string, number or literal at `at`, or -1."""
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
    """Return where a container's next value begins, after its comma and its name; or -1."""
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
    """Return the place after the value that begins at `at`, or -1 for what is none."""
    stack = 1  # below its highest one, a bit for each open container: one for an object
    while 0 <= at < end:
        before = stack
        at, opened = _enter_value(data, at, end, stack)
        at, stack = _leave_containers(data, at, end, opened)
        if at < 0 or stack == 1:
            return at
        at = _next_value(data, at, end, stack & 1, before < opened == stack)
    return -1


@kernel
def may_have_two_objects(data: Bytes, between: npt.NDArray[np.bool_]) -> bool:
    """Return whether bytes that are `between`, or none, stand between a `}` and a `{`."""
    at, end = 0, data.shape[0]
    while at < end:
        at = find_byte(data, at, end, CLOSE_OBJECT) + 1
        while at < end and between[data[at]]:
            at += 1
        if at < end and data[at] == OPEN_OBJECT:
            return True
    return False


UNKNOWN, PLAIN, ESCAPES = 0, 1, 2  # what is known of a message; ESCAPES: plain, its body has some

Spans = npt.NDArray[np.int64]

URL, BODY, TYPE, TIME = 0, 1, 2, 3
FIELDS = 4
Names = tuple[Bytes, ...]


class FieldSpans(NamedTuple):
    """The places of the fields of n messages.

    Attributes:
        states: uint8[n], UNKNOWN, PLAIN or ESCAPES.
        spans: int64[n, 4, 2], begin and end of URL, body and content type as they stand within
            their quotes, and of the time of fetching as it stands; equal where there is no URL,
            type or time. Nothing is said of a message that is UNKNOWN.
    """

    states: npt.NDArray[np.uint8]
    spans: Spans


def names_of(fields: Iterable[str]) -> Names:
    """Return the names of URL, body, type and time as kernels take them; "" for one of none."""
    return tuple(np.frombuffer(name.encode(), np.uint8) for name in fields)


PAGE_NAMES = names_of(("url", "body", "content_type", "fetched_at"))


def find_page_fields(messages: Slices, names: Names = PAGE_NAMES) -> FieldSpans:
    """Return the places of the fields of `messages`, in their block."""
    count = len(messages)
    found = FieldSpans(np.zeros(count, np.uint8), np.zeros((count, FIELDS, 2), np.int64))
    _find_batch(messages.data, messages.starts, messages.ends, names, found)
    return found


@kernel
def _find_batch(data: Bytes, starts: Spans, ends: Spans, names: Names, found: FieldSpans) -> None:
    """Write the places of each message's fields, and what is known of it."""
    for i in range(starts.shape[0]):
        found.states[i] = _find_fields(data, starts[i], ends[i], names, found.spans[i])


@kernel
def _find_fields(data: Bytes, at: int, end: int, names: Names, spans: Spans) -> int:
    """Write the places of one message's fields; return what is known of it."""
    at = skip_space(data, at, end)
    more = at < end and data[at] == OPEN_OBJECT
    needed = 1 << BODY | (names[URL].shape[0] > 0) << URL
    seen = 0
    state = PLAIN
    while more:
        name = skip_space(data, at + 1, end) + 1
        if name >= end or data[name - 1] != QUOTE:
            return UNKNOWN
        close, at = skip_name(data, name, end)
        if at < 0 or at >= end:
            return UNKNOWN
        field = _field_of(data, name, close, names)
        if field < FIELDS and seen >> field & 1:
            return UNKNOWN
        seen |= 1 << field
        at, escaped = _take_value(data, at, end, field, spans)
        if escaped:
            state = ESCAPES
        at = skip_space(data, at, end) if at >= 0 else end
        if at >= end or (data[at] != COMMA and data[at] != CLOSE_OBJECT):
            return UNKNOWN
        more = data[at] == COMMA
    if skip_space(data, at + 1, end) < end or seen & needed != needed:
        return UNKNOWN
    return state


@kernel
def _field_of(data: Bytes, start: int, end: int, names: Names) -> int:
    """Return which field has the name data[start:end]; FIELDS for none."""
    for field in range(FIELDS):
        if start < end and _skip_word(data, start, end, names[field]) == end:
            return field
    return FIELDS


@kernel
def _take_value(data: Bytes, at: int, end: int, field: int, spans: Spans) -> tuple[int, bool]:
    """Write the place of a field's string; return the place after it, and whether it has escapes.

    The place is -1 for a value that is not JSON, or not plain for this field.
    """
    if field == FIELDS or (field == TYPE and data[at] == ord("n")):
        return skip_value(data, at, end), False
    if field == TIME and data[at] != OPEN_OBJECT and data[at] != OPEN_ARRAY:
        spans[field, 0] = at
        spans[field, 1] = skip_value(data, at, end)
        return spans[field, 1], False
    if data[at] != QUOTE:
        return -1, False
    begin = at + 1
    close, escaped = skip_string(data, begin, end)
    if close <= begin:
        return -1, False
    spans[field, 0] = begin
    spans[field, 1] = close
    return close + 1, escaped and field == BODY


_SPACE, _NEWLINE, _DELETE, _LESS = 0x20, 0x0A, 0x7F, ord("<")

Mask = npt.NDArray[np.bool_]


@kernel
def find_sure(
    data: Bytes, states: npt.NDArray[np.uint8], spans: Spans, url_bytes_max: int, sure: Mask
) -> None:
    """Find the pages whose URL can stand as it is, and whose body is not blank, beyond doubt."""
    for i in range(states.shape[0]):
        start, end = spans[i, URL, 0], spans[i, URL, 1]
        first = data[spans[i, BODY, 0]]
        sure[i] = states[i] != UNKNOWN and first not in (_SPACE, BACKSLASH)
        sure[i] &= start < end <= start + url_bytes_max
        at = start
        while sure[i] and at < end:
            sure[i] = _SPACE < data[at] < _DELETE and data[at] != BACKSLASH
            at += 1


@kernel
def keep_with_markup(data: Bytes, spans: Spans, bytes_max: int, wanted: Mask) -> None:
    """Leave those wanted whose body may have markup: a `<`, maybe escaped, in its first bytes."""
    for i in range(spans.shape[0]):
        if wanted[i]:
            start = spans[i, BODY, 0]
            end = min(spans[i, BODY, 1], start + bytes_max)
            wanted[i] = find_byte(data, start, end, _LESS) < end
            at = find_byte(data, start, end, BACKSLASH)
            while at < end and not wanted[i]:
                wanted[i] = code_unit(data, at, end) == _LESS
                at = find_byte(data, at + 1, end, BACKSLASH)


@kernel
def find_type_changes(data: Bytes, spans: Spans, changes: Mask) -> None:
    """Find the pages whose content type is not, byte by byte, that of the one before."""
    for i in range(spans.shape[0]):
        start, length = spans[i, TYPE, 0], spans[i, TYPE, 1] - spans[i, TYPE, 0]
        changes[i] = i == 0
        if i > 0:
            before = spans[i - 1, TYPE, 0]
            changes[i] = spans[i - 1, TYPE, 1] - before != length
            at = 0
            while not changes[i] and at < length:
                changes[i] = data[start + at] != data[before + at]
                at += 1


@kernel
def _gather_lines(data: Bytes, starts: Spans, ends: Spans, out: Bytes) -> None:
    at = 0
    for i in range(starts.shape[0]):
        for j in range(starts[i], ends[i]):
            out[at] = data[j]
            at += 1
        out[at] = _NEWLINE
        at += 1


def gather(data: Bytes, starts: Spans, ends: Spans) -> list[bytes]:
    """Return the strings data[starts[i]:ends[i]], none of which has a newline."""
    lines = np.empty(int((ends - starts).sum()) + len(starts), np.uint8)
    _gather_lines(data, np.ascontiguousarray(starts), ends, lines)
    return lines[:-1].tobytes().split(b"\n") if len(starts) else []
