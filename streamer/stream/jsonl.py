"""Lines of a byte stream as chunks of records.

Every line has an ordinal, blank ones too; what follows the last newline is a line where the caller
says so. What is no line becomes a dead letter in a chunk of its own. This module does not look into
a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamer.stream.bytestream import ByteStream, Mark, Trail
from streamer.stream.chunk import (
    CHUNK_RECORDS_MAX,
    HEAD_BYTES_MAX,
    HEAD_RECORDS_MAX,
    Ending,
    RawChunk,
    over_limit,
)
from streamer.stream.line_reader import LineReader, OddLine
from streamer.text.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(
    stream: ByteStream,
    start: int,
    trail: Trail,
    ending: Ending,
    page_bytes_max: int,
    accepts: Callable[[bytes], bool] = bool,
) -> Iterator[RawChunk]:
    """Yield the lines from where `stream` and `trail` are, as the ordinals from `start` on.

    A chunk holds up to 4,000 lines and, unless a single line is longer, about 8 MiB; a line keeps
    its newline. One of more than `page_bytes_max` bytes, newline included, becomes the dead letter
    `record_too_large`. What stands behind the last newline is a line if `accepts` says so of it;
    else it is left, as is what damage has torn off, and `ending` tells of it.
    """
    order_mark = b""
    if not trail.offset and stream.reader.peek(3).startswith(_BYTE_ORDER_MARK):
        order_mark = stream.reader.read(len(_BYTE_ORDER_MARK))
        trail.take(order_mark)
    at = start
    source = LineReader(stream, page_bytes_max, trail, accepts)
    while True:
        lines = source.take(CHUNK_RECORDS_MAX)
        if lines:
            if not lines[-1].endswith(b"\n"):
                trail.take(b"\n")  # so that one which comes later changes nothing
            heads = [] if at else _heads(lines, order_mark)
            end = at + len(lines)
            yield RawChunk(at, end, stream.bytes_read, lines, mark=trail.mark(), heads=heads)
            at = end
            continue
        odd = source.take_odd()
        if odd is None or not (odd.has_end or _is_line(stream, odd, page_bytes_max, accepts)):
            _tell_end(stream, odd, ending)
            return
        dead = over_limit(at, odd.head, odd.length)
        yield RawChunk(at, at + 1, stream.bytes_read, dead=[dead], mark=trail.mark())
        at += 1


def _is_line(
    stream: ByteStream, odd: OddLine, limit: int, accepts: Callable[[bytes], bool]
) -> bool:
    """Tell whether a line without an end, of which the head is there, is over the page limit."""
    return len(odd.head) > limit and not stream.damage and accepts(odd.head)


def _tell_end(stream: ByteStream, odd: OddLine | None, ending: Ending) -> None:
    """Say what was left."""
    ending.damage = stream.damage or ""
    if odd is not None and odd.head.strip():
        ending.unended_bytes = odd.length


def _heads(lines: Slices, order_mark: bytes) -> list[Mark]:
    """Return the places behind the first lines of a stream, by which it is known again."""
    trail, heads = Trail(), []
    trail.take(order_mark)
    for number in range(min(len(lines), HEAD_RECORDS_MAX)):
        trail.take(lines[number].removesuffix(b"\n") + b"\n")
        heads.append(trail.mark())
        if trail.offset > HEAD_BYTES_MAX:
            break
    return heads
