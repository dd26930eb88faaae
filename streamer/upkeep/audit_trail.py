"""The audit trail of an index: which commands have changed it, when, and by whom.

    INDEX/audit.jsonl  one line for each: time, command, user of the system, figures

It is for people: nothing is decided by it, no snapshot or restored index has it, and it may be
deleted. It never has a URL, a host or a text, since these may be what was forgotten. A command that
could not be written down has been done all the same, so that is a warning.
"""

from __future__ import annotations

import errno
import logging
import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from streamer.errors import StoreUnavailable

NAME = "audit.jsonl"
_READ_BYTES_MAX = 1 << 20  # of the end of a trail: some ten thousand lines

_log = logging.getLogger("streamer")


class Deed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a command has done: its figures by name, and the settings that it changed, if any."""

    time: datetime
    command: str
    user: str
    figures: dict[str, int]
    settings: dict[str, str] = {}


_decode = msgspec.json.Decoder(Deed).decode


def note_deed(
    folder: Path,
    command: str,
    figures: Mapping[str, int],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Append a line to the trail of an index; warn if that fails."""
    now = datetime.now(UTC).replace(microsecond=0)
    deed = Deed(now, command, _user(), dict(figures), dict(settings or {}))
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(folder / NAME, flags, 0o644)
        try:
            size = os.fstat(file).st_size
            is_cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # by a crash
            os.write(file, b"\n" * is_cut + msgspec.json.encode(deed) + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        _log.warning("%s is done, but not in %s: %s.", command, folder / NAME, error.strerror)


def _user() -> str:
    """Return the name of the system's user, or the number of one without a name."""
    number = os.getuid()
    with suppress(KeyError):
        return pwd.getpwuid(number).pw_name
    return str(number)


def copy_trail(folder: Path, to: Path) -> None:
    """Have the index in `to`, which is made of the one in `folder`, go on with its trail.

    Warn if that fails.
    """
    try:
        with suppress(FileNotFoundError), _opened(folder) as file:
            (to / NAME).write_bytes(file.read())
    except OSError as error:
        _log.warning(
            "The new index does not have the lines of %s: %s.", folder / NAME, error.strerror
        )


def _opened(folder: Path) -> BinaryIO:
    """Open a trail to read it; wait for no writer, as a FIFO would have it.

    Raises:
        OSError: there is none, or it cannot be read, or it is no file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    number = os.open(folder / NAME, flags)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is no file")
    return os.fdopen(number, "rb")


def deeds_of(folder: Path, limit: int) -> list[Deed]:
    """Return the newest deeds of a trail, newest first; lines that cannot be read are left out.

    Raises:
        StoreUnavailable: there is a trail, and it cannot be read.
    """
    try:
        with _opened(folder) as file:
            start = max(0, os.fstat(file.fileno()).st_size - _READ_BYTES_MAX)
            file.seek(start)
            lines = file.read(_READ_BYTES_MAX).splitlines()[1 if start else 0 :]
    except FileNotFoundError:
        return []
    except OSError as error:
        said = f"Cannot read {folder / NAME}: {error.strerror}. See its permissions."
        raise StoreUnavailable(said) from error
    found: list[Deed] = []
    for line in reversed(lines):
        if len(found) == limit:
            break
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found.append(_decode(line))
    return found
