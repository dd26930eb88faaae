"""The witness: a small file next to the database that names the newest flush and holds the lock.

A database that has lost its end (a truncated manifest or log) opens in an older state. So the
number of each flush is also stored outside, once the database has the flush. A crash may come
between the two: then the database is one flush ahead, and it is never behind.

The file has two places, which are written in turn and in place. It never grows, so it can be
written on a full disk, and a write that a power failure tore leaves the number before it. The
writer of an index holds a lock on the file, which ends with its process.
"""

# Two slots written in place need one sync instead of the three of a rename. The binding writes into
# any folder that it opens, so a start gives it a folder of links; the first flush opens the
# database for writing, after keys and state were found to fit.

import fcntl
import hashlib
import os
from pathlib import Path

from streamer.errors import StreamerError, damage_error, explain_failures, open_here

_FOLDER_MODE = 0o750  # pages of a crawl may be private
NAME = "newest-flush"
PLACE_BYTES = 4096  # a disk writes no less at once
_PLACES = 2

_held: set[tuple[int, int]] = set()  # devices and inodes of the files that this process has locked
os.register_at_fork(after_in_child=_held.clear)


class Witness:
    """The witness of an index folder, held by the one that writes the index.

    Where another process writes that, or the disk refuses, every function raises StoreUnavailable.
    """

    def __init__(self, folder: Path) -> None:
        """Take the witness in `folder`, which is made with it if it is not there."""
        self._path = folder / NAME
        self._lock()
        while not self.is_current():  # its last holder has removed it before releasing it
            self.close()
            self._lock()

    def _lock(self) -> None:
        """Open the file, making it if need be, and take its lock."""
        with explain_failures(self._path):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        status = os.fstat(self._file)
        self._id = status.st_dev, status.st_ino
        try:
            with explain_failures(self._path.parent):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except StreamerError as error:
            os.close(self._file)
            raise (open_here(self._path.parent) if self._id in _held else error) from error
        _held.add(self._id)

    def is_current(self) -> bool:
        """Return whether the file that is locked is the one under its path."""
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def begin(self) -> None:
        """Write that there is no flush yet."""
        with explain_failures(self._path):
            os.pwrite(self._file, _place(0) * _PLACES, 0)
            os.fsync(self._file)
            sync_folder(self._path.parent)

    def write(self, seq: int) -> None:
        """Write, to the disk, that the database has flush `seq`."""
        with explain_failures(self._path):
            os.pwrite(self._file, _place(seq), seq % _PLACES * PLACE_BYTES)
            os.fdatasync(self._file)

    def close(self) -> None:
        """Release the file and its lock, which a process that was forked may have open, too."""
        _held.discard(self._id)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)


def read_places(folder: Path) -> list[int | None] | None:
    """Return the number in each place, None for one that is damaged; None without a witness.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    path = folder / NAME
    with explain_failures(path):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    return [_number(data[i * PLACE_BYTES : (i + 1) * PLACE_BYTES]) for i in range(_PLACES)]


def read_witness(folder: Path) -> int | None:
    """Return the newest flush that is witnessed, None without a witness.

    Raises:
        StoreDamaged: no place of the file can be read.
        StoreUnavailable: it cannot be read.
    """
    places = read_places(folder)
    if places is None:
        return None
    sound = [number for number in places if number is not None]
    if not sound:
        raise damage_error(folder / NAME, "it has no number")
    return max(sound)


def make_folder(folder: Path) -> None:
    """Make a folder of an index or of snapshots, and those above it; others may not enter them."""
    for each in reversed(folder.parents):
        if not each.exists():
            each.mkdir(_FOLDER_MODE, exist_ok=True)
    folder.mkdir(_FOLDER_MODE, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring the entry of a new file to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _place(seq: int) -> bytes:
    text = f"flush {seq}"
    check = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text} {check}\n".encode().ljust(PLACE_BYTES, b"\n")


def _number(place: bytes) -> int | None:
    words = place.split()
    if len(words) != 3 or not words[1].isdigit() or _place(int(words[1])) != place:  # noqa: PLR2004 - flush, number, check
        return None
    return int(words[1])
