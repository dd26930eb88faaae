"""Where the fields of a page stand in its message, found for a batch of messages at once.

Most messages of the `page` schema are plain: one JSON object with a `url` and a `body`, each a
string, each once, the URL without escapes. Of such a message a kernel tells where these begin and
end; the bytes stay where they are, and nothing is made of a message in the interpreter. Any other
message is told to be `UNTOLD`, and a full parser has the say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.text.json_skip import (
    CLOSE_OBJECT,
    COMMA,
    OPEN_OBJECT,
    QUOTE,
    skip_name,
    skip_space,
    skip_string,
    skip_value,
)
from streamer.text.scan import Bytes
from streamer.text.slices import Slices

UNTOLD, PLAIN, ESCAPES = 0, 1, 2  # what is known of a message; ESCAPES: plain, its body has some

Spans = npt.NDArray[np.int64]

URL, BODY, TYPE = 0, 1, 2
FIELDS = 3
_NEEDED = 1 << URL | 1 << BODY
_NAMES = (
    np.frombuffer(b"url", np.uint8),
    np.frombuffer(b"body", np.uint8),
    np.frombuffer(b"content_type", np.uint8),
)


class FieldSpans(NamedTuple):
    """The places of the fields of n messages.

    Attributes:
        told: uint8[n], UNTOLD, PLAIN or ESCAPES.
        spans: int64[n, 3, 2], begin and end of URL, body and content type, without their quotes;
            equal where there is no content type. Nothing is said of a message that is UNTOLD.
    """

    told: npt.NDArray[np.uint8]
    spans: Spans


def find_page_fields(messages: Slices) -> FieldSpans:
    """Return the places of the fields of `messages`, in their block."""
    count = len(messages)
    found = FieldSpans(np.zeros(count, np.uint8), np.zeros((count, FIELDS, 2), np.int64))
    _find_batch(messages.data, messages.starts, messages.ends, _NAMES, found.told, found.spans)
    return found


@kernel
def _find_batch(
    data: Bytes,
    starts: Spans,
    ends: Spans,
    names: tuple[Bytes, Bytes, Bytes],
    told: npt.NDArray[np.uint8],
    spans: Spans,
) -> None:
    """Write the places of each message's fields, and what is known of it."""
    for i in range(starts.shape[0]):
        told[i] = _find_fields(data, starts[i], ends[i], names, spans[i])


@kernel
def _find_fields(
    data: Bytes, at: int, end: int, names: tuple[Bytes, Bytes, Bytes], spans: Spans
) -> int:
    """Write the places of one message's fields; return what is known of it."""
    at = skip_space(data, at, end)
    more = at < end and data[at] == OPEN_OBJECT
    seen = 0
    told = PLAIN
    while more:
        name = skip_space(data, at + 1, end) + 1
        if name >= end or data[name - 1] != QUOTE:
            return UNTOLD
        close, at = skip_name(data, name, end)
        if at < 0 or at >= end:
            return UNTOLD
        field = _field_of(data, name, close, names)
        if field < FIELDS and seen >> field & 1:
            return UNTOLD
        seen |= 1 << field
        at, escaped = _take_value(data, at, end, field, spans)
        if escaped:
            told = ESCAPES
        at = skip_space(data, at, end) if at >= 0 else end
        if at >= end or (data[at] != COMMA and data[at] != CLOSE_OBJECT):
            return UNTOLD
        more = data[at] == COMMA
    if skip_space(data, at + 1, end) < end or seen & _NEEDED != _NEEDED:
        return UNTOLD
    return told


@kernel
def _field_of(data: Bytes, start: int, end: int, names: tuple[Bytes, Bytes, Bytes]) -> int:
    """Return which field has the name data[start:end]; FIELDS for none."""
    for field in range(FIELDS):
        name = names[field]
        if name.shape[0] != end - start:
            continue
        same = 0
        while same < name.shape[0] and data[start + same] == name[same]:
            same += 1
        if same == name.shape[0]:
            return field
    return FIELDS


@kernel
def _take_value(data: Bytes, at: int, end: int, field: int, spans: Spans) -> tuple[int, bool]:
    """Write the place of a field's string; return the place behind it, and whether it has escapes.

    The place is -1 for a value that is not JSON, or not plain for this field.
    """
    if field == FIELDS or (field == TYPE and data[at] == ord("n")):
        return skip_value(data, at, end), False
    if data[at] != QUOTE:
        return -1, False
    begin = at + 1
    close, escaped = skip_string(data, begin, end)
    if close <= begin or (escaped and field != BODY):
        return -1, False
    spans[field, 0] = begin
    spans[field, 1] = close
    return close + 1, escaped
