"""Lines of a byte stream as chunks of records.

Every line has an ordinal, blank ones too; what follows the last newline is a line if it is not
empty. What is no line becomes a dead letter in a chunk of its own. This module does not look into
a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.stream.batch import Rejected
from streamer.stream.bytestream import ByteStream
from streamer.stream.chunk import CHUNK_RECORDS_MAX, KEPT_BYTES_MAX, RawChunk, over_limit
from streamer.stream.line_reader import LineReader, OddLine, pass_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(
    stream: ByteStream, start: int, page_bytes_max: int, *, first_alone: bool = False
) -> Iterator[RawChunk]:
    """Yield the lines of `stream` from ordinal `start` on, ascending and without gaps.

    With `first_alone` the first line makes up a chunk of its own, and the others are cut as if it
    were not there.

    A chunk holds up to 4,000 lines and, unless a single line is longer, about 8 MiB; a line keeps
    its newline. One of more than `page_bytes_max` bytes, newline included, becomes the dead letter
    `record_too_large`; what stands between the last complete line and damage in the compression
    becomes `truncated_input`.
    """
    reader = stream.reader
    if reader.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
        reader.read(len(_BYTE_ORDER_MARK))
    for _ in range(start):
        if not pass_line(stream):
            return
    at = start
    lines_max = 1 if first_alone else CHUNK_RECORDS_MAX
    source = LineReader(stream, page_bytes_max)
    while True:
        lines = source.take(lines_max)
        lines_max = CHUNK_RECORDS_MAX
        if lines:
            yield RawChunk(at, at + len(lines), stream.bytes_read, lines)
            at += len(lines)
            continue
        dead = _dead_letter(stream, at, source.take_odd(), page_bytes_max)
        if dead is None:
            return
        yield RawChunk(at, at + 1, stream.bytes_read, dead=[dead])
        at += 1
        if dead.code == "truncated_input":
            return


def _dead_letter(
    stream: ByteStream, ordinal: int, odd: OddLine | None, page_bytes_max: int
) -> Rejected | None:
    """Return the dead letter of what is no line: too long or torn off; None at a clean end."""
    head, length = odd or OddLine(b"", 0)
    if len(head) > page_bytes_max:
        return over_limit(ordinal, head, length)
    if stream.damage:
        return Rejected(
            ordinal, "truncated_input", stream.damage, None, head[:KEPT_BYTES_MAX], length
        )
    return None
