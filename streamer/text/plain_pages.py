"""What is told of a batch of page messages at once, of those whose fields have been found.

Most have a URL of printable ASCII characters, a body that begins with one that is no white space,
and the type of the message before. A kernel sees that, and gathers URLs: only of the others does
the interpreter look at each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.text.page_fields import BODY, TYPE, UNTOLD, URL, Spans
from streamer.text.scan import Bytes

_SPACE, _BACKSLASH, _NEWLINE, _DELETE = 0x20, 0x5C, 0x0A, 0x7F

Mask = npt.NDArray[np.bool_]


@kernel
def mark_sure(
    data: Bytes, told: npt.NDArray[np.uint8], spans: Spans, url_bytes_max: int, sure: Mask
) -> None:
    """Mark the pages whose URL can stand as it is, and whose body is not blank, beyond doubt."""
    for i in range(told.shape[0]):
        start, end = spans[i, URL, 0], spans[i, URL, 1]
        first = data[spans[i, BODY, 0]]
        sure[i] = told[i] != UNTOLD and first not in (_SPACE, _BACKSLASH)
        sure[i] &= start < end <= start + url_bytes_max
        at = start
        while sure[i] and at < end:
            sure[i] = _SPACE < data[at] < _DELETE
            at += 1


@kernel
def mark_type_changes(data: Bytes, spans: Spans, changes: Mask) -> None:
    """Mark the pages whose content type is not, byte by byte, that of the one before."""
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


def gathered(data: Bytes, starts: Spans, ends: Spans) -> list[bytes]:
    """Return the strings data[starts[i]:ends[i]], none of which has a newline."""
    lines = np.empty(int((ends - starts).sum()) + len(starts), np.uint8)
    _gather_lines(data, np.ascontiguousarray(starts), ends, lines)
    return lines[:-1].tobytes().split(b"\n") if len(starts) else []
