"""The store's failures as errors that name the cause and the remedy."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from streamer.errors import StoreDamaged, StoreUnavailable

REMEDY = (
    "Put back a copy of the whole index, or remove its folder and build it anew: a worker does so "
    "from its log. `streamer check --deep` says what is damaged."
)
_FULL = {errno.ENOSPC, errno.EDQUOT}
_RIGHTS = {errno.EACCES, errno.EPERM, errno.EROFS}
_GONE = {errno.ENOENT, errno.EIO}

# RocksDB's errors are told apart by their texts only. What the system refuses for now:
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded")
_LOCK_TEXTS = ("IO error: While lock file", "IO error: lock ")
_RIGHTS_TEXTS = ("Permission denied", "Operation not permitted", "Read-only file system")
_REFUSALS = (
    *_RIGHTS_TEXTS,
    "Too many open files",
    "File too large",
    "Cannot allocate memory",
)


def damaged(path: Path, what: str) -> StoreDamaged:
    """Return the error about a file or folder of an index that is not what was written."""
    return StoreDamaged(str(path), what, REMEDY)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system says about the file or folder `path` into our errors."""
    try:
        yield
    except BlockingIOError as error:
        raise _in_use(path) from error
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path) from error
        if error.errno in _GONE:
            raise damaged(path, str(error.strerror)) from error
        raise _refused(path, str(error.strerror or error), error.errno in _RIGHTS) from error


def database_error(path: Path, text: str) -> StoreDamaged | StoreUnavailable:
    """Return the error for what RocksDB says of the database in `path`."""
    if any(part in text for part in _FULL_TEXTS):
        return _full(path)
    if text.startswith(_LOCK_TEXTS):
        return _in_use(path)
    if any(part in text for part in _REFUSALS):
        return _refused(path, text, any(part in text for part in _RIGHTS_TEXTS))
    return damaged(path, text)


def _refused(path: Path, what: str, of_rights: bool) -> StoreUnavailable:  # noqa: FBT001 - private
    remedy = (
        " Its folder must be readable, and to judge pages with it also writable: mend the rights, "
        "or use a copy."
    )
    return StoreUnavailable(f"Cannot use the index {path}: {what}.{remedy if of_rights else ''}")


def _full(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"No space is left on the disk of the index {path}. Free some and run the same command "
        "again; it goes on where the index stands."
    )


def _in_use(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"The index {path} is in use by another process. "
        "Wait until that has ended, or use another --index."
    )
