"""PAGES arguments as sources: which files there are, what each one is, and whether it is the same.

A named file is JSONL or WARC by its name; standard input and pipes are told by their first bytes. A
directory stands for the page files below it, sorted by name. What cannot be opened is an error
here, before anything is read. A file's identity is its resolved path and a digest of its beginning,
with the length that the digest covers: so a file that has only grown is known again.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streamer.errors import InputError
from streamer.stream.bytestream import STANDARD_INPUT, ByteStream
from streamer.stream.chunk import PAGE_BYTES_MAX, RawChunk
from streamer.stream.jsonl import read_lines
from streamer.stream.warc import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAD_BYTES_MAX = 64 << 10

_JSONL_NAME = re.compile(r"\.(jsonl|ndjson|json)(\.gz|\.zst)?$", re.IGNORECASE)
_WARC_NAME = re.compile(r"\.(warc|wet)(\.gz)?$", re.IGNORECASE)
_KNOWN_NAMES = ".jsonl, .ndjson, .json (each also .gz, .zst), .warc, .wet (each also .gz)"


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


def identify(path: str, head_bytes: int = HEAD_BYTES_MAX) -> FileIdentity:
    """Return the identity of the file at `path`, its digest over at most `head_bytes`.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(head_bytes)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the file") from error
    digest = hashlib.blake2b(head, digest_size=16).hexdigest()
    return FileIdentity(str(Path(path).resolve()), size, digest, len(head))


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
        return identify(self.name, 0).size_bytes if self.is_regular else None

    def identity(self) -> FileIdentity | None:
        """Return which file it is now; None for a pipe, which cannot be read again."""
        return identify(self.name) if self.is_regular else None

    def read(self, start: int = 0, *, first_alone: bool = False) -> Iterator[RawChunk]:
        """Yield the records from ordinal `start` on, ascending, in chunks without gaps.

        With `first_alone` the first line of a JSONL file is a chunk of its own.

        Raises:
            InputError: the file cannot be opened or read.
        """
        with ByteStream(self.name) as stream:
            if self._is_warc(stream):
                yield from read_records(stream, start, self.page_bytes_max)
            else:
                yield from read_lines(stream, start, self.page_bytes_max, first_alone=first_alone)

    def _is_warc(self, stream: ByteStream) -> bool:
        if self.is_regular:
            return bool(_WARC_NAME.search(self.name))
        return stream.reader.peek(5).startswith(b"WARC/")


class Sources(NamedTuple):
    """What PAGES arguments stand for; `files_ignored` lay in directories and are no page files."""

    sources: list[Source]
    files_ignored: int


def open_sources(paths: Sequence[str], page_bytes_max: int = PAGE_BYTES_MAX) -> Sources:
    """Return the sources that `paths` name, in that order; a file that is named twice comes once.

    Raises:
        InputError: a path is missing, unreadable or of no known kind, or a directory has no pages.
    """
    names: dict[str, str] = {}
    ignored = 0
    for path in paths:
        found, others = _below(path) if Path(path).is_dir() else ([path], 0)
        ignored += others
        for name in found:
            names.setdefault(
                STANDARD_INPUT if name == STANDARD_INPUT else os.path.realpath(name), name
            )
    return Sources([_checked(name, page_bytes_max) for name in names.values()], ignored)


def is_page_file(path: Path) -> bool:
    """Tell by its name whether a file holds pages as JSON lines or as WARC records."""
    return bool(_JSONL_NAME.search(path.name) or _WARC_NAME.search(path.name))


def _below(folder: str) -> tuple[list[str], int]:
    """Return the page files below a directory, sorted, and the number of other files."""
    try:
        files = sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; check the directory") from error
    pages = [name for name in files if _JSONL_NAME.search(name) or _WARC_NAME.search(name)]
    if not pages:
        raise InputError(f"{folder}: holds no page files; page files end in {_KNOWN_NAMES}")
    return pages, len(files) - len(pages)


def _checked(name: str, page_bytes_max: int) -> Source:
    """Return the source called `name` once it is known to be readable."""
    if name == STANDARD_INPUT:
        return Source(name, is_regular=False, page_bytes_max=page_bytes_max)
    path = Path(name)
    if not path.exists():
        raise InputError(f"{name}: no such file; check the path")
    if not name.isprintable():
        raise InputError(f"{name!r}: the name is not printable UTF-8; rename the file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{name}: no permission to read; change its mode or the user")
    regular = path.is_file()
    if regular and not (_JSONL_NAME.search(name) or _WARC_NAME.search(name)):
        raise InputError(
            f"{name}: not a known kind of file; name it {_KNOWN_NAMES}, or pipe it into -"
        )
    return Source(name, is_regular=regular, page_bytes_max=page_bytes_max)
