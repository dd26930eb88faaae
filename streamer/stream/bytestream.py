"""The bytes of a file or of standard input, decompressed, behind one buffered reader.

The compression is recognised by its first bytes, never by the file's name. No more is expanded than
a reader asks for, however much the compressed data holds. Damage in it is an end of the input that
`damage` explains: so whatever stands before it is read like anything else, and nothing is lost.
Nothing here looks at what the bytes mean.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from backports import zstd

from streamer.errors import InputError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

BUFFER_BYTES = 64 << 10  # larger reads go past the buffer, straight to their place
PIPE_BYTES = 1 << 20  # what Linux gives any user
STANDARD_INPUT = "-"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Counted(io.RawIOBase):
    """A raw file that counts what is taken from it, also where it cannot tell its position."""

    def __init__(self, file: io.FileIO, name: str) -> None:
        self._file = file
        self._name = name
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        try:
            taken = self._file.readinto(buffer) or 0
        except OSError as error:
            raise InputError(f"{self._name}: {error.strerror or error}; check the disk") from error
        self.position += taken
        return taken


class _Expanded(io.RawIOBase):
    """What a decompressor gives, to its end or to the damage."""

    def __init__(self, compressed: _Readable) -> None:
        self._compressed = compressed
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        if self.damage:
            return 0
        try:
            part = self._compressed.read1(len(buffer))
        except (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile) as error:
            self.damage = str(error) or type(error).__name__
            return 0
        buffer[: len(part)] = part
        return len(part)


def _widen(pipe: io.FileIO) -> None:
    """Let a pipe hold as much as it may, so that its two ends wake each other less often."""
    with suppress(OSError):  # no pipe, or the user has no more room for pipes
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


class ByteStream:
    """A source's decompressed bytes; a context manager that closes what it opened.

    Attributes:
        reader: the bytes; reading raises `InputError` where the disk fails.
    """

    def __init__(self, path: str) -> None:
        """Open `path`, or standard input for `-`.

        Raises:
            InputError: it cannot be opened or read.
        """
        try:
            if path == STANDARD_INPUT:
                self._file = io.FileIO(sys.stdin.fileno(), closefd=False)
                _widen(self._file)
            else:
                self._file = io.FileIO(Path(path))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}; check the file") from error
        self._counted = _Counted(self._file, path)
        self._expanded: _Expanded | None = None
        stored = io.BufferedReader(self._counted, BUFFER_BYTES)
        magic = stored.peek(4)[:4]
        if magic.startswith(GZIP_MAGIC):
            self._expanded = _Expanded(gzip.GzipFile(fileobj=stored))
        elif magic == ZSTD_MAGIC:
            self._expanded = _Expanded(zstd.ZstdFile(stored))
        self.reader: io.BufferedReader[Any] = stored
        if self._expanded:
            self.reader = io.BufferedReader(self._expanded, BUFFER_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def bytes_read(self) -> int:
        """The number of bytes taken from the file as stored."""
        return self._counted.position

    @property
    def damage(self) -> str | None:
        """Why the compressed data could not be read to its end; None where it could."""
        return self._expanded.damage if self._expanded else None
