"""Records of a byte stream in WARC or ARC form as chunks.

warcio reads the headers; the way from record to record is our own, because it must survive garbage
and stay bounded. A length that leads to something other than the next record is believed only if
no record begins within the block: else the length is wrong, and reading goes on there. After what
is no record, and after a damaged gzip member, the next record is searched for. What is between
is one dead letter with one ordinal. Only records that may be pages keep their bytes.
In a pipe that pauses, a record is taken as soon as no later byte can change what it is.
WARC-Payload-Digest is not looked at: producers disagree on what it covers.
"""

# Wasted work of the search is bounded; otherwise forged members would take for ever.

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from warcio.statusandheaders import StatusAndHeadersParser

from streamer.errors import InvalidPage
from streamer.pages import chunk as chunks
from streamer.pages.bytestream import ByteStream, Trail
from streamer.pages.chunk import Chunk, Ending, Outcome, RejectedRecord, WarcPage
from streamer.pages.members import Gap
from streamer.pages.records import InputFile, Records

HEADERS_BYTES_MAX = 64 << 10
PAGE_KINDS = frozenset({"response", "resource", "conversion"})
_NO_PAGE_KINDS = frozenset({"request", "warcinfo", "metadata", "revisit", "continuation"})
_VERSIONS = ("WARC/1.", "WARC/0.")
_LENGTH = re.compile(r"[0-9]{1,15}")
_STEP_BYTES = 1 << 20  # read at once
_BETWEEN_BYTES_MAX = 64  # of blank lines between two records, to see what follows
_BRACKETED = re.compile(r"\s*<([^<>]*)>\s*")
_NOT_BLANK = re.compile(rb"\S")
_END_OF_HEADERS = re.compile(rb"\n\r?\n")


class _BrokenRecord(Exception):  # noqa: N818 - becomes a dead letter
    """What is here is no record."""


class _Truncated(Exception):  # noqa: N818 - as _BrokenRecord
    """The input ends within a record, or is damaged there."""


class _NothingYet(Exception):  # noqa: N818 - no error: the record is asked for again
    """A pipe pauses, and what it gave is not enough."""


class _Window:
    """The part of a stream that is in memory: what comes next, as far as it was asked for."""

    def __init__(self, stream: ByteStream | None, trail: Trail, data: bytes = b"") -> None:
        self._stream = stream
        self._trail = trail
        self.data = bytearray(data)
        self.at = 0

    def ahead(self, size: int, enough: Callable[[int], object] = lambda _have: False) -> int:
        """Have `size` bytes ahead, as far as the stream goes; return how many there are.

        Where a pipe pauses there are fewer, if `enough` says so of their number.

        Raises:
            _NothingYet: they are not enough.
        """
        while (have := len(self.data) - self.at) < size and self._stream is not None:
            is_over = self._stream.hurry.tick_is_over
            part = None if is_over else self._stream.read(max(_STEP_BYTES, size - have))
            if part is None and not enough(have):
                raise _NothingYet
            if not part:
                return have
            self.data += part
        return have

    def release(self) -> None:
        """Forget what was taken: places in `data` are others then."""
        if self.at > _STEP_BYTES:
            del self.data[: self.at - 1]  # a line's beginning is known by the byte before it
            self.at = 1

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes, which are ahead."""
        taken = bytes(self.data[self.at : self.at + size])
        self._trail.take(taken)
        self.at += size
        return taken

    @contextmanager
    def looking_at(self, place: int) -> Iterator[None]:
        """Stand at another place of `data` for a while."""
        here, self.at = self.at, place
        try:
            yield
        finally:
            self.at = here


class _Header(NamedTuple):
    """A record's header: its kind, its fields by lower-case name, and the bytes of both parts."""

    kind: str
    fields: dict[str, str]
    size: int
    length: int


class Warc:
    """WARC: a version line, named fields, a blank line.

    Attributes:
        first: how a line begins that may begin a record.
        line_bytes: that must be ahead to match it.
    """

    first = re.compile(rb"^WARC/[01]\.", re.MULTILINE)
    line_bytes = 8

    def header(self, window: _Window) -> _Header:
        """Return the header of the record that begins here.

        Raises:
            _BrokenRecord: there is none.
            _Truncated: the stream ends within it.
        """
        window.ahead(self.line_bytes)
        if not self.first.match(window.data, window.at):
            raise _BrokenRecord("no WARC version line")
        data, at = window.data, window.at
        have = window.ahead(
            HEADERS_BYTES_MAX, lambda have: _END_OF_HEADERS.search(data, at, at + have)
        )
        limit = at + min(have, HEADERS_BYTES_MAX)
        end = _END_OF_HEADERS.search(data, at, limit)
        if self.first.search(data, at + 1, end.end() if end else limit):
            raise _BrokenRecord("headers that another record's follow")
        if end is None and have >= HEADERS_BYTES_MAX:
            raise _BrokenRecord(f"headers of more than {HEADERS_BYTES_MAX} bytes")
        if end is None:
            raise _Truncated("the headers end early")
        size = end.end() - at
        lines = io.BytesIO(bytes(data[at : at + size]))
        parsed = StatusAndHeadersParser(_VERSIONS, verify=False).parse(lines, lines.readline())
        fields: dict[str, str] = {}
        for name, value in parsed.headers:
            fields.setdefault(name.lower(), value)
        if bracketed := _BRACKETED.fullmatch(fields.get("warc-target-uri", "")):  # as of wget
            fields["warc-target-uri"] = bracketed[1]
        length = fields.get("content-length", "").strip()
        if not _LENGTH.fullmatch(length):
            raise _BrokenRecord("no usable Content-Length")
        return _Header(fields.get("warc-type", "").lower(), fields, size, int(length))


class Arc:
    """ARC: a line of URL, address, time, type and length; in version 2 there are more fields.

    Its attributes are those of `Warc`.
    """

    first = re.compile(
        rb"^(?P<url>[A-Za-z][A-Za-z0-9+.-]{0,30}:[^\r\n]{1,8192}?) \S{1,64} (?P<time>[0-9]{8,14})"
        rb" (?P<type>[^ \r\n]{1,255})(?: [^ \r\n]{1,255}){0,6} (?P<length>[0-9]{1,15})\r?\n",
        re.MULTILINE,
    )
    line_bytes = 12 << 10

    def header(self, window: _Window) -> _Header:
        """Return the header of the record that begins here; as in `Warc`."""
        window.ahead(self.line_bytes, lambda _have: window.data.find(b"\n", window.at) >= 0)
        found = self.first.match(window.data, window.at)
        if found is None:
            raise _BrokenRecord("no ARC header line")
        names = {"warc-target-uri": "url", "warc-date": "time", "content-type": "type"}
        fields = {name: found[group].decode(errors="replace") for name, group in names.items()}
        kind = "filedesc" if fields["warc-target-uri"].startswith("filedesc:") else "response"
        return _Header(kind, fields, found.end() - window.at, int(found["length"]))


_FORMATS: dict[str, Warc | Arc] = {"WARC": Warc(), "ARC": Arc()}


def begins_record(kind: str, head: bytes) -> bool:
    """Return whether a record of a `kind`, WARC or ARC, begins here."""
    return bool(_FORMATS[kind].first.match(head))


def begins_file(kind: str, head: bytes) -> bool:
    """Return whether a file of a `kind` begins here: an ARC file does with a record of its own."""
    return begins_record(kind, head) and (kind != "ARC" or head.startswith(b"filedesc:"))


@dataclass(slots=True)
class _Passing:
    """What is skipped: a long record, or else garbage; how it began, how far one has got."""

    what: str
    header: _Header | None = None
    kept: bytes = b""
    size: int = 0

    def add(self, part: bytes, kept_bytes_max: int = chunks.KEPT_BYTES_MAX) -> None:
        """Go on by `part`."""
        self.kept += part[: max(0, kept_bytes_max - len(self.kept))]
        self.size += len(part)


class WarcRecords(Records):
    """The records of a WARC or ARC file or pipe.

    Garbage, and lengths that reach over the next record, become the dead letter `bad_warc_record`,
    damaged gzip members before others `damaged_member`, a record that is over the page limit
    `record_too_large`. What the end of the input or damage cuts off is left, and `ending` has
    it; with `complete` what the end cuts off becomes `truncated_input` as well.
    """

    def __init__(self, file: InputFile, stream: ByteStream, kind: str) -> None:
        super().__init__(file, stream)
        self._kind = kind
        self._format = _FORMATS[kind]
        self._window = _Window(stream, self._trail)
        self._limit = file.page_bytes_max
        self._passing: _Passing | None = None
        self._may_wait = stream.hurry.seconds is None  # for what is after the damage

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`."""
        self._ending, self._complete = ending, complete
        stream = self._stream
        chunk = Chunk(start, start, stream.bytes_read)
        while True:
            try:
                if (outcome := self._next(chunk.end)) is None:
                    break
                self._passing = None
                chunk.add(outcome, self._trail.mark(), stream.bytes_read)
                pauses = stream.hurry.tick_is_over
            except _NothingYet:
                pauses = True
            waiting = chunk.end > chunk.start
            is_due = stream.hurry.is_due(waiting=waiting) or (waiting and pauses and stream.damage)
            if is_due or chunk.is_full:
                yield chunk
                stream.hurry.hand_on()
                chunk = Chunk(chunk.end, chunk.end, stream.bytes_read)
            if pauses:
                yield Chunk(chunk.end, chunk.end, stream.bytes_read)
                stream.hurry.begin_tick()
        if chunk.end > chunk.start:
            yield chunk

    def _recover(self) -> Gap | None:
        return self._stream.recover(partial(begins_record, self._kind))

    def _next(self, ordinal: int) -> Outcome | None:
        """Return what becomes of the next record; None at the end, which `ending` describes.

        Raises:
            _NothingYet: a pipe pauses.
        """
        self._window.release()
        try:
            if passing := self._passing:
                skip = self._garbage if passing.header is None else self._long_record
                return skip(ordinal, passing)
            if self._pass_blanks():
                return self._record(ordinal)
            return self._behind_damage(ordinal, "") if self._stream.damage else None
        except _BrokenRecord as broken:
            self._passing = _Passing(str(broken))
            return self._garbage(ordinal, self._passing)
        except _Truncated as cut:
            return self._behind_damage(ordinal, str(cut))

    def _pass_blanks(self) -> bool:
        """Go to the next line that is not blank; return whether there is one."""
        window = self._window
        while have := window.ahead(
            _STEP_BYTES, lambda have: _NOT_BLANK.search(window.data, window.at, window.at + have)
        ):
            found = _NOT_BLANK.search(window.data, window.at, window.at + have)
            end = found.start() if found else window.at + have
            line = window.data.rfind(b"\n", window.at, end) + 1
            window.take(max(line, window.at) - window.at if found else have)
            if found:
                return True
            window.release()
        return False

    def _record(self, ordinal: int) -> Outcome:
        """Read the record that begins here."""
        window = self._window
        header = self._format.header(window)
        size = header.size + header.length
        if header.length > self._limit:
            window.take(header.size)
            self._passing = _Passing(_wrong(header.length), header)
            return self._long_record(ordinal, self._passing)
        stands_alone = partial(self._stands_alone, header.size, size)
        have = window.ahead(size + _BETWEEN_BYTES_MAX + self._format.line_bytes, stands_alone)
        if not self._leads_on(size, have):
            begin, end = window.at + header.size, window.at + min(size, have)
            found = self._next_header(begin, end)
            if found is not None:
                kept = window.take(found - window.at)
                return self._bad(ordinal, kept, len(kept), _wrong(header.length))
            if have < size:
                raise _Truncated(f"{size - have} bytes of the last record are missing")
        if header.kind not in PAGE_KINDS:
            window.take(size)
            return _skip_code(self._kind, header.kind)
        head, block = window.take(header.size), window.take(header.length)
        return WarcPage(ordinal, header.kind, header.fields, block, head)

    def _leads_on(self, size: int, have: int) -> bool:
        """Return whether after `size` bytes there is the next record, or the end."""
        data, begin = self._window.data, self._window.at + size
        found = _NOT_BLANK.search(data, begin, begin + _BETWEEN_BYTES_MAX)
        return have >= size and (not found or bool(self._format.first.match(data, found.start())))

    def _stands_alone(self, begin: int, end: int, have: int) -> bool:
        """Return whether no record can begin between these places: what follows changes nothing."""
        window, first = self._window, self._format.first
        return have >= end and not first.search(window.data, window.at + begin, window.at + end)

    def _next_header(self, begin: int, end: int) -> int | None:
        """Return where in the window a whole header begins, between these places."""
        window, first = self._window, self._format.first
        while found := first.search(window.data, begin, end):
            begin = found.start() + 1
            with suppress(_BrokenRecord, _Truncated), window.looking_at(found.start()):
                self._format.header(window)
                return found.start()
        return None

    def _long_record(self, ordinal: int, passing: _Passing) -> Outcome:
        """Skip a record that is over the limit, unless others begin within."""
        window, header = self._window, passing.header
        assert header is not None, passing
        while left := header.length - passing.size:
            window.release()
            wanted = min(left, _STEP_BYTES)
            have = window.ahead(wanted + HEADERS_BYTES_MAX, partial(self._stands_alone, 0, wanted))
            if not have:
                raise _Truncated(f"{left} bytes of the last record are missing")
            inner = self._inner_record(window.at, window.at + min(have, wanted))
            step = min(have, wanted) if inner is None else inner - window.at
            passing.add(window.take(step), min(chunks.KEPT_BYTES_MAX, self._limit))
            if inner is not None:
                return self._bad(ordinal, passing.kept, header.size + passing.size, passing.what)
        if header.kind not in PAGE_KINDS:
            return _skip_code(self._kind, header.kind)
        return chunks.over_limit(ordinal, passing.kept, header.length)

    def _inner_record(self, begin: int, end: int) -> int | None:
        """Return where a record begins that another follows, between these places."""
        window = self._window
        while (found := self._next_header(begin, end)) is not None:
            with window.looking_at(found):
                header = self._format.header(window)
                size = header.size + header.length
                if header.length <= self._limit and self._leads_on(
                    size, window.ahead(size + _BETWEEN_BYTES_MAX + self._format.line_bytes)
                ):
                    return found
            begin = found + 1
        return None

    def _garbage(self, ordinal: int, passing: _Passing) -> RejectedRecord:
        """Skip what is no record, to the next line that may begin one."""
        window, first = self._window, self._format.first
        wanted = _STEP_BYTES + self._format.line_bytes
        while True:
            begin = window.at + (0 if passing.size else 1)
            have = window.ahead(
                wanted,
                lambda have: first.search(window.data, begin, window.at + have),  # noqa: B023 - called here
            )
            found = first.search(window.data, begin, window.at + have)
            step = have if have < wanted else _STEP_BYTES
            passing.add(window.take(found.start() - window.at if found else step))
            if found or not have:
                return self._bad(ordinal, passing.kept, passing.size, passing.what)
            window.release()

    def _bad(self, ordinal: int, kept: bytes, size: int, what: str) -> RejectedRecord:
        """Return the dead letter of the `size` bytes that were taken last."""
        end = self._trail.offset
        why = f"{what}; bytes {end - size} to {end} of the records"
        return chunks.rejected(ordinal, InvalidPage("bad_warc_record", why), kept, size=size)

    def _behind_damage(self, ordinal: int, what: str) -> RejectedRecord | None:
        """Go on at the next member; where there is none, report the end."""
        window, damage = self._window, self._stream.damage
        if damage and not self._may_wait:
            self._may_wait = True
            raise _NothingYet  # what was read before comes first
        gap = self._recover() if damage else None
        cut = window.take(len(window.data) - window.at) if gap or self._complete else b""
        if gap:
            self._may_wait = self._stream.hurry.seconds is None
            place = f"bytes {gap.start} to {gap.end} of the file as stored"
            fault = InvalidPage("damaged_member", f"{gap.damage}; {place}")
            return chunks.rejected(ordinal, fault, gap.head, size=gap.end - gap.start)
        self._ending.damage = damage or f"it ends within a record: {what}"
        if damage or not cut:
            return None
        return chunks.rejected(ordinal, InvalidPage("truncated_input", what), cut, size=len(cut))


def first_record(data: bytes, sequence: int, limit: int) -> WarcPage | str:
    """Return the record that `data` begins with, or the code that it is skipped with.

    Raises:
        InvalidPage: `bad_warc_record`, where none begins or it is not whole; `record_too_large`.
    """
    kind = next((each for each in _FORMATS if begins_record(each, data)), None)
    if kind is None:
        raise InvalidPage("bad_warc_record", "no record begins there")
    try:
        header = _FORMATS[kind].header(_Window(None, Trail(), data[: 2 * HEADERS_BYTES_MAX]))
    except (_BrokenRecord, _Truncated) as fault:
        raise InvalidPage("bad_warc_record", str(fault)) from fault
    if header.kind not in PAGE_KINDS:
        return _skip_code(kind, header.kind)
    if header.length > limit:
        raise InvalidPage("record_too_large", f"{header.length} bytes")
    size = header.size + header.length
    if size > len(data):
        raise InvalidPage("bad_warc_record", f"{size - len(data)} bytes of it are missing")
    block, head = data[header.size : size], data[: header.size]
    return WarcPage(sequence, header.kind, header.fields, block, head)


def _skip_code(form: str, kind: str) -> str:
    if form == "ARC":
        return "arc_filedesc"
    return f"warc_{kind}" if kind in _NO_PAGE_KINDS else "warc_other"


def _wrong(length: int) -> str:
    return f"a length of {length} bytes, which reaches over the next record"
