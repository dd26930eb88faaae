"""The bytes of a file or of standard input, decompressed, in one buffered reader.

The compression is recognised by its first bytes, never by the file's name. Nothing here looks at
what the bytes mean.

A pipe whose records have to come in time (`chunk_seconds`) is read as Python reads a non-blocking
file: at every level a read returns None where the pipe has no bytes for now, after a tick. Only
`look` and `recover` wait.
"""

from __future__ import annotations

import fcntl
import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from streamer.errors import InputError, on_failure
from streamer.pages import stored_file
from streamer.pages.made_bytes import MadeBytes
from streamer.pages.members import BUFFER_BYTES, Gap, begin_members, expanded
from streamer.pages.remote import RemoteFile, RemoteObject, is_remote, look_up_file, name_of
from streamer.pages.spread_json import JsonLines, ObjectLines, is_spread
from streamer.pages.stored_file import TICK_SECONDS, StoredFile

PIPE_BYTES = 1 << 20  # what Linux gives any user: the ends of a pipe wake each other less often
STANDARD_INPUT = "-"
FIRST_BYTES = 512  # show what a stream is
LINE_BYTES_MAX = 1 << 20  # of a first line, to see whether it is one JSON object
_HOLD_SHARE = 4  # of the seconds of a chunk, a pipe's member is held for one part in so many
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
_TOLD_BY_A_LINE = (b"{", b"[", b"WARC/", b"filedesc:")


class Mark(NamedTuple):
    """A place in a stream: `offset` bytes, expanded, lie before it; `digest` is theirs, in hex."""

    offset: int = 0
    digest: str = ""


class Trail:
    """What was taken of a stream: how many bytes, and their running digest.

    XXH3 (128 bits) goes through 13 GB/s, so that reading costs little more for it. It tells
    mistakes, and is no defence against somebody who forges a file.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._hash = xxhash.xxh3_128()

    def take(self, data: Any) -> None:  # noqa: ANN401 - any contiguous buffer of bytes
        """Go on by `data`."""
        self._hash.update(data)
        self.offset += len(data)

    def mark(self) -> Mark:
        """Return the place that was reached."""
        return Mark(self.offset, self._hash.hexdigest())


class _Again(MadeBytes):
    """What was looked at, and then the rest."""

    def __init__(self, rest: io.BufferedReader[Any]) -> None:
        self.rest = rest

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        return super().readinto(buffer) if self._ready else self.rest.readinto1(buffer)

    def look(self, size: int) -> bytes:
        """Return `size` bytes or more, fewer where the rest ends; nothing is taken."""
        place, head = bytearray(BUFFER_BYTES), bytearray(self._ready)
        while len(head) < size and (count := self.rest.readinto1(place)) != 0:
            head += place[: count or 0]
        self._ready = bytes(head)
        return self._ready


class Hurry:
    """How long records of a pipe may wait for others, and their reader for bytes.

    A reader gets `is_due` so many `seconds` after its first record, and has to return after each
    tick, so that whoever reads can do something else. Without a limit (None), and for
    what is no pipe, neither ever comes.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._since: float | None = None  # a record waits
        self._tick_ends = 0.0

    def begin_tick(self) -> None:
        """Begin another tick."""
        self._tick_ends = time.monotonic() + TICK_SECONDS

    @property
    def tick_is_over(self) -> bool:
        """Return whether the reader has to return, with a pause if nothing is due."""
        return self.seconds is not None and time.monotonic() >= self._tick_ends

    def is_due(self, *, waiting: bool) -> bool:
        """Return whether the records have to be handed on; `waiting`: there are some."""
        if self.seconds is None or not waiting:
            return False
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since >= self.seconds

    def hand_on(self) -> None:
        """Begin again: no record waits."""
        self._since = None


def _open(path: str) -> io.FileIO:
    """Open a file, or standard input for `-`.

    Raises:
        InputError: it cannot be opened.
    """
    with stored_file.explaining_disk(path):
        if path != STANDARD_INPUT:
            return io.FileIO(Path(path))
        file = io.FileIO(sys.stdin.fileno(), closefd=False)
    with suppress(OSError):  # no pipe, or the user has no more room for pipes
        fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return file


class ByteStream(AbstractContextManager["ByteStream"]):
    """A source's decompressed bytes; a context manager that closes what it opened.

    Attributes:
        reader: the bytes; reading raises `InputError` where the disk fails.
        status: the file's as it was opened, its size first (`status_of`).
        hurry: how long records may wait, if it is a pipe; if that is limited, `reader` pauses.
        is_compressed: the stored bytes are others.
        is_converted: what is read was made of the file's bytes.
        place: what opens the file for a reader that seeks: its path, or the open remote file.
    """

    def __init__(
        self, path: str, chunk_seconds: float | None = None, remote: RemoteObject | None = None
    ) -> None:
        """Open `path`, or standard input for `-`; or the remote file of this name.

        Raises:
            InputError: it cannot be opened or read.
        """
        self._file = _open(path) if remote is None else RemoteFile(remote)
        self.place: str | RemoteFile = path if isinstance(self._file, io.FileIO) else self._file
        self.status = (
            remote.status if remote else stored_file.status_of(os.fstat(self._file.fileno()))
        )
        self._stored = StoredFile(self._file, path)
        self._looked_at: _Again | None = None
        self.hurry = Hurry(None if self._stored.is_regular else chunk_seconds)
        hold_seconds = chunk_seconds and chunk_seconds / _HOLD_SHARE
        self.is_converted = False
        self._damage_of_made: Callable[[], str] = str
        self._lacks_all = not self.status[0] and path.lower().endswith((".gz", ".zst"))
        with on_failure(self._file.close):
            self._members = begin_members(self._stored, path, hold_seconds)
        self.is_compressed = self._members is not None
        self._stored.pauses = self.hurry.seconds is not None
        raw = self._members or self._stored
        self.reader: io.BufferedReader[Any] = io.BufferedReader(raw, BUFFER_BYTES)

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._file.close()

    def beginning(self, size: int) -> bytes:
        """Return the first `size` bytes of a regular file, as `first_bytes`; nothing is taken."""
        return expanded(self._stored.at(0, BUFFER_BYTES), size)

    @cached_property
    def first(self) -> bytes:
        """The stream's first bytes; to be asked for before anything is read.

        Of what begins like JSON, WARC or ARC the first line is enough, since a pipe may give the
        next one much later.
        """
        size, wanted = 0, FIRST_BYTES
        while size < wanted and len(head := self.look(size + 1)) > size:
            size = len(head)
            text = head.lstrip(_BEFORE_JSON)
            end = text.find(b"\n") + 1 if text.startswith(_TOLD_BY_A_LINE) else 0
            if end and is_spread(head):
                return head
            if text[1:end].strip():
                return head[: size - len(text) + end][:FIRST_BYTES]
            wanted = LINE_BYTES_MAX if text.startswith(b"{") else FIRST_BYTES
        return head[:wanted]

    @property
    def bytes_read(self) -> int:
        """The number of bytes taken from the file as stored."""
        return self._stored.furthest

    @property
    def damage(self) -> str | None:
        """Why the data could not be read to its end, and where; None where it could."""
        note = self._members.damage_note if self._members else None
        if self._lacks_all and self._stored.is_regular:
            note = "it is empty, which no compressed file is"
        return note or self._damage_of_made() or None

    def wait(self) -> None:
        """Have reads of a pipe wait for its bytes, as those of a file do."""
        self.hurry, self._stored.pauses = Hurry(None), False

    def look(self, size: int) -> bytes:
        """Return the next `size` bytes or more, fewer where the stream ends; nothing is taken."""
        if self._looked_at is None:
            self._looked_at = _Again(self.reader)
            self.reader = io.BufferedReader(self._looked_at, BUFFER_BYTES)
        return self._looked_at.look(size)

    def read_into(self, place: bytearray | memoryview) -> int | None:
        """Fill `place`, of a pipe that pauses with what there is; return by how much.

        It is None where a pipe has nothing for now, and 0 at the end.
        """
        pauses = self.hurry.seconds is not None
        return self.reader.readinto1(place) if pauses else self.reader.readinto(place)

    def read(self, size: int) -> bytes | None:
        """Return up to `size` bytes, as `read_into`."""
        place = bytearray(size)
        count = self.read_into(place)
        return None if count is None else bytes(memoryview(place)[:count])

    def spread(self, head: bytes) -> None:
        """Give objects that are not one a line as one a line; to be called before a read.

        `head` is the beginning of the stream.
        """
        spread = bool(is_spread(head))
        self.convert((JsonLines if spread else ObjectLines)(self.reader))
        self.is_converted = spread

    def convert(self, made: io.RawIOBase, damage: Callable[[], str] = str) -> None:
        """Have bytes read that are made of the file's; `damage` says why there are no more."""
        self.is_converted, self._damage_of_made = True, damage
        self.reader = io.BufferedReader(made, BUFFER_BYTES)
        self._looked_at = None  # what is looked at from here on is these bytes

    def recover(self, begins: Callable[[bytes], object]) -> Gap | None:
        """Go on after the damage, at the next member that begins as `begins` wants it.

        Returns what is between, or None: then the damage is the end of the stream.
        """
        return self._members.recover(begins) if self._members else None


def first_bytes(path: str, size: int) -> bytes:
    """Return up to `size` bytes of a file's beginning, expanded; what is damaged there gives none.

    Raises:
        InputError: the file cannot be read.
    """
    return expanded(stored_file.read_beginning(path, BUFFER_BYTES)[1], size)


def read_whole(given: str, bytes_max: int) -> bytes:
    """Return all bytes of a file or of what a URL leads to, decompressed.

    Raises:
        InputError: it cannot be read, is damaged, or has more than `bytes_max`.
        SettingsError: the extra that a URL needs is not installed, or credentials are missing.
    """
    name, remote = name_of(given), look_up_file(given) if is_remote(given) else None
    with ByteStream(name, remote=remote) as stream:
        data = stream.look(bytes_max + 1)
        if stream.damage:
            raise InputError(f"{name}: {stream.damage}; copy the file again")
    if len(data) > bytes_max:
        raise InputError(f"{name}: is larger than {bytes_max:,} bytes; give a part of it")
    return data
