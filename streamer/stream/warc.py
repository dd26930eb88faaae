"""Records of a byte stream in WARC form as chunks.

warcio reads the headers; the way from record to record is our own, because it must survive garbage
and stay bounded: a line and a header block have a limit, and after what is no record the next line
that begins with `WARC/1.` or `WARC/0.` starts the next one. What lies between is one dead letter
with one ordinal. Only records that may be pages keep their bytes. WARC-Payload-Digest is not looked
at: producers disagree on what it covers.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from warcio.statusandheaders import StatusAndHeadersParser

from streamer.stream.batch import Rejected
from streamer.stream.bytestream import BUFFER_BYTES, ByteStream
from streamer.stream.chunk import (
    CHUNK_BYTES_MAX,
    CHUNK_RECORDS_MAX,
    KEPT_BYTES_MAX,
    RawChunk,
    WarcPage,
    over_limit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADERS_BYTES_MAX = 64 << 10
PAGE_KINDS = frozenset({"response", "resource", "conversion"})
_NO_PAGE_KINDS = frozenset({"request", "warcinfo", "metadata", "revisit", "continuation"})
_VERSIONS = ("WARC/1.", "WARC/0.")
_STARTS = (b"WARC/1.", b"WARC/0.")
_LENGTH = re.compile(r"[0-9]{1,15}")
_Outcome = WarcPage | Rejected | str


class _BrokenRecord(Exception):  # noqa: N818 - becomes a dead letter
    """What stands here is no record; `head` is how it begins."""

    def __init__(self, detail: str, head: bytes) -> None:
        super().__init__(detail)
        self.head = head


class _Truncated(Exception):  # noqa: N818 - as _BrokenRecord
    """The input ends within a record; `head` is what there is of it, `length` how much that is."""

    def __init__(self, detail: str, head: bytes, length: int) -> None:
        super().__init__(detail)
        self.head = head
        self.length = length


class _HeaderLines:
    """The lines of one record's headers, for warcio; no more than the limit in all."""

    def __init__(self, stream: ByteStream, first: bytes) -> None:
        self._stream = stream
        self.seen = bytearray(first)

    def readline(self) -> bytes:
        line = self._stream.reader.readline(HEADERS_BYTES_MAX)
        self.seen += line
        if not line:
            raise _Truncated("the headers end early", bytes(self.seen), len(self.seen))
        if len(self.seen) >= HEADERS_BYTES_MAX:
            raise _BrokenRecord(f"headers of more than {HEADERS_BYTES_MAX} bytes", bytes(self.seen))
        return line


def read_records(stream: ByteStream, start: int, page_bytes_max: int) -> Iterator[RawChunk]:
    """Yield the records of `stream` from ordinal `start` on, ascending and without gaps.

    Garbage becomes the dead letter `bad_warc_record`, a record longer than `page_bytes_max` becomes
    `record_too_large`, and the one that the end of the input or damage cuts off `truncated_input`.
    """
    chunk = RawChunk(start, start, stream.bytes_read)
    size = 0
    for ordinal, outcome in enumerate(_outcomes(stream, page_bytes_max)):
        if ordinal < start:
            continue
        size += _place(chunk, outcome)
        chunk.end = ordinal + 1
        chunk.bytes_read = stream.bytes_read
        if size >= CHUNK_BYTES_MAX or chunk.end - chunk.start >= CHUNK_RECORDS_MAX:
            yield chunk
            chunk, size = RawChunk(chunk.end, chunk.end, stream.bytes_read), 0
    if chunk.end > chunk.start:
        yield chunk


def _place(chunk: RawChunk, outcome: _Outcome) -> int:
    """Put a record's outcome where it belongs; return the bytes that it holds in memory."""
    if isinstance(outcome, str):
        chunk.skipped[outcome] += 1
        return 0
    if isinstance(outcome, Rejected):
        chunk.dead.append(outcome)
        return len(outcome.value)
    chunk.pages.append(outcome)
    return len(outcome.block)


def _outcomes(stream: ByteStream, page_bytes_max: int) -> Iterator[_Outcome]:
    """Yield for every record a page, a dead letter, or the code that it is skipped with."""
    line = b""
    for ordinal in itertools.count():
        line = line or _next_line(stream)
        if not line:
            if stream.damage:
                yield Rejected(ordinal, "truncated_input", stream.damage, None, b"", 0)
            return
        try:
            yield _record(stream, line, ordinal, page_bytes_max)
            line = b""
        except _BrokenRecord as broken:
            dead, line = _resynchronised(stream, broken, ordinal)
            yield dead
        except _Truncated as cut:
            detail = stream.damage or str(cut)
            yield Rejected(ordinal, "truncated_input", detail, None, cut.head, cut.length)
            return


def _next_line(stream: ByteStream) -> bytes:
    """Return the next line that is not blank; none at the end."""
    while line := stream.reader.readline(HEADERS_BYTES_MAX):
        if line.strip():
            break
    return line


def _record(stream: ByteStream, first: bytes, ordinal: int, page_bytes_max: int) -> _Outcome:
    """Read one record whose version line is `first`."""
    headers, length = _headers(stream, first)
    kind = headers.get("warc-type", "").lower()
    if kind not in PAGE_KINDS:
        _pass_over(stream, length, b"")
        return f"warc_{kind}" if kind in _NO_PAGE_KINDS else "warc_other"
    block = stream.reader.read(min(length, page_bytes_max))
    head = block[:KEPT_BYTES_MAX]
    if length > page_bytes_max:
        _pass_over(stream, length - len(block), head)
        return over_limit(ordinal, head, length)
    if len(block) < length:
        raise _Truncated(f"{length - len(block)} bytes are missing", head, len(block))
    return WarcPage(ordinal, kind, headers, block)


def _headers(stream: ByteStream, first: bytes) -> tuple[dict[str, str], int]:
    """Return a record's headers, names in lower case, and the length of its block."""
    if not first.startswith(_STARTS):
        raise _BrokenRecord("no WARC version line", first)
    lines = _HeaderLines(stream, first)
    parsed = StatusAndHeadersParser(_VERSIONS, verify=False).parse(lines, first)
    headers: dict[str, str] = {}
    for name, value in parsed.headers:
        headers.setdefault(name.lower(), value)
    length = headers.get("content-length", "")
    if not _LENGTH.fullmatch(length):
        raise _BrokenRecord("no usable Content-Length", bytes(lines.seen))
    return headers, int(length)


def _pass_over(stream: ByteStream, size: int, head: bytes) -> None:
    """Take `size` bytes unseen; `head` is what the dead letter shows if they end early."""
    left = size
    while left:
        part = stream.reader.read(min(left, BUFFER_BYTES))
        if not part:
            raise _Truncated(f"{left} bytes are missing", head, len(head) + size - left)
        left -= len(part)


def _resynchronised(
    stream: ByteStream, broken: _BrokenRecord, ordinal: int
) -> tuple[Rejected, bytes]:
    """Pass over garbage; return its dead letter and the version line after it (none at the end)."""
    head = bytearray(broken.head)
    length = len(head)
    starts_line = broken.head.endswith(b"\n")
    while line := stream.reader.readline(HEADERS_BYTES_MAX):
        if starts_line and line.startswith(_STARTS):
            break
        starts_line = line.endswith(b"\n")
        length += len(line)
        head += line[: max(0, KEPT_BYTES_MAX - len(head))]
    kept = bytes(head[:KEPT_BYTES_MAX])
    return Rejected(ordinal, "bad_warc_record", str(broken), None, kept, length), line
