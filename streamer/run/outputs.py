"""Output files that end with each line exactly once, whatever kill came between.

The index stores, with each flush, how long each output file was. What lies behind that length is
the work of a run that was killed before its next flush: it is cut off, and written again, the same
bytes. It also stores a digest of what lies before, which tells a file that was moved, and refuses
one that is another by now.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
from pathlib import Path
from typing import BinaryIO

from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.model import DEAD_LETTER_SCHEMA
from streamer.text.visible import Buffer

STANDARD_OUTPUT = "-"
_BUFFER_BYTES = 1 << 20
_EDGE_BYTES = 4 << 10  # at both ends of what is known, some five lines each


class StandardOutput:
    """Standard output, written to its last byte.

    Python's own buffered writer (3.11) loses part of a large write to a pipe if the process is
    stopped and continued meanwhile, as a shell's job control or a container's pause does.
    """

    def write(self, data: Buffer) -> None:
        """Write all of `data`, however often the system takes a part of it only."""
        left = memoryview(data)
        while left:
            left = left[os.write(sys.stdout.fileno(), left) :]

    def flush(self) -> None:
        """Do nothing: all is written already."""


class OutputFile:
    """An append-only output. `length` is its length in bytes, buffered ones included.

    Nothing of a file is changed before `start`, but for one that is made. Standard output cannot be
    cut: after a kill, lines may come again there, the same bytes.
    """

    def __init__(self, name: str, file: BinaryIO | StandardOutput, length: int) -> None:
        self.name = name
        self.length = length
        self._file = file

    @property
    def key(self) -> str:
        """Return the name under which the index knows this output."""
        return output_key(self.name)

    @classmethod
    def open(cls, name: str, known: int | None, *, lasting: bool) -> OutputFile:
        """Open an output whose first `known` bytes belong to the index's state; None: never seen.

        With an index that does not last (`lasting` False) the file is simply written anew.

        Raises:
            StoreMismatch: the file is shorter than the index knows it to be.
            SettingsError: it exists and is none of this index's, or cannot be opened.
        """
        check_output(name, known, lasting=lasting)
        if name == STANDARD_OUTPUT:
            return cls(name, StandardOutput(), 0)
        path = Path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("r+b" if path.exists() else "w+b", buffering=_BUFFER_BYTES)
        except OSError as error:
            raise _unwritable(name, error) from error
        return cls(name, file, known or 0)

    def start(self) -> None:
        """Cut off what is not of the index's state: from here on, lines are appended.

        Raises:
            SettingsError: the file cannot be cut.
        """
        try:
            if not isinstance(self._file, StandardOutput) and Path(self.name).is_file():
                self._file.truncate(self.length)
                self._file.seek(self.length)
        except OSError as error:
            raise _unwritable(self.name, error) from error

    def digest(self) -> str:
        """Return the digest of what was synced; "" of what is no file."""
        return content_digest(Path(self.name), self.length)

    def write(self, data: bytes) -> None:
        """Append `data`.

        Raises:
            StoreUnavailable: the disk is full, or the reader of a pipe is gone.
        """
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failed(error) from error
        self.length += len(data)

    def sync(self) -> None:
        """Bring everything to the disk."""
        try:
            self._file.flush()
            if not isinstance(self._file, StandardOutput):
                os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno != errno.EINVAL:  # a device or pipe cannot be synced and need not be
                raise self._failed(error) from error

    def close(self) -> None:
        """Close the file; bytes that nobody synced are let go if they cannot be written."""
        if not isinstance(self._file, StandardOutput):
            with contextlib.suppress(OSError):
                self._file.close()

    def _failed(self, error: OSError) -> StoreUnavailable:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return StoreUnavailable(
                f"No space is left for {self.name}. Free some and run the same command again; "
                "it goes on where the index stands."
            )
        return StoreUnavailable(f"Cannot write {self.name}: {error.strerror}.")


def check_output(name: str, known: int | None, *, lasting: bool) -> None:
    """Raise what `OutputFile.open` does for a file that is not the one it should be.

    Nothing is made or changed.
    """
    if name == STANDARD_OUTPUT or not lasting:
        return
    size = Path(name).stat().st_size if Path(name).exists() else 0
    if known is None and size:
        raise SettingsError(
            f"{name} exists and was not written with this index. Remove it, or name another file."
        )
    if known is not None and size < known:
        raise StoreMismatch(
            f"{name} has {size} bytes, but the index has published {known} to it. "
            "Put the file back, or name another one for what is still to come."
        )


def check_writable(path: Path) -> None:
    """Find out before long work whether a file can be written at its end; leave all as it was.

    Raises:
        SettingsError: it cannot.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            return  # to open a pipe would wait for its reader
        made = not path.exists()
        path.open("ab").close()
        if made:
            path.unlink()
    except OSError as error:
        raise _unwritable(str(path), error) from error


def _unwritable(name: str, error: OSError) -> SettingsError:
    return SettingsError(f"Cannot write {name}: {error.strerror}. Name another file.")


def output_key(name: str) -> str:
    """Return the name of an output in the index's state: its resolved path."""
    return name if name == STANDARD_OUTPUT else str(Path(name).resolve())


def content_digest(path: Path, length: int) -> str:
    """Return a digest of the first `length` bytes of a file, by both ends of them.

    It is "" where nothing can be told: of a file that is shorter, cannot be read or is none.
    """
    if not length or not path.is_file():
        return ""
    digest = hashlib.blake2b(length.to_bytes(8, "little"), digest_size=16)
    try:
        with path.open("rb") as file:
            for start in (0, max(0, length - _EDGE_BYTES)):
                file.seek(start)
                edge = file.read(min(length, _EDGE_BYTES))
                digest.update(edge)
                if len(edge) < min(length, _EDGE_BYTES):
                    return ""
    except OSError:
        return ""
    return digest.hexdigest()


def begun_by(path: Path, fingerprint: str) -> bool:
    """Tell whether a file begins with a verdict of this fingerprint, or with a dead letter."""
    try:
        with path.open("rb") as file:
            line = file.readline(1 << 20)
    except OSError:
        return False
    return fingerprint.encode() in line or DEAD_LETTER_SCHEMA.encode() in line
