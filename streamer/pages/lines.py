"""Lines as records: a chunk at a time, in the block of memory that they were read into.

Every line has an ordinal, blank ones too. A line is neither copied nor made an object, and nothing
here looks into one. A line that is over the page limit, and one that damage in the compression has
torn off, is no record: `take` ends before it, and `take_malformed` returns it, with its length
counted to its end while only its beginning is kept: memory stays bounded. It becomes a dead letter
in a chunk of its own. What follows the last newline is a line where the caller says so.

Of a pipe the lines come in time, as `Hurry` says: they are taken however few they are. While there
is nothing to take, a chunk without records comes at the end of each turn.

Dead letters of an earlier run are lines too: the records that they hold are judged again. A line is
read as the message that it was, with its key. What cannot be judged again stays a dead letter with
its code: one that was cut, or a record of a WARC or ARC file, whose headers a dead letter lacks. A
line that is no dead letter is a message itself.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import numpy as np

from streamer.model import DeadLetter
from streamer.pages import chunk as chunks
from streamer.pages.bytestream import ByteStream, Mark, Trail
from streamer.pages.chunk import Chunk, Ending, Message, RejectedRecord
from streamer.pages.members import BUFFER_BYTES
from streamer.pages.records import InputFile, Records
from streamer.pages.spread_json import BYTE_ORDER_MARK, is_spread, may_follow
from streamer.text.scan import Bytes
from streamer.text.slices import Places, Slices, find_line_ends
from streamer.text.tokens import SLACK

SMALL_RECORDS_MAX = 9  # of a file that is read at once
_READ_BYTES = 1 << 20
_BEGINNING_BYTES = 1 << 16  # shows whether objects are a line each
_LINE_ENDS_IN_BYTES = 16 << 10  # read at once to find the end of a chunk's last line


class MalformedLine(NamedTuple):
    """A piece of the stream that is no valid line: its first bytes, its length without newline."""

    head: bytes
    length: int
    has_end: bool


@dataclass
class LineReader:
    """Reads lines of up to `_limit` bytes, newline included, from where the stream is.

    What is after the last newline is a line if `accepts` says so of it.
    """

    _stream: ByteStream
    _limit: int
    _trail: Trail = field(default_factory=Trail)
    _accepts: Callable[[bytes], bool] = bool
    _rest: bytes = b""  # read, and not yet taken
    _ended: bool = False
    pauses: bool = False  # `take` has returned no line, since none is due yet

    def take(self, lines_max: int) -> Slices:
        """Return the next lines: `lines_max` of them, or until they make up CHUNK_BYTES_MAX bytes.

        There are fewer where the stream ends, a malformed line follows, or time is up; none where
        one of these comes first. Then `pauses` says whether it is time.
        """
        hurry = self._stream.hurry
        hurry.begin_tick()
        self.pauses = False
        data = np.empty(chunks.CHUNK_BYTES_MAX + _LINE_ENDS_IN_BYTES + SLACK, np.uint8)
        filled = len(self._rest)
        if filled + SLACK > len(data):
            data = np.empty(filled + SLACK, np.uint8)
        data[:filled] = np.frombuffer(self._rest, np.uint8)
        ends = np.empty(lines_max, np.int64)
        count = searched = last = 0
        at_end = False
        while not at_end:
            count, searched = find_line_ends(
                data, searched, filled, ends, count, chunks.CHUNK_BYTES_MAX
            )
            last = int(ends[count - 1]) if count else 0
            if count == lines_max or last >= chunks.CHUNK_BYTES_MAX or filled - last > self._limit:
                break
            if hurry.is_due(waiting=bool(count)):
                break
            if hurry.tick_is_over:
                self.pauses = True
                self._rest = data[:filled].tobytes()
                return Slices.joined()
            if filled + _LINE_ENDS_IN_BYTES + SLACK > len(data):
                data = np.concatenate((data, np.empty(len(data), np.uint8)))
            place = data.data[filled : _read_to(filled)]
            part = 0 if self._ended else self._stream.read_into(place)
            self._ended = at_end = part == 0
            filled += part or 0
        ends = ends[:count]
        unended = data[last:filled].tobytes() if at_end and not self._stream.damage else b""
        if unended and self._accepts(unended):
            ends = np.append(ends, filled)
        lines = self._bound_length(data, ends)
        cut = int(lines.ends[-1]) if lines else 0
        self._trail.take(data[:cut])
        self._rest = data[cut:filled].tobytes()
        hurry.hand_on()
        return lines

    def take_malformed(self) -> MalformedLine:
        """Take what is where `take` returns no line; it is empty at the end of the stream."""
        rest = self._rest
        line = rest[: rest.find(b"\n") + 1] or rest
        self._rest = rest[len(line) :]
        self._trail.take(line)
        length, last = len(line), line
        while (
            line and not last.endswith(b"\n") and (part := self._stream.read(BUFFER_BYTES)) != b""
        ):
            end = (part or b"").find(b"\n") + 1 or BUFFER_BYTES
            last, self._rest = (part or b"")[:end], (part or b"")[end:]
            self._trail.take(last)
            length += len(last)
        has_end = last.endswith(b"\n")
        return MalformedLine(line, length - has_end, has_end)

    def _bound_length(self, data: Bytes, ends: Places) -> Slices:
        """Return the lines before the first that is over the limit."""
        starts = np.concatenate((np.zeros(1, np.int64), ends))[: len(ends)]
        over = np.flatnonzero(ends - starts > self._limit)
        count = int(over[0]) if len(over) else len(ends)
        return Slices(data, starts[:count], ends[:count])


def _read_to(filled: int) -> int:
    """Return up to where the next read goes: small steps, once the chunk has its bytes."""
    if filled >= chunks.CHUNK_BYTES_MAX:
        return filled + _LINE_ENDS_IN_BYTES
    return min(filled + _READ_BYTES, chunks.CHUNK_BYTES_MAX)


def _heads(lines: Slices, order_mark: bytes) -> list[Mark]:
    """Return the places after the first lines of a stream, by which it is known again."""
    trail, heads = Trail(), []
    trail.take(order_mark)
    for number in range(min(len(lines), chunks.HEAD_RECORDS_MAX)):
        trail.take(lines[number].removesuffix(b"\n") + b"\n")
        heads.append(trail.mark())
        if trail.offset > chunks.HEAD_BYTES_MAX:
            break
    return heads


class LineRecords(Records):
    """The lines of a file or pipe."""

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`.

        A chunk holds up to 4,000 lines and, unless a single line is longer, about 8 MiB; a line
        keeps its newline. One that is over the page limit, newline included, becomes the dead
        letter `record_too_large`. What is after the last newline is a line in a file that is
        complete, and in a pipe if it ends as an object; else it is left, as is what damage has torn
        off, and `ending` reports it.
        """
        stream, trail, limit = self._stream, self._trail, self._file.page_bytes_max
        order_mark = b""
        if not trail.offset and stream.look(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK):
            order_mark = stream.reader.read(len(BYTE_ORDER_MARK))
            trail.take(order_mark)
        accepts = bool if complete or stream.is_compressed else self._accepts
        source = LineReader(stream, limit, trail, accepts)
        at = start
        while True:
            lines = source.take(chunks.CHUNK_RECORDS_MAX)
            if lines:
                if not lines[-1].endswith(b"\n"):
                    trail.take(b"\n")  # so that one which comes later changes nothing
                heads = [] if at else _heads(lines, order_mark)
                end = at + len(lines)
                yield Chunk(at, end, stream.bytes_read, lines, mark=trail.mark(), heads=heads)
                at = end
                continue
            if source.pauses:
                yield Chunk(at, at, stream.bytes_read)
                continue
            bad = source.take_malformed()
            # One that is over the limit needs no end.
            is_long = len(bad.head) > limit and not stream.damage and accepts(bad.head)
            if not (bad.has_end or is_long):
                ending.damage = stream.damage or ""
                if bad.head.strip():
                    ending.unended_bytes = bad.length
                return
            dead = chunks.over_limit(at, bad.head, bad.length)
            yield Chunk(at, at + 1, stream.bytes_read, dead=[dead], mark=trail.mark())
            at += 1

    def _accepts(self, last: bytes) -> bool:
        """Return whether a last line without an end is one: in a pipe, if it ends as an object."""
        return not self._file.is_regular and last.rstrip().endswith(b"}")


def open_json_lines(file: InputFile, stream: ByteStream) -> LineRecords:
    """Return JSON objects as lines, however they stand there."""
    # A pipe may give its second line much later.
    head = stream.look(_BEGINNING_BYTES) if file.is_regular else stream.first
    if file.is_regular and is_spread(head) is None:
        head = stream.look(file.page_bytes_max)
    stream.spread(head)
    return LineRecords(file, stream)


def small_lines(file: InputFile, data: bytes, complete: bool) -> Chunk | None:  # noqa: FBT001 - as others
    """Return the lines of a whole file as one chunk; None: it takes more care.

    So do files of many lines, those that begin otherwise than JSON lines do, and, unless the file
    is `complete`, a last line without an end.
    """
    *whole, last = data.split(b"\n")
    lines = [line + b"\n" for line in whole] + ([last] if last else [])
    is_long = len(lines) > SMALL_RECORDS_MAX or len(data) > file.page_bytes_max
    is_plain = data[:2] in {b"", b'{"'} and not (is_spread(data) or may_follow(data))
    if is_long or (last and not complete) or not is_plain:
        return None
    trail = Trail()
    trail.take(data + b"\n" if last else data)
    return Chunk(0, len(lines), len(data), Slices.joined(lines), mark=trail.mark())


# A record that is judged again gets the place of its dead letter. Keeping its old place took a
# source of its own in the log, intervals in the catalogue, and 500 lines.
_SHARE_OF_A_PAGE = 2  # base64 makes four bytes of three, and there is a key

_decode = msgspec.json.Decoder(DeadLetter).decode


class LetterRecords(LineRecords):
    """The records of the dead letters of a file; `is_message` says so of a source by its name."""

    def __init__(
        self, file: InputFile, stream: ByteStream, is_message: Callable[[str], bool]
    ) -> None:
        longer = replace(file, page_bytes_max=_SHARE_OF_A_PAGE * file.page_bytes_max)
        super().__init__(longer, stream)
        self._is_message = is_message

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`."""
        for chunk in super().chunks(start, ending, complete=complete):
            yield self._opened(chunk) if chunk.lines else chunk

    def _opened(self, chunk: Chunk) -> Chunk:
        """Return the chunk with what the dead letters hold."""
        opened = replace(chunk, lines=Slices.joined())
        for ordinal, line in enumerate(chunk.lines, chunk.start):
            found = self._record(ordinal, bytes(line))
            if isinstance(found, RejectedRecord):
                opened.dead.append(found)
            else:
                opened.messages.append(found)
        return opened

    def _record(self, ordinal: int, line: bytes) -> Message | RejectedRecord:
        try:
            letter = _decode(line)
            key = None if letter.key_base64 is None else base64.b64decode(letter.key_base64)
            value = base64.b64decode(letter.value_base64)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return ordinal, None, line.strip()
        if letter.truncated or not self._is_message(letter.page.topic):
            size = letter.value_bytes
            return RejectedRecord(ordinal, letter.code, letter.detail, key, value, size)
        return ordinal, key, value
