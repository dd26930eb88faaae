"""PAGES arguments as sources: which files there are, what each one is, and whether it is the same.

A file is WARC or ARC by its first bytes or its name, and JSON by its name; standard input and
pipes are told by their first bytes. A directory stands for the page files below it, sorted by name.
What cannot be opened, or is of another kind, is an error here, before anything is read. A file's
identity is its resolved path and a digest of its beginning, with the length that the digest covers:
so a file that has only grown is known again.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from streamer.errors import InputError
from streamer.pages.bytestream import (
    FIRST_BYTES,
    GZIP_MAGIC,
    STANDARD_INPUT,
    ZSTD_MAGIC,
    ByteStream,
    Mark,
    Trail,
    first_bytes,
)
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk, Ending
from streamer.pages.lines import read_lines
from streamer.pages.warc import begins_record, read_records
from streamer.text.slices import Slices

HEAD_BYTES_MAX = 64 << 10
SMALL_BYTES_MAX = 64 << 10  # of a file that is read at once
SMALL_RECORDS_MAX = 9

_JSONL_NAME = re.compile(r"\.(jsonl|ndjson|json)(\.gz|\.zst)?$", re.IGNORECASE)
_WARC_NAME = re.compile(r"\.(warc|wet)(\.gz)?$", re.IGNORECASE)
_ARC_NAME = re.compile(r"\.arc(\.gz)?$", re.IGNORECASE)
_KNOWN_NAMES = ".jsonl, .ndjson, .json (each also .gz, .zst), .warc, .wet, .arc (each also .gz)"

_STEP_BYTES = 1 << 20
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_TO_LINES = 'write its rows as JSON lines, as {"url": ..., "body": ...}, and give these'
_TO_FILES = "unpack it and give the page files in it"
_TO_BYTES = "decompress it, and pipe the result into -"
_FOREIGN = (  # place, bytes, what it is, what to do
    (0, b"PAR1", "a Parquet file", _TO_LINES),
    (0, b"ARROW1", "an Arrow file", _TO_LINES),
    (0, b"ORC", "an ORC file", _TO_LINES),
    (0, b"Obj\x01", "an Avro file", _TO_LINES),
    (0, b"SQLite format 3\x00", "an SQLite database", _TO_LINES),
    (0, b"PK\x03\x04", "a ZIP archive", _TO_FILES),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _TO_FILES),
    (0, b"Rar!\x1a\x07", "a RAR archive", _TO_FILES),
    (257, b"ustar", "a tar archive", _TO_FILES),
    (0, b"\xfd7zXZ\x00", "compressed with xz", _TO_BYTES),
    (0, b"BZh", "compressed with bzip2", _TO_BYTES),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", _TO_BYTES),
    (0, b"\xff\x06\x00\x00sNaPpY", "compressed with snappy", _TO_BYTES),
    (0, GZIP_MAGIC + b"\x08", "compressed twice", _TO_BYTES),
    (0, ZSTD_MAGIC, "compressed twice", _TO_BYTES),
    (0, b"%PDF-", "a PDF file", "give its text as JSON lines"),
    (0, b"\xff\xfe", "text in UTF-16", "convert it to UTF-8 with iconv"),
    (0, b"\xfe\xff", "text in UTF-16", "convert it to UTF-8 with iconv"),
)


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file it is: `head_digest` is BLAKE2b-128, in hex, of its first `head_bytes` bytes."""

    path: str
    size_bytes: int
    head_digest: str
    head_bytes: int

    def continued_by(self, path: str) -> bool:
        """Tell whether `path` begins with what this identity covers and is no shorter.

        Raises:
            InputError: the file cannot be read.
        """
        now = identify(path, self.head_bytes)
        return now.size_bytes >= self.size_bytes and now.head_digest == self.head_digest


def folder_resolver() -> Callable[[str], str]:
    """Return a function as `os.path.realpath` that resolves each folder only once."""
    folders: dict[str, str] = {}

    def resolve(path: str) -> str:
        folder, _, name = path.rpartition("/")
        if name in {"", ".", ".."} or os.path.islink(path):  # noqa: PTH114 - of many thousand
            return os.path.realpath(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(path[: -len(name)])
        return f"{folders[folder].rstrip('/')}/{name}"

    return resolve


def identify(path: str, head_bytes: int = HEAD_BYTES_MAX, resolved: str = "") -> FileIdentity:
    """Return the identity of the file at `path`, its digest over at most `head_bytes`.

    `resolved` is the path without links, if it is known.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with io.FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(head_bytes)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the file") from error
    digest = hashlib.blake2b(head, digest_size=16).hexdigest()
    return FileIdentity(resolved or os.path.realpath(path), size, digest, len(head))


@dataclass(frozen=True, slots=True)
class Source:
    """One input to read: a regular file, a pipe, or standard input.

    Attributes:
        name: as given, or the directory as given and the way down from it.
        is_regular: a file that can be read again and whose size is known.
    """

    name: str
    is_regular: bool
    page_bytes_max: int = PAGE_BYTES_MAX

    @property
    def total_bytes(self) -> int | None:
        """The size as stored, in bytes; None for a pipe."""
        return self.status()[0] if self.is_regular else None

    def identity(self, resolved: str = "") -> FileIdentity | None:
        """Return which file it is now; None for a pipe, which cannot be read again.

        `resolved` is as for `identify`.
        """
        return identify(self.name, resolved=resolved) if self.is_regular else None

    def status(self) -> tuple[int, ...]:
        """Return size, times and inode: what is equal for a file that nobody has written to.

        Raises:
            InputError: the file cannot be read.
        """
        try:
            return status_of(os.stat(self.name))  # noqa: PTH116 - of many thousand
        except OSError as error:
            raise InputError(f"{self.name}: {error.strerror or error}; check the file") from error

    def open(self, chunk_seconds: float | None = None) -> ByteStream:
        """Open the bytes that records are read from; `chunk_seconds` is as for `ByteStream`.

        Raises:
            InputError: the file cannot be opened or read.
        """
        stream = ByteStream(self.name, chunk_seconds)
        stream.spread()
        return stream

    def is_converted(self) -> bool:
        """Tell whether records are read from other bytes than the file has.

        Raises:
            InputError: the file cannot be read.
        """
        with self.open() as stream:
            return stream.is_compressed or stream.is_spread

    def read(self) -> Iterator[Chunk]:
        """Yield all records, ascending, in chunks without gaps; the last line needs no end.

        Raises:
            InputError: the file cannot be opened or read, or, once all else has been yielded, the
                rest of it cannot.
        """
        ending = Ending()
        with self.open() as stream:
            yield from self.chunks(stream, 0, Trail(), ending)
        if ending.damage:
            raise InputError(f"{self.name}: {ending.damage}; copy the file again")

    def chunks(
        self, stream: ByteStream, start: int, trail: Trail, ending: Ending, *, complete: bool = True
    ) -> Iterator[Chunk]:
        """Yield the records from where `stream` and `trail` are, as the ordinals from `start` on.

        Without `complete` a record that has no end yet is left, for a run that finds more.

        Raises:
            InputError: the file cannot be read, or is of another kind.
        """
        limit = self.page_bytes_max
        if kind := self._kind(stream):
            return read_records(kind, stream, start, trail, ending, limit, complete=complete)
        accepts = bool if complete or stream.is_compressed else self._accepts
        return read_lines(stream, start, trail, ending, limit, accepts)

    def read_small(self, *, complete: bool = True) -> tuple[Chunk, tuple[int, ...]] | None:
        """Return all lines of a small file as one chunk, and its status; None: it takes more care.

        So do files that begin otherwise than JSON lines do.

        Raises:
            InputError: the file cannot be read.
        """
        if kind_by_name(self.name):
            return None
        limit = min(SMALL_BYTES_MAX, self.page_bytes_max)
        try:
            file = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                status = status_of(os.fstat(file))
                data = os.read(file, limit + 1)
            finally:
                os.close(file)
        except OSError as error:
            raise InputError(f"{self.name}: {error.strerror or error}; check the file") from error
        *whole, last = data.split(b"\n")
        lines = [line + b"\n" for line in whole] + ([last] if last else [])
        is_whole = len(data) == status[0] <= limit and (complete or not last)
        if not is_whole or len(lines) > SMALL_RECORDS_MAX or data[:2] not in {b"", b'{"'}:
            return None
        trail = Trail()
        trail.take(data + b"\n" if last else data)
        return Chunk(0, len(lines), len(data), Slices.joined(lines), mark=trail.mark()), status

    def follow(self, stream: ByteStream, mark: Mark, trail: Trail) -> Iterator[int]:
        """Read up to a mark, as far as the stream goes; yield the stored bytes read so far.

        `trail`, which begins at 0, is the way. At the end a newline is taken as read where it alone
        is missing: a last line counts without.
        """
        kind = self._kind(stream) if mark.offset else ""
        while left := mark.offset - trail.offset:
            part = stream.read(min(left, _STEP_BYTES))
            if part != b"":
                trail.take(part or b"")
                yield stream.bytes_read
            elif not (kind and stream.recover(lambda head: begins_record(kind, head))):
                break
        if mark.offset - trail.offset == 1 and not stream.damage:
            trail.take(b"\n")

    def _accepts(self, last: bytes) -> bool:
        """Tell whether a last line without an end is one: in a pipe, if it ends as an object."""
        return not self.is_regular and last.rstrip().endswith(b"}")

    def _kind(self, stream: ByteStream) -> str:
        """Return WARC or ARC; "" for lines."""
        if self.is_regular:
            return kind_of(self.name, first_bytes(self.name, FIRST_BYTES))
        head = stream.first
        if kind := kind_of("", head):
            return kind
        if fault := _foreign(head) or _binary(head):
            raise InputError(f"{self.name}: {fault}")
        return ""


def status_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what of a file's status is equal as long as nobody writes to it.

    The time of the last change of the inode cannot be set, so a writer who restores the time of
    modification is noticed too.
    """
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class Sources(NamedTuple):
    """What PAGES arguments stand for; `passed_over` are in directories and are no page files."""

    sources: list[Source]
    passed_over: list[str]


def open_sources(paths: Sequence[str], page_bytes_max: int = PAGE_BYTES_MAX) -> Sources:
    """Return the sources that `paths` name, in that order; a file that is named twice comes once.

    Raises:
        InputError: a path is missing, unreadable or of no known kind, or a directory has no pages.
    """
    sources: dict[str, Source] = {}
    passed_over: list[str] = []
    resolved = folder_resolver()
    for path in paths:
        found = [path]
        if is_folder := Path(path).is_dir():
            found, others = files_below(path)
            passed_over += others
            if not found:
                raise InputError(f"{path}: holds no page files; page files end in {_KNOWN_NAMES}")
        for name in found:
            key = STANDARD_INPUT if name == STANDARD_INPUT else resolved(name)
            if key not in sources:
                regular = is_folder or _checked(name)
                sources[key] = Source(name, is_regular=regular, page_bytes_max=page_bytes_max)
    return Sources([*sources.values()], passed_over)


def is_page_file(path: str) -> bool:
    """Tell by its name whether a file holds pages as JSON lines, or as WARC or ARC records."""
    return bool(_JSONL_NAME.search(path) or kind_by_name(path))


def kind_of(name: str, head: bytes) -> str:
    """Return WARC or ARC by a file's first bytes, or else by its name; "" for lines."""
    if begins_record("WARC", head):
        return "WARC"
    if head.startswith(b"filedesc:") and begins_record("ARC", head):
        return "ARC"
    return kind_by_name(name)


def kind_by_name(name: str) -> str:
    """Return WARC or ARC where a file's name tells so, else ""."""
    if _WARC_NAME.search(name):
        return "WARC"
    return "ARC" if _ARC_NAME.search(name) else ""


def _foreign(head: bytes) -> str:
    """Return what to say of a file by its first bytes, if they are of a kind that is not read."""
    for place, magic, what, remedy in _FOREIGN:
        if head.startswith(magic, place):
            return f"is {what}, which is not read; {remedy}"
    return ""


def _binary(head: bytes) -> str:
    """Return what to say of lines by their first bytes, if these are no text."""
    if head.lstrip()[:1] not in {b"{", b"["} and (found := _BINARY.search(head)):
        return (
            f"is binary data (byte {found.start()} is 0x{found[0].hex()}) and neither JSON lines "
            "nor WARC nor ARC; give one of these"
        )
    return ""


class FolderFiles(NamedTuple):
    """The files below a folder, sorted by name: page files, and the others."""

    pages: list[str]
    others: list[str]


def files_below(folder: str) -> FolderFiles:
    """Return the files below `folder`; a page file has the name of one, and is not of another kind.

    Raises:
        InputError: the folder or a page file cannot be read.
    """
    try:
        files = sorted(
            path.removeprefix("./")
            for base, _, names in os.walk(Path(folder), onerror=_raise_unless_forbidden)
            for path in (os.path.join(base, name) for name in names)  # noqa: PTH118
            if os.path.isfile(path)  # noqa: PTH113 - of many thousand: pathlib takes ten times as long
        )
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; check the directory") from error
    found = FolderFiles([], [])
    for name in files:
        is_page = is_page_file(name)
        if is_page:
            head = _readable_head(name)
            is_page = not (_foreign(head) or (not kind_by_name(name) and _binary(head)))
        (found.pages if is_page else found.others).append(name)
    return found


def _raise_unless_forbidden(error: OSError) -> None:
    if not isinstance(error, PermissionError):
        raise error


def _readable_head(name: str) -> bytes:
    """Return the first bytes of a regular file, none of a pipe, once it is known to be readable."""
    if not name.isprintable():
        raise InputError(f"{name!r}: the name is not printable UTF-8; rename the file")
    if not os.access(name, os.R_OK):
        raise InputError(f"{name}: no permission to read; change its mode or the user")
    return first_bytes(name, FIRST_BYTES) if os.path.isfile(name) else b""  # noqa: PTH113


def _checked(name: str) -> bool:
    """Return whether the source `name` is a regular file, once it is known to be readable."""
    if name == STANDARD_INPUT:
        return False
    path = Path(name)
    if not path.exists():
        raise InputError(f"{name}: no such file; check the path")
    head = _readable_head(name)
    if not path.is_file():
        return False
    if fault := _foreign(head):
        raise InputError(f"{name}: {fault}")
    if not is_page_file(name):
        raise InputError(f"{name}: not a known kind of file; {_remedy(head)}")
    return True


def _remedy(head: bytes) -> str:
    """Return what to do about a file whose name tells nothing."""
    if head.lstrip()[:1] == b"{" or head.startswith((b"WARC/", b"filedesc:")):
        return f"name it {_KNOWN_NAMES}, or pipe it into -"
    return f"name it {_KNOWN_NAMES} if it is one of these"
