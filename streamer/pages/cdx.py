"""CDX files: lists of records in WARC and ARC files, which are read by these lists.

A line names a record: its URL, its archive, and the bytes there. Common Crawl and pywb write a
key, a time and a JSON object (CDXJ), older tools columns (CDX). The records are read as if their
archives held no others, in the order of the lines. A record has the ordinal of its line: so a run
is taken up at a line, and what was judged is known again by the lines alone.

A line whose record is no page for sure, a revisit or by its status, is counted without it. What
cannot be read, or is not what the line says, is a dead letter with the line.
"""

# Positions, resuming and identity so need no state for each archive: a crawl has 90,000. No request
# looks an archive up: the first range has its size and ETag (run/known_archives.py). One more
# request decides whether a failure is the archive's or the store's: a missing file is a dead
# letter, and expired credentials end the run.

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

import msgspec

from streamer.errors import InputError, InvalidPage, SettingsError, SkippedRecord
from streamer.pages.archives import ArchiveRange, ArchiveReader, StoredRange, Version
from streamer.pages.bytestream import FIRST_BYTES, ByteStream, Mark
from streamer.pages.chunk import Chunk, Ending, Outcome, RejectedRecord, WarcPage, rejected
from streamer.pages.extract import whole_number
from streamer.pages.lists import join_path, root_of
from streamer.pages.mapping import PRESETS
from streamer.pages.members import first_member
from streamer.pages.records import InputFile, Records
from streamer.pages.remote import check_same, is_remote, name_of
from streamer.pages.warc import HEADERS_BYTES_MAX, begins_record, first_record

LINE_BYTES_MAX = 64 << 10
WINDOW_LINES = 256  # whose places are asked for together,
WINDOW_BYTES = 8 << 20  # or so many bytes
WINDOWS_AHEAD = 3
_JSON_LINE = re.compile(rb"[^\s{]\S{0,16384} \d{1,14} (?=\{)")
_HEADER = re.compile(rb" CDX( [A-Za-z])+\s*\Z|!")
_USUAL_COLUMNS = {11: "NbamskrMSVg", 10: "NbamskrSVg"}  # if no header says it
_NAMES = {"a": "url", "m": "mime", "s": "status", "S": "length", "V": "offset", "g": "filename"}
_NUMBER = re.compile(r"\d{1,15}")
_NO_PATH = re.compile(r"/\.{0,2}(?:/|$)|[\x00-\x20]")
_ABSENT = {"-", ""}
_PAGES = PRESETS["warc"]
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def begins_cdx(head: bytes) -> bool:
    """Return whether a CDX file begins so."""
    return head.startswith(b" CDX ") or bool(_JSON_LINE.match(head))


class Capture(NamedTuple):
    """What a line says of a record: its URL and its place."""

    url: str
    place: ArchiveRange


def archives_root(base: str) -> str:
    """Return the folder or URL that `--cdx-base` names.

    Raises:
        InputError: it holds a password.
        SettingsError: it is signed.
    """
    if name_of(base) != base:
        raise SettingsError(
            f"--cdx-base {name_of(base)}?...: a signed URL is of one file. Give the URL without "
            "what follows the question mark, and the credentials in the environment."
        )
    return base.rstrip("/") or base


def parse_capture(line: bytes, columns: str = "", root: str = "") -> Capture:
    """Return what a line names, in archives below `root`.

    `columns` are those of lines without JSON, by their letters; "": the usual ones.

    Raises:
        InvalidPage: `bad_cdx_line`.
        SkippedRecord: `blank_line`, `cdx_header`, or what the record would be skipped as.
    """
    if not line.strip():
        raise SkippedRecord("blank_line")
    if _HEADER.match(line):
        raise SkippedRecord("cdx_header")
    found = _fields(line, columns)
    if found.get("mime") == "warc/revisit":
        raise SkippedRecord("warc_revisit")
    if (status := found.get("status", "")) not in _ABSENT and not _PAGES.accepts_status(status):
        raise SkippedRecord("status_not_2xx")
    if not _PAGES.accepts_type(found.get("mime-detected", "")):
        raise SkippedRecord("type_not_text")
    for name in ("url", "filename", "offset", "length"):
        if found.get(name, "") in _ABSENT:
            raise InvalidPage("bad_cdx_line", f"no {name}")
    numbers = found["offset"], found["length"]
    if not all(map(_NUMBER.fullmatch, numbers)) or not int(numbers[1]):
        raise InvalidPage("bad_cdx_line", "offset or length is no usable number")
    start, length = map(int, numbers)
    place = ArchiveRange(_archive(root, found["filename"]), start, start + length)
    return Capture(found["url"], place)


def _archive(root: str, name: str) -> str:
    """Return where an archive is."""
    archive = name if is_remote(name) else join_path(root, name)
    try:
        if is_remote(archive) and _NO_PATH.search(name_of(archive).partition("://")[2]):
            raise InvalidPage("bad_cdx_line", "the name of the archive is no path")
    except InputError as error:
        raise InvalidPage("bad_cdx_line", "the URL of the archive cannot be used") from error
    return archive


def _fields(line: bytes, columns: str) -> dict[str, str]:
    """Return the fields of a line by the names that CDXJ has for them."""
    key = _JSON_LINE.match(line)
    content = line[key.end() :] if key else line
    try:
        if content.startswith(b"{"):
            return _texts(_decode(content))
        words = [word.decode() for word in line.split()]  # at blanks of ASCII only
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidPage("bad_cdx_line", "no JSON object, or no UTF-8") from error
    columns = columns or _USUAL_COLUMNS.get(len(words), "")
    if len(words) != len(columns):
        raise InvalidPage("bad_cdx_line", f"{len(words)} columns")
    pairs = zip(columns, words, strict=True)
    return {_NAMES[letter]: word for letter, word in pairs if letter in _NAMES}


def _texts(found: Mapping[str, Any]) -> dict[str, str]:
    whole = {name: whole_number(value) for name, value in found.items()}
    return {name: str(value) for name, value in whole.items() if isinstance(value, str | int)}


class _CdxLine(NamedTuple):
    """A line without its end, or the beginning of a long one; how long it is; what is after it."""

    ordinal: int
    data: bytes
    length: int
    mark: Mark
    amount: int


_Read = Callable[[], StoredRange]


_Work = tuple[_CdxLine, Capture | Outcome, _Read | None]
"""A line, and what becomes of it: that, or the record that it names and what reads it."""


class CdxRecords(Records):
    """The records that the lines of a CDX file name."""

    def __init__(self, file: InputFile, stream: ByteStream) -> None:
        super().__init__(file, stream)
        stream.wait()
        first = (stream.beginning(FIRST_BYTES) if file.is_regular else stream.first).split(b"\n")[0]
        letters = first.decode(errors="replace")[4:].replace(" ", "").strip()
        self._columns = letters if first.startswith(b" CDX ") else ""
        self._root = archives_root(file.cdx_base) or root_of(file.name)
        self._bound = file.page_bytes_max + HEADERS_BYTES_MAX

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`.

        Raises:
            InputError: an archive has changed while it was read, or the store of one is away.
        """
        lines = self._lines(start, ending, complete=complete or self._stream.is_compressed)
        chunk = Chunk(start, start)
        with ArchiveReader(self._root) as archives:
            for line, wanted, read in self._ahead(lines, archives):
                outcome, version = self._outcome(line, wanted, read)
                if _is_of_other_kind(chunk, outcome):
                    yield chunk
                    chunk = Chunk(chunk.end, chunk.end)
                chunk.add(outcome, line.mark, line.amount)
                if version is not None:
                    _note(chunk.archives, version)
                if chunk.is_full:
                    yield chunk
                    chunk = Chunk(chunk.end, chunk.end)
        if chunk.end > chunk.start:
            yield chunk

    def _lines(self, start: int, ending: Ending, *, complete: bool) -> Iterator[_CdxLine]:
        """Yield the lines from where the stream is; `ending` notes when there are no more."""
        stream, trail = self._stream, self._trail
        for ordinal in count(start):
            line = last = stream.reader.readline(LINE_BYTES_MAX)
            trail.take(line)
            length = len(line)
            while last and not last.endswith(b"\n"):
                last = stream.reader.readline(LINE_BYTES_MAX)
                trail.take(last)
                length += len(last)
            if not last:
                ending.damage = stream.damage or ""
                if ending.damage or not line or not complete:
                    ending.unended_bytes = length if line.strip() else 0
                    return
                trail.take(b"\n")  # so that one which comes later changes nothing
            data = line.rstrip(b"\r\n")
            size = len(data) if length <= LINE_BYTES_MAX else length - last.endswith(b"\n")
            yield _CdxLine(ordinal, data, size, trail.mark(), stream.bytes_read)

    def _ahead(self, lines: Iterator[_CdxLine], archives: ArchiveReader) -> Iterator[_Work]:
        """Yield what lines want, while what some later ones name is read."""
        windows: deque[list[_Work]] = deque()
        while True:
            while len(windows) < WINDOWS_AHEAD and (window := self._window(lines, archives)):
                windows.append(window)
            if not windows:
                return
            yield from windows.popleft()

    def _window(self, lines: Iterator[_CdxLine], archives: ArchiveReader) -> list[_Work]:
        """Return the next lines, and have what they name read."""
        window: list[tuple[_CdxLine, Capture | Outcome]] = []
        places: list[ArchiveRange] = []
        size = 0
        for line in lines:
            wanted = self._select(line)
            window.append((line, wanted))
            if isinstance(wanted, Capture):
                places.append(wanted.place)
                size += wanted.place.end - wanted.place.start
            if len(window) >= WINDOW_LINES or size >= WINDOW_BYTES:
                break
        reads = iter(archives.ask(places))
        return [
            (line, wanted, next(reads) if isinstance(wanted, Capture) else None)
            for line, wanted in window
        ]

    def _select(self, line: _CdxLine) -> Capture | RejectedRecord | str:
        """Return what a line names, or else what becomes of it."""
        if line.length > LINE_BYTES_MAX:
            return _reject(line, InvalidPage("bad_cdx_line", f"{line.length} bytes"))
        try:
            found = parse_capture(line.data, self._columns, self._root)
        except InvalidPage as fault:
            return _reject(line, fault)
        except SkippedRecord as skipped:
            return skipped.code
        if (size := found.place.end - found.place.start) > self._bound:
            return _reject(line, InvalidPage("record_too_large", f"{size} bytes"))
        return found

    def _outcome(
        self, line: _CdxLine, wanted: Capture | Outcome, read: _Read | None
    ) -> tuple[Outcome, Version | None]:
        """Return what becomes of a line, and the archive that was read for it."""
        if not isinstance(wanted, Capture):
            return wanted, None
        assert read is not None, line
        version: Version | None = None
        archive, start, end = wanted.place
        try:
            data, version = read()
            member = first_member(data, self._bound)
            record = first_record(member, line.ordinal, self._file.page_bytes_max)
            _check_url(record, wanted.url)
        except InvalidPage as fault:
            where = f"{fault.detail}; bytes {start} to {end} of {name_of(archive)}"
            return _reject(line, InvalidPage(fault.code, where)), version
        return record, version


def _check_url(record: WarcPage | str, url: str) -> None:
    """Raise InvalidPage where a page has another URL; one without any is noticed later."""
    own = "" if isinstance(record, str) else record.headers.get("warc-target-uri", "")
    if own and _plain(own) != _plain(url):
        raise InvalidPage("wrong_record", "it has another URL than the line")


def _plain(url: str) -> str:
    return url.strip().removeprefix("<").removesuffix(">").replace(" ", "%20")


def _note(archives: dict[str, Version], now: Version) -> None:
    """Note an archive of a chunk; one here may have grown.

    Raises:
        InputError: it was another one before.
    """
    before = archives.setdefault(now.key, now)
    if is_remote(now.name):
        check_same(now.name, before[1:3], now[1:3])
    if before.tag != now.tag:
        raise InputError(f"{now.name}: has changed while it was read; run the same command again")
    archives[now.key] = max(before, now)


def _reject(line: _CdxLine, fault: InvalidPage) -> RejectedRecord:
    return rejected(line.ordinal, fault, line.data, size=line.length)


def _is_of_other_kind(chunk: Chunk, outcome: Outcome) -> bool:
    """Return whether a record is WARC and those of a chunk are ARC, or the other way round."""
    if not chunk.pages or not isinstance(outcome, WarcPage):
        return False
    return begins_record("WARC", outcome.head) != begins_record("WARC", chunk.pages[0].head)
