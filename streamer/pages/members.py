"""Compressed members of a file, gzip or zstd, expanded one after the other.

No more is expanded than a reader asks for, however much the compressed data holds. A member is
handed on once its checksum is known to fit, since a flipped byte expands to other text far more
often than to an error: a short member is held until its end, a long one in a file is gone through
twice, and only one in a pipe must be believed. So must be a member in which a pipe pauses for long.
Damage is an end of the input that `damage` explains, after which `recover` may find another member.
"""

# A gzip file of 2,000 pages was damaged in 260 ways. In 255 of them only the checksum at the end
# showed it, after millions of changed characters. Expanding a long member twice halves the speed of
# reading a large `.gz`.

import re
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from streamer.compression import zstd
from streamer.errors import InputError, InvalidPage
from streamer.pages.made_bytes import MadeBytes
from streamer.pages.stored_file import StoredFile

PIECE_BYTES = 64 << 10  # what a decoder is given at once: it copies what it leaves over
BUFFER_BYTES = 64 << 10  # larger reads go past the buffer, straight to their place
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
DICTIONARY_BYTES_MAX = 16 << 20
HELD_BYTES_MAX = 1 << 20  # of a member, expanded, until its checksum is known
PROBE_BYTES = 4 << 10  # of what may be a member, expanded, to see whether it is
ZSTD_PROBE_BYTES = 160 << 10  # stored: a frame's header and first block, which expands as a whole
WASTED_BYTES_MAX = 64 << 20  # expanded for nothing; a file of forged members would go on for ever
_GZIP_MEMBER = re.compile(  # method, flags, time, how much was tried, system
    GZIP_MAGIC + rb"\x08[\x00-\x1f][\s\S]{4}[\x00\x02\x04][\x00-\x0d\xff]"
)
_GZIP_HEADER_BYTES = 10
_ZSTD_FRAME = re.compile(re.escape(ZSTD_MAGIC))
DAMAGED = (zlib.error, zstd.ZstdError)


class Gap(NamedTuple):
    """Stored bytes [start, end) that damage takes: what they are, cut, and what is wrong there."""

    start: int
    end: int
    head: bytes
    damage: str


class Inflate:
    """A decoder of gzip, or of the `window` of zlib that is given, with what that of zstd has."""

    def __init__(self, window: int = 16 + zlib.MAX_WBITS) -> None:
        self._zlib = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        """What follows the member."""
        return self._zlib.unused_data

    @property
    def needs_input(self) -> bool:
        """Whether it has nothing more to give without input."""
        return not self._zlib.unconsumed_tail

    def decompress(self, data: bytes | memoryview, size: int, /) -> bytes:
        """Return up to `size` bytes more; keep the input that is not used yet."""
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, size)


Decoder = Inflate | zstd.ZstdDecompressor
"""What expands one member."""


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


class Members(MadeBytes):
    """What compressed members expand to, one after the other, to the end or to the damage."""

    def __init__(
        self, stored: StoredFile, new_decoder: Callable[[], Decoder], hold_seconds: float | None
    ) -> None:
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
        where = f"in the compressed part that begins at byte {self._start:,}"
        return self.damage and f"{self.damage}, {where}"

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
            return self._hold() if self._holding else self._expand(BUFFER_BYTES)
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
        while left and not self._is_late and (part := self._expand(left)):
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
        if self._hold_seconds is None or not self._held:
            return False
        return time.monotonic() - self._held_since >= self._hold_seconds

    def _expand(self, size: int) -> bytes | None:
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


def is_skippable(stored: bytes) -> bool:
    """Return whether a zstd frame without content begins, as pzstd writes (RFC 8878, 3.1.2)."""
    return bool(_SKIPPABLE.match(stored)) and not stored.startswith(DICTIONARY_MAGIC)


def expanded(stored: bytes, size: int) -> bytes:
    """Return up to `size` bytes of what stored bytes expand to, none where they are damaged.

    It is the first member that is not empty.
    """
    if not (stored.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or is_skippable(stored)):
        return stored[:size]
    with suppress(*DAMAGED):
        while stored:
            while is_skippable(stored):
                stored = stored[8 + int.from_bytes(stored[4:8], "little") :]
            is_gzip = stored.startswith(GZIP_MAGIC)
            decoder = zlib.decompressobj(31) if is_gzip else zstd.ZstdDecompressor()
            found = decoder.decompress(stored, size)
            if found or not decoder.eof:
                return found
            stored = decoder.unused_data.lstrip(b"\0")
    return b""


def _why(error: Exception) -> str:
    """Return what a decompressor says."""
    why = str(error).rpartition(": ")[2] or type(error).__name__
    if "requires too much memory" in why:
        return "its zstd window is over 128 MiB, as of zstd --long=28: compress it again without"
    return why


def first_member(stored: bytes, size: int) -> bytes:
    """Return what the first member expands to; what is not compressed is returned as it is.

    Raises:
        InvalidPage: `damaged_member`; or `record_too_large`, where it is more than `size` bytes.
    """
    if not stored.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return stored
    decoder = Inflate() if stored.startswith(GZIP_MAGIC) else zstd.ZstdDecompressor()
    try:
        found, _ = expand(decoder, memoryview(stored), size)
    except DAMAGED as error:
        raise InvalidPage("damaged_member", _why(error)) from error
    if len(found) > size:
        raise InvalidPage("record_too_large", f"it expands to more than {size} bytes")
    if not decoder.eof:
        raise InvalidPage("damaged_member", "it ends too early")
    return found


def begin_members(stored: StoredFile, name: str, hold_seconds: float | None) -> Members | None:
    """Return the members with which a file begins; None: it is not compressed.

    Raises:
        InputError: they need a dictionary that cannot be read.
    """
    magic = stored.take(len(ZSTD_MAGIC)) or b""
    stored.put_back(magic)
    new_decoder: Callable[[], Decoder] = zstd.ZstdDecompressor
    if magic.startswith(GZIP_MAGIC):
        new_decoder = Inflate
    elif magic == DICTIONARY_MAGIC:
        new_decoder = partial(zstd.ZstdDecompressor, _dictionary(stored, name))
    elif magic != ZSTD_MAGIC and not is_skippable(magic):
        return None
    return Members(stored, new_decoder, hold_seconds)


def _dictionary(stored: StoredFile, name: str) -> zstd.ZstdDict:
    """Take the dictionary with which a file begins, in a frame that others skip.

    Web archives have one there (IIPC, "Zstandard compressed WARC files"), itself compressed or not.

    Raises:
        InputError: it is cut off, too large, or no dictionary.
    """
    header = stored.take(8) or b""
    size = int.from_bytes(header[4:], "little")
    data = (stored.take(size) or b"") if 0 < size <= DICTIONARY_BYTES_MAX else b""
    with suppress(zstd.ZstdError, ValueError):
        if len(data) == size:
            if data.startswith(ZSTD_MAGIC):
                data = zstd.ZstdDecompressor().decompress(data, DICTIONARY_BYTES_MAX)
            return zstd.ZstdDict(data)
    raise InputError(f"{name}: its zstd dictionary cannot be read; copy the file again")
