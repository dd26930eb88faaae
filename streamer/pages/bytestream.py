"""The bytes of a file or of standard input, decompressed, behind one buffered reader.

The compression is recognised by its first bytes, never by the file's name. No more is expanded than
a reader asks for, however much the compressed data holds. A compressed member is handed on once its
checksum is known to fit, since a flipped byte expands to other text far more often than to an
error: a short member is held until its end, a long one in a file is gone through twice, and only
one in a pipe must be believed. Damage is an end of the input that `damage` explains, after
which `recover` may find another member. Nothing here looks at what the bytes mean.

A pipe whose records have to come in time (`chunk_seconds`) is read as Python reads a non-blocking
file: at every level a read returns None where the pipe has no bytes for now, after a tick. Only
`look` and `recover` wait. A member in which such a pipe pauses must be believed, too.
"""

# A gzip file of 2,000 pages was damaged in 260 ways. In 255 of them only the checksum at the end
# showed it, after millions of changed characters. Expanding a long member twice halves the speed of
# reading a large `.gz`.

from __future__ import annotations

import fcntl
import io
import os
import re
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import xxhash

from streamer.compression import zstd
from streamer.errors import InputError, InvalidPage
from streamer.pages.made_bytes import MadeBytes
from streamer.pages.remote import RemoteFile, RemoteObject
from streamer.pages.spread_json import JsonLines, ObjectLines, is_spread

PIECE_BYTES = 64 << 10  # what a decoder is given at once: it copies what it leaves over
BUFFER_BYTES = 64 << 10  # larger reads go past the buffer, straight to their place
PIPE_BYTES = 1 << 20  # what Linux gives any user: the ends of a pipe wake each other less often
STANDARD_INPUT = "-"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
DICTIONARY_BYTES_MAX = 16 << 20
FIRST_BYTES = 512  # tell what a stream is
LINE_BYTES_MAX = 1 << 20  # of a first line, to see whether it is one JSON object
HELD_BYTES_MAX = 1 << 20  # of a member, expanded, until its checksum is known
PROBE_BYTES = 4 << 10  # of what may be a member, expanded, to tell whether it is
TICK_SECONDS = 0.05  # so long a pipe is waited for until its reader may do something else
_HOLD_SHARE = 4  # of the seconds of a chunk, a pipe's member is held for one part in so many
ZSTD_PROBE_BYTES = 160 << 10  # stored: a frame's header and first block, which expands as a whole
WASTED_BYTES_MAX = 64 << 20  # expanded for nothing; a file of forged members would go on for ever
_GZIP_MEMBER = re.compile(  # method, flags, time, how much was tried, system
    GZIP_MAGIC + rb"\x08[\x00-\x1f][\s\S]{4}[\x00\x02\x04][\x00-\x0d\xff]"
)
_GZIP_HEADER_BYTES = 10
_ZSTD_FRAME = re.compile(re.escape(ZSTD_MAGIC))
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"
_TOLD_BY_A_LINE = (b"{", b"[", b"WARC/", b"filedesc:")
_TOO_LONG_A_WINDOW = "requires too much memory"
DAMAGED = (zlib.error, zstd.ZstdError)


@contextmanager
def explaining_disk(name: str, remedy: str = "check the file") -> Iterator[None]:
    """Turn what the system says about a file or folder into `InputError`, with the remedy."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}; {remedy}") from error


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


class Gap(NamedTuple):
    """Stored bytes [start, end) that damage takes: what they are, cut, and what is wrong there."""

    start: int
    end: int
    head: bytes
    damage: str


class Decoder(Protocol):
    """What expands one member; it keeps the input that it has not used yet."""

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""

    @property
    def unused_data(self) -> bytes:
        """What follows the member."""

    @property
    def needs_input(self) -> bool:
        """Whether it has nothing more to give without input."""

    def decompress(self, data: bytes | memoryview, size: int, /) -> bytes:
        """Return up to `size` bytes more."""


class Inflate:
    """A decoder of gzip, or of the `window` of zlib that is given."""

    def __init__(self, window: int = 16 + zlib.MAX_WBITS) -> None:
        self._zlib = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        """As in `Decoder`."""
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        """As in `Decoder`."""
        return self._zlib.unused_data

    @property
    def needs_input(self) -> bool:
        """As in `Decoder`."""
        return not self._zlib.unconsumed_tail

    def decompress(self, data: bytes | memoryview, size: int, /) -> bytes:
        """As in `Decoder`."""
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, size)


def expand(decoder: Decoder, data: bytes | memoryview, limit: int) -> tuple[bytes, int]:
    """Return what one member holds, and how many bytes of `data` it takes.

    It ends early where the data does, and a byte over the limit.

    Raises:
        zlib.error, ZstdError: it is damaged.
    """
    parts: list[bytes] = []
    at = size = 0
    while not decoder.eof and at < len(data) and size <= limit:
        piece = data[at : at + PIECE_BYTES]
        parts.append(decoder.decompress(piece, limit - size + 1))
        size += len(parts[-1])
        at += len(piece) - len(decoder.unused_data)
    return b"".join(parts), at


class _Stored(io.RawIOBase):
    """A raw file that counts what is taken from it, also where it cannot tell its position."""

    def __init__(self, file: io.FileIO | RemoteFile, name: str) -> None:
        self._file = file
        self._name = name
        self._again = b""
        self.position = 0
        self.furthest = 0
        self.pauses = False  # a read returns None where a pipe has nothing for now
        self.is_regular = isinstance(file, RemoteFile) or stat.S_ISREG(
            os.fstat(file.fileno()).st_mode
        )
        self._base = file.tell() if self.is_regular else 0  # of standard input, maybe not the start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        if self._again:
            taken = min(len(buffer), len(self._again))
            buffer[:taken], self._again = self._again[:taken], self._again[taken:]
        elif self.pauses and not self._has_more():
            return None
        else:
            with explaining_disk(self._name, "check the disk"):
                taken = self._file.readinto(buffer) or 0
        self.position += taken
        self.furthest = max(self.furthest, self.position)
        return taken

    def take(self, size: int) -> bytes | None:
        """Return `size` bytes: fewer at the end, or where a pipe pauses; None: it has none for now.

        Full parts are the rule, since how much of damaged data expands depends on its parts.
        """
        parts, until = [], time.monotonic() + TICK_SECONDS
        while size and (part := self.read(size)):
            parts.append(part)
            size -= len(part)
            if self.pauses and time.monotonic() >= until:
                break
        return b"".join(parts) if parts else part

    def _has_more(self) -> bool:
        """Return whether a read would not wait, after the time of a tick at most."""
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        return bool(poll.poll(1000 * TICK_SECONDS))

    def put_back(self, data: bytes) -> None:
        """Let `data` be read again."""
        self._again = data + self._again
        self.position -= len(data)

    def at(self, start: int, size: int) -> bytes:
        """Return bytes of a regular file from anywhere."""
        if isinstance(self._file, RemoteFile):
            return self._file.at(start, size)
        with explaining_disk(self._name, "check the disk"):
            return os.pread(self._file.fileno(), size, self._base + start)

    def go_to(self, position: int) -> None:
        """Go on at another place of a regular file."""
        self._file.seek(self._base + position)
        self._again = b""
        self.position = position


class _Members(MadeBytes):
    """What compressed members expand to, one after the other, to the end or to the damage."""

    def __init__(
        self, stored: _Stored, new_decoder: Callable[[], Decoder], hold_seconds: float | None
    ) -> None:
        super().__init__()
        self._stored = stored
        self._hold_seconds = None if stored.is_regular else hold_seconds
        self._new_decoder = new_decoder
        self._decoder: Decoder | None = None
        self._start = 0  # of the member in hand, in the file as stored
        self._seen = bytearray()  # stored bytes of it that a pipe will not give again
        self._holding = False
        self._held: list[bytes] = []  # expanded, of a member whose checksum is not known yet
        self._held_since = 0.0
        self._rest = b""  # stored bytes that were read and not used
        self._spent = 0  # bytes taken and expanded for the member in hand
        self._wasted = 0  # the same for those that were damaged
        self._ended = False
        self.damage: str | None = None

    @property
    def damage_note(self) -> str | None:
        """Say what the damage is and which stored bytes it concerns; None without."""
        return (
            self.damage
            and f"{self.damage}, in the compressed part that begins at byte {self._start:,}"
        )

    def _make(self) -> bytes | None:
        part: bytes | None = b""
        while part == b"" and not (self.damage or self._ended):
            part = self._next_part()
        return part

    def _next_part(self) -> bytes | None:
        """Return some more bytes, maybe none, or note the end or damage; None: none for now."""
        try:
            if self._decoder is None and not self._holding and not self._begin():
                return None
            return self._hold() if self._holding else self._expanded(BUFFER_BYTES)
        except EOFError:
            self.damage = "it ends too early"
            part = b"".join(self._held)
        except DAMAGED as error:
            self.damage = _why(error)
            part = b""
        self._wasted += self._spent
        self._held = []
        return part

    def _begin(self) -> bool:
        """Go to the next member, or to the end; False: a pipe has no more for now.

        Zeros between members are padding.
        """
        while not (rest := self._rest.lstrip(b"\0")):
            more = self._stored.take(BUFFER_BYTES)
            self._rest = more or b""
            if not more:
                self._ended = more is not None
                return self._ended
        self._rest = rest
        self._start = self._stored.position - len(rest)
        self._decoder = self._new_decoder()
        self._spent = 0
        self._holding, self._held_since = True, time.monotonic()
        return True

    def _hold(self) -> bytes | None:
        """Return a member to its end, or until it is too long or too slow; as `_next_part`."""
        left = HELD_BYTES_MAX - sum(map(len, self._held))
        part: bytes | None = b""
        while left and not self._is_late and (part := self._expanded(left)):
            self._held.append(part)
            left -= len(part)
        if part is None and not self._is_late:
            return None
        if not left and self._stored.is_regular:
            self._verify()
        self._holding = False
        self._seen.clear()
        whole, self._held = b"".join(self._held), []
        return whole

    @property
    def _is_late(self) -> bool:
        """Return whether what is held of a member has to be believed, since time is up."""
        return (
            self._hold_seconds is not None
            and bool(self._held)
            and time.monotonic() - self._held_since >= self._hold_seconds
        )

    def _expanded(self, size: int) -> bytes | None:
        """Return up to `size` bytes of the member in hand, none at its end.

        It is None where a pipe has no more for now.

        Raises:
            EOFError: the stored bytes end before.
            zlib.error, ZstdError: they are damaged.
        """
        decoder = self._decoder
        while decoder is not None and not decoder.eof:
            stored = b""
            if hungry := decoder.needs_input:
                more = self._rest or self._stored.take(BUFFER_BYTES)
                if more is None:
                    return None
                stored, self._rest = more, b""
                if self._holding and not self._stored.is_regular:
                    self._seen += stored
                    if len(self._seen) > 4 * HELD_BYTES_MAX:
                        raise zlib.error("the member is larger than what it expands to")
            self._spent += len(stored)
            part = decoder.decompress(stored, size)
            self._spent += len(part)
            if part:
                return part
            if hungry and not stored and not decoder.eof:
                raise EOFError
        if decoder is not None:
            self._rest, self._decoder = decoder.unused_data, None
        return b""

    def _verify(self) -> None:
        """Go through the member in hand once, apart from the reading; one that is cut off passes.

        Raises:
            zlib.error, ZstdError: it is damaged.
        """
        decoder, at = self._new_decoder(), self._start
        while not decoder.eof:
            stored = self._stored.at(at, BUFFER_BYTES) if decoder.needs_input else b""
            at += len(stored)
            self._spent += len(stored)
            part = decoder.decompress(stored, HELD_BYTES_MAX)
            self._spent += len(part)
            if not part and not stored and decoder.needs_input and not decoder.eof:
                return

    # ---- after the damage -----------------------------------------------------------------------

    def recover(self, begins: Callable[[bytes], object]) -> Gap | None:
        """Go on at the next member whose first bytes, expanded, `begins` accepts.

        None where there is none, or where so much was expanded for nothing that the file must have
        been forged: then the damage stays.
        """
        if self._is_forged():
            return None
        head = bytes(self._seen[:BUFFER_BYTES])
        if self._stored.is_regular:
            head = self._stored.at(self._start, BUFFER_BYTES)
            self._stored.go_to(self._start + 1)
        else:
            self._stored.put_back(bytes(self._seen[1:]))
        end = self._next_member(self._stored.position, begins)
        if end is None:
            return None
        gap = Gap(self._start, end, head[: end - self._start], str(self.damage))
        self.damage, self._decoder, self._holding = None, None, False
        self._held = []
        self._seen.clear()
        return gap

    def _is_forged(self) -> bool:
        return self._wasted > WASTED_BYTES_MAX + 32 * self._start

    def _next_member(self, base: int, begins: Callable[[bytes], object]) -> int | None:
        """Return where the next member begins, and have it read next."""
        window, searched, ended = bytearray(), 0, False
        is_gzip = self._new_decoder is Inflate
        form, probe = (_GZIP_MEMBER, PROBE_BYTES) if is_gzip else (_ZSTD_FRAME, ZSTD_PROBE_BYTES)
        while True:
            found = form.search(window, searched)
            at = found.start() if found else -1
            if (ended and at < 0) or self._is_forged():
                return None
            if ended or 0 <= at <= len(window) - probe:
                if self._begins_member(bytes(window[at : at + probe]), begins):
                    self._rest = bytes(window[at:])
                    return base + at
                searched = at + 1
                self._wasted += probe
                continue
            searched = at if at >= 0 else max(0, len(window) - _GZIP_HEADER_BYTES + 1)
            del window[:searched]
            base, searched = base + searched, 0
            stored = self._stored.take(BUFFER_BYTES)
            window += stored or b""
            ended = stored == b""

    def _begins_member(self, stored: bytes, begins: Callable[[bytes], object]) -> bool:
        """Return whether a member begins here, and one that is looked for."""
        try:
            return bool(begins(self._new_decoder().decompress(stored, PROBE_BYTES)))
        except DAMAGED:
            return False


class _Again(MadeBytes):
    """What was looked at, and then the rest."""

    def __init__(self, rest: io.BufferedReader[Any]) -> None:
        super().__init__()
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
    `turn` of a tick, so that whoever reads can do something else. Without a limit (None), and for
    what is no pipe, neither ever comes.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._since: float | None = None  # a record waits
        self._turn_ends = 0.0

    def begin_turn(self) -> None:
        """Begin another turn."""
        self._turn_ends = time.monotonic() + TICK_SECONDS

    @property
    def turn_is_over(self) -> bool:
        """Return whether the reader has to return, with a pause if nothing is due."""
        return self.seconds is not None and time.monotonic() >= self._turn_ends

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


def status_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what of a file's status is equal as long as nobody writes to it.

    The time of the last change of the inode cannot be set, so a writer who restores the time of
    modification is noticed too.
    """
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _opened(path: str) -> io.FileIO:
    """Open a file, or standard input for `-`.

    Raises:
        InputError: it cannot be opened.
    """
    with explaining_disk(path):
        if path != STANDARD_INPUT:
            return io.FileIO(Path(path))
        file = io.FileIO(sys.stdin.fileno(), closefd=False)
    with suppress(OSError):  # no pipe, or the user has no more room for pipes
        fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return file


class ByteStream:
    """A source's decompressed bytes; a context manager that closes what it opened.

    Attributes:
        reader: the bytes; reading raises `InputError` where the disk fails.
        status: the file's as it was opened, its size first (`status_of`).
        hurry: how long records may wait, if it is a pipe; if that is limited, `reader` pauses.
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
        self._file = _opened(path) if remote is None else remote.open()
        self.place: str | RemoteFile = path if isinstance(self._file, io.FileIO) else self._file
        self.status = remote.status if remote else status_of(os.fstat(self._file.fileno()))
        self._stored = _Stored(self._file, path)
        self._members: _Members | None = None
        self._looked_at: _Again | None = None
        self.hurry = Hurry(None if self._stored.is_regular else chunk_seconds)
        hold_seconds = chunk_seconds and chunk_seconds / _HOLD_SHARE
        self.is_converted = False
        self._damage_of_made: Callable[[], str] = str
        self._lacks_all = not self.status[0] and path.lower().endswith((".gz", ".zst"))
        magic = self._stored.take(len(ZSTD_MAGIC)) or b""
        self._stored.put_back(magic)
        try:
            if new_decoder := _decoder_of(magic, self._stored, path):
                self._members = _Members(self._stored, new_decoder, hold_seconds)
        except InputError:
            self._file.close()
            raise
        self._stored.pauses = self.hurry.seconds is not None
        self.reader: io.BufferedReader[Any] = io.BufferedReader(
            self._members or self._stored, BUFFER_BYTES
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._file.close()

    def beginning(self, size: int) -> bytes:
        """Return the first `size` bytes of a regular file, as `first_bytes`; nothing is taken."""
        return _expanded(self._stored.at(0, BUFFER_BYTES), size)

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
    def is_compressed(self) -> bool:
        """Return whether the stored bytes are others."""
        return self._members is not None

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
        if is_spread(head):
            self.convert(JsonLines(self.reader))
        else:
            self.reader = io.BufferedReader(ObjectLines(self.reader), BUFFER_BYTES)
            self._looked_at = None

    def convert(self, made: io.RawIOBase, damage: Callable[[], str] = str) -> None:
        """Have bytes read that are made of the file's; `damage` says why there are no more."""
        self.is_converted, self._damage_of_made = True, damage
        self.reader = io.BufferedReader(made, BUFFER_BYTES)
        self._looked_at = None  # what is looked at from here on is these bytes

    def recover(self, begins: Callable[[bytes], object]) -> Gap | None:
        """Go on after the damage, at the next member that begins as `begins` wants it.

        Returns what lies between, or None: then the damage is the end of the stream.
        """
        return self._members.recover(begins) if self._members else None


def first_bytes(path: str, size: int) -> bytes:
    """Return up to `size` bytes of a file's beginning, expanded; what is damaged there gives none.

    Raises:
        InputError: the file cannot be read.
    """
    return _expanded(read_beginning(path, BUFFER_BYTES)[1], size)


def read_beginning(path: str, size: int) -> tuple[os.stat_result, bytes]:
    """Return the status of a file and up to `size` bytes of its beginning, as stored.

    Raises:
        InputError: the file cannot be read.
    """
    with explaining_disk(path), io.FileIO(path) as file:  # of many thousand
        return os.fstat(file.fileno()), file.read(size) or b""


def is_skippable(stored: bytes) -> bool:
    """Return whether a zstd frame without content begins, as pzstd writes (RFC 8878, 3.1.2)."""
    return bool(_SKIPPABLE.match(stored)) and not stored.startswith(DICTIONARY_MAGIC)


def _expanded(stored: bytes, size: int) -> bytes:
    """Return up to `size` bytes of what stored bytes expand to, none where they are damaged."""
    with suppress(*DAMAGED):
        if stored.startswith(GZIP_MAGIC):
            return zlib.decompressobj(31).decompress(stored, size)
        while is_skippable(stored):
            stored = stored[8 + int.from_bytes(stored[4:8], "little") :]
        if stored.startswith(ZSTD_MAGIC):
            return zstd.ZstdDecompressor().decompress(stored, size)
        return stored[:size]
    return b""


def _why(error: Exception) -> str:
    """Return what a decompressor says."""
    why = str(error).rpartition(": ")[2] or type(error).__name__
    if _TOO_LONG_A_WINDOW in why:
        return "its zstd window is over 128 MiB, as of zstd --long=28: compress it again without"
    return why


def first_member(stored: bytes, size: int) -> bytes:
    """Return what the first member expands to; what is not compressed is returned as it is.

    Raises:
        InvalidPage: `damaged_member`; or `record_too_large`, where it is more than `size` bytes.
    """
    if not stored.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return stored
    decoder = Inflate() if stored.startswith(GZIP_MAGIC) else _zstd_decoder()
    try:
        found, _ = expand(decoder, memoryview(stored), size)
    except DAMAGED as error:
        raise InvalidPage("damaged_member", _why(error)) from error
    if len(found) > size:
        raise InvalidPage("record_too_large", f"it expands to more than {size} bytes")
    if not decoder.eof:
        raise InvalidPage("damaged_member", "it ends too early")
    return found


def _decoder_of(magic: bytes, stored: _Stored, name: str) -> Callable[[], Decoder] | None:
    """Return what makes decoders for members of which the first one begins so; None for others."""
    if magic.startswith(GZIP_MAGIC):
        return Inflate
    if magic == ZSTD_MAGIC or is_skippable(magic):
        return _zstd_decoder
    return partial(_zstd_decoder, _dictionary(stored, name)) if magic == DICTIONARY_MAGIC else None


def _zstd_decoder(dictionary: zstd.ZstdDict | None = None) -> Decoder:
    return zstd.ZstdDecompressor(dictionary)


def _dictionary(stored: _Stored, name: str) -> zstd.ZstdDict:
    """Take the dictionary with which a file begins, in a frame that others skip.

    Web archives have one there (IIPC, "Zstandard compressed WARC files"), itself compressed or not.

    Raises:
        InputError: it is cut off, too large, or no dictionary.
    """
    data = bytearray()
    header = stored.take(8) or b""
    size = int.from_bytes(header[4:], "little")
    while len(data) < size <= DICTIONARY_BYTES_MAX and (part := stored.take(size - len(data))):
        data += part
    try:
        if len(data) == size and data.startswith(ZSTD_MAGIC):
            data = bytearray(zstd.ZstdDecompressor().decompress(data, DICTIONARY_BYTES_MAX))
            size = len(data)
        if len(data) == size:
            return zstd.ZstdDict(bytes(data))
    except (zstd.ZstdError, ValueError):
        pass
    raise InputError(f"{name}: its zstd dictionary cannot be read; copy the file again")
