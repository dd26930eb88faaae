"""The bytes of a file as they are stored, wherever it is, and its status.

A pipe whose records have to come in time is read as Python reads a non-blocking file: a read
returns None where the pipe has no bytes for now, after a tick.
"""

import io
import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from streamer.errors import InputError
from streamer.pages.made_bytes import MadeBytes
from streamer.pages.remote import RemoteFile

TICK_SECONDS = 0.05  # so long a pipe is waited for until its reader may do something else


@contextmanager
def explaining_disk(name: str, remedy: str = "check the file") -> Iterator[None]:
    """Turn what the system says about a file or folder into `InputError`, with the remedy."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}; {remedy}") from error


class StoredFile(MadeBytes):
    """A raw file that counts what is taken from it, also where it does not know its position."""

    def __init__(self, file: io.FileIO | RemoteFile, name: str) -> None:
        self._file = file
        self._name = name
        self.position = 0
        self.furthest = 0
        self.pauses = False  # a read returns None where a pipe has nothing for now
        is_remote = isinstance(file, RemoteFile)
        self.is_regular = is_remote or stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        self._base = file.tell() if self.is_regular else 0  # of standard input, maybe not the start

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Fill `buffer`; return how many bytes it got, 0 at the end, None: a pipe pauses."""
        if self._ready:
            taken = super().readinto(buffer) or 0
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
        self._ready = data + self._ready
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
        self._ready = b""
        self.position = position


def status_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what of a file's status is equal as long as nobody writes to it.

    The time of the last change of the inode cannot be set, so a writer who restores the time of
    modification is noticed too.
    """
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def read_beginning(path: str, size: int) -> tuple[os.stat_result, bytes]:
    """Return the status of a file and up to `size` bytes of its beginning, as stored.

    Raises:
        InputError: the file cannot be read.
    """
    with explaining_disk(path), io.FileIO(path) as file:  # of many thousand
        return os.fstat(file.fileno()), file.read(size) or b""
