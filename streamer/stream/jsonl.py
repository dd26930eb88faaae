"""Lines of a byte stream as chunks of records.

A line is read and put into a list, nothing more: the read costs less than a microsecond a line. A
line that is over the page limit is counted to its end while only its beginning is kept, so that
memory stays bounded. Every line has an ordinal, blank ones too; what follows the last newline is a
line if it is not empty. This module does not look into a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.stream.batch import Rejected
from streamer.stream.bytestream import BUFFER_BYTES, ByteStream
from streamer.stream.chunk import (
    CHUNK_BYTES_MAX,
    CHUNK_RECORDS_MAX,
    KEPT_BYTES_MAX,
    RawChunk,
    over_limit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(
    stream: ByteStream, start: int, page_bytes_max: int, *, first_alone: bool = False
) -> Iterator[RawChunk]:
    """Yield the lines of `stream` from ordinal `start` on, ascending and without gaps.

    With `first_alone` the first line makes up a chunk of its own, and the others are cut as if it
    were not there.

    A chunk holds up to 1,000 lines and, unless a single line is longer, about 2 MiB; a line keeps
    its newline. One of more than `page_bytes_max` bytes, newline included, becomes the dead letter
    `record_too_large`; what stands between the last complete line and damage in the compression
    becomes `truncated_input`.
    """
    reader = stream.reader
    if reader.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
        reader.read(len(_BYTE_ORDER_MARK))
    for _ in range(start):
        if not _pass_line(stream):
            return
    at = start
    lines_max = 1 if first_alone else CHUNK_RECORDS_MAX
    while True:
        lines, last = _some_lines(stream, page_bytes_max, lines_max)
        lines_max = CHUNK_RECORDS_MAX
        if lines:
            yield RawChunk(at, at + len(lines), stream.bytes_read, lines)
            at += len(lines)
        if last is None:
            continue
        dead = _dead_letter(stream, at, last, page_bytes_max)
        if dead is None:
            return
        yield RawChunk(at, at + 1, stream.bytes_read, dead=[dead])
        at += 1
        if dead.code == "truncated_input":
            return


def _some_lines(
    stream: ByteStream, page_bytes_max: int, lines_max: int
) -> tuple[list[bytes], bytes | None]:
    """Return the next lines, and the part of a line that ended them early, else None."""
    readline = stream.reader.readline
    size_max = page_bytes_max + 1
    lines: list[bytes] = []
    size = 0
    while size < CHUNK_BYTES_MAX and len(lines) < lines_max:
        line = readline(size_max)
        length = len(line)
        if not length or length == size_max or (stream.damage and line[-1:] != b"\n"):
            return lines, line
        size += length
        lines.append(line)
    return lines, None


def _dead_letter(
    stream: ByteStream, ordinal: int, part: bytes, page_bytes_max: int
) -> Rejected | None:
    """Return the dead letter of what is no line: too long or torn off; None at a clean end."""
    if len(part) > page_bytes_max:
        head = part[:KEPT_BYTES_MAX]
        length = len(part.removesuffix(b"\n"))
        if not part.endswith(b"\n"):
            length += _pass_line(stream, newline_bytes=0)
        return over_limit(ordinal, head, length)
    if stream.damage:
        head = part[:KEPT_BYTES_MAX]
        return Rejected(ordinal, "truncated_input", stream.damage, None, head, len(part))
    return None


def _pass_line(stream: ByteStream, newline_bytes: int = 1) -> int:
    """Take the rest of a line, in pieces; return its bytes, its newline counted as told."""
    length = 0
    while piece := stream.reader.readline(BUFFER_BYTES):
        length += len(piece)
        if piece.endswith(b"\n"):
            return length - 1 + newline_bytes
    return length
