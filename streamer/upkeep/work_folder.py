"""The folder in which a command prepares an index, next to the place where the index goes.

    INDEX.restoring/streamer-work  the marker; locked while the command runs
    INDEX.restoring/index/         the index, until it is renamed

A crash leaves the folder behind, and the next command removes it. A folder without the marker, or
with anything else in it, is not ours: it is refused, and nothing in it is removed.
"""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from streamer.errors import StoreUnavailable, on_failure
from streamer.stored.witness import make_folder

MARKER = "streamer-work"
_INDEX = "index"


class WorkFolder:
    """A folder that one command works in, from `begin` to `discard`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = path / _INDEX  # where the index is prepared
        self._marker = path / MARKER
        self._lock: int | None = None
        self._made: list[Path] = []  # folders above it that were missing, innermost first

    def check(self) -> None:
        """Raise StoreUnavailable if something else than the work of a killed command is there."""
        if os.path.lexists(self.path) and not self._is_own():
            raise StoreUnavailable(
                f"{self.path} is in the way: it was not left by a command that was killed. Move it "
                "elsewhere, or name another index folder."
            )

    def _is_own(self) -> bool:
        """Return whether the folder is there, with nothing that a command did not put into it."""
        if self.path.is_symlink() or not self.path.is_dir():
            return False
        found = {each.name: each for each in self.path.iterdir()}
        has_links = any(each.is_symlink() for each in found.values())
        return not found or (MARKER in found and found.keys() <= {MARKER, _INDEX} and not has_links)

    def begin(self) -> None:
        """Make the folder, and remove what a killed command has left in it.

        Raises:
            OSError: the disk refuses.
            StoreUnavailable: something else is there, or another process works in it.
        """
        self.check()
        self._made = [each for each in self.path.parents if not each.exists()]
        make_folder(self.path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with on_failure(self._remove_empty):
            lock = os.open(self._marker, flags, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            why = f"Another process works in {self.path}. Wait until that has ended."
            raise StoreUnavailable(why) from error
        self._lock = lock
        if self.index.exists():
            shutil.rmtree(self.index)

    def discard(self) -> None:
        """Remove the folder and the index in it, unless that cannot be removed, and release it."""
        if self._lock is None:
            return
        shutil.rmtree(self.index, ignore_errors=True)
        if not self.index.exists():
            with suppress(OSError):
                self._marker.unlink()
            self._remove_empty()
        os.close(self._lock)
        self._lock = None

    def _remove_empty(self) -> None:
        """Remove the folder, and those above it that were made for it, as far as they are empty."""
        with suppress(OSError):
            for folder in (self.path, *self._made):
                folder.rmdir()
