"""Files that several processes append to, as whole lines, each write being there whole or not."""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AppendedFile:
    """A file that nobody else appends to meanwhile.

    Attributes:
        kept: its bytes that stay if a write fails.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self.kept = file.seek(0, os.SEEK_END)

    def content(self) -> bytes:
        """Return all of it."""
        self._file.seek(0)
        return self._file.readall()

    def cut(self, size: int) -> None:
        """Cut off what is behind so many bytes, such as a line that a kill has cut short."""
        self._file.truncate(size)
        self.kept = size

    def write(self, data: bytes) -> None:
        """Append bytes."""
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]


@contextmanager
def appending(path: Path) -> Iterator[AppendedFile]:
    """Open a file to append to it; all of that is on the disk then, or with an error none.

    It is not buffered: what a buffer holds would be written when the file is closed.

    Raises:
        OSError: it cannot be written.
    """
    with io.FileIO(path, "a+") as raw:
        fcntl.flock(raw, fcntl.LOCK_EX)
        file = AppendedFile(raw)
        try:
            yield file
            os.fsync(raw)
        except BaseException:
            raw.truncate(file.kept)
            raise
