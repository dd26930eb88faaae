"""Where snapshots are stored: a local folder, or a place in an object store; and restored.

Both hold files under names such as `files/DIGEST`. A file is there as a whole or not at all: in a
folder it is written under another name, synced, and renamed. A folder has a lock. Object stores are
in snapshot_bucket.py.
"""

# Object stores are used through obstore: fsspec's S3 driver cannot be installed next to Faust
# (python-dateutil), and cannot refuse to overwrite an object, which is how one of two writers is
# detected.

from __future__ import annotations

import fcntl
import os
import re
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import xxhash

from streamer.errors import StoreDamaged, StoreUnavailable, needs_extra, on_failure
from streamer.stored.witness import make_folder, sync_folder

if TYPE_CHECKING:
    from streamer.upkeep.snapshot_bucket import Bucket

COPIED_BYTES = 1 << 20  # at once
MARKER, _INDEX = "streamer-work", "index"
DIGEST = re.compile(r"[0-9a-f]{32}")
_OWN_FILE = re.compile(r"[0-9a-f]{32}(\.new)?")  # the second while it is written
_REMEDY = "Use an older snapshot: `streamer restore --snapshot NUMBER` takes one."


class SnapshotStopped(Exception):  # noqa: N818 - nothing has failed
    """Report that a snapshot was given up, since the process ends."""


Place: TypeAlias = "Folder | Bucket"
"""What holds snapshots. Where it cannot be used, each function raises StoreUnavailable."""


def place_of(name: str | Path) -> Place:
    """Return the place with this name: a folder's path, or the URL of a place in an object store.

    Raises:
        SettingsError: it is no URL of an object store, or the extra that it needs is missing.
    """
    if "://" not in str(name):
        return Folder(Path(name))
    with needs_extra("object-store", f"A snapshot in {name}"):
        from streamer.upkeep.snapshot_bucket import Bucket  # noqa: PLC0415 - an extra
    return Bucket(str(name))


def digest_of(source: Path, stopping: threading.Event | None = None) -> str:
    """Return the digest of a file's bytes; raise SnapshotStopped if asked to stop."""
    digest = xxhash.xxh3_128()
    for data in blocks_of(source, stopping):
        digest.update(data)
    return digest.hexdigest()


def damage_error(name: object) -> StoreDamaged:
    """Return the error about a file of a snapshot."""
    return StoreDamaged(str(name), "it is not what was written", _REMEDY)


class Folder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)

    def below(self, part: str) -> Folder:
        """Return the folder `part` of it."""
        return Folder(self.path / part)

    def parts(self) -> list[str]:
        """Return the names of the folders in it."""
        with self._explain_failures():
            return [path.name for path in self.path.glob("*") if path.is_dir()]

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return its files with their sizes."""
        with self._explain_failures():
            files = [path for path in (self.path / folder).glob("*") if path.is_file()]
            return {path.name: path.stat().st_size for path in files}

    def read(self, name: str) -> bytes:
        """Return what is in a file."""
        with self._explain_failures():
            return (self.path / name).read_bytes()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            StoreUnavailable: another process has it.
        """
        with self._explain_failures():
            make_folder(self.path)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with self._explain_failures():
                yield
        except BlockingIOError as error:
            raise another_writes(self.name) from error
        finally:
            os.close(lock)

    def put(self, source: Path, name: str, digest: str, stopping: threading.Event) -> None:
        """Copy a file into it."""
        with self._explain_failures():
            path = self.path / name
            make_folder(path.parent)
            self._check_no_link(path.parent)
            new = path.with_name(f"{path.name}.new")
            mode = source.stat().st_mode
            write_copy(new, mode, check_digest(blocks_of(source, stopping), digest, source))
            new.rename(path)

    def create(self, name: str, data: bytes) -> None:
        """Write a file, and bring it to the disk after all that was put before."""
        with self._explain_failures():
            for folder in self.path.glob("*/"):
                sync_folder(folder)
            new = (self.path / name).with_suffix(".new")
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.rename(self.path / name)
            sync_folder(self.path)

    def remove(self, name: str) -> None:
        """Remove a file, from the disk when this returns."""
        with self._explain_failures():
            (self.path / name).unlink()
            sync_folder(self.path)

    def sweep(self, folder: str, needed: Collection[str]) -> None:
        """Remove the other files that have a digest for a name."""
        with self._explain_failures():
            self._check_no_link(self.path / folder)
            for file in (self.path / folder).iterdir():
                if is_unneeded(file.name, needed) and file.is_file() and not file.is_symlink():
                    file.unlink()

    def _check_no_link(self, folder: Path) -> None:
        if folder.is_symlink():  # files of somebody else may be there, with digests for names
            raise StoreUnavailable(
                f"{folder} is a link, which could lead to the files of others: nothing is written "
                "there. Name another folder for the snapshots."
            )

    def fetch(self, name: str, target: Path, digest: str) -> None:
        """Copy a file."""
        source = self.path / name
        with self._explain_failures():
            mode = source.stat().st_mode
        write_copy(target, mode, self._check(source, digest))

    def _check(self, source: Path, digest: str) -> Iterator[bytes]:
        with self._explain_failures():  # nothing of what happens to those who take the bytes
            yield from check_digest(blocks_of(source, None), digest, source)

    def lend(self, name: str, target: Path, digest: str) -> None:
        """Read a file, and make a link to it."""
        source = self.path / name
        with self._explain_failures():
            if digest_of(source) != digest:
                raise damage_error(source)
            target.symlink_to(source.absolute())

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"Snapshots in {self.name} cannot be used: {error.strerror or error} "
                f"({error.filename}). Free space there, fix the permissions, or name another "
                "folder."
            ) from error


def another_writes(name: str) -> StoreUnavailable:
    """Return the error about a place that another process is writing to."""
    return StoreUnavailable(
        f"Another process writes snapshots to {name}. Wait until that has ended, or use another "
        "folder."
    )


def blocks_of(source: Path, stopping: threading.Event | None) -> Iterator[bytes]:
    """Yield a file's bytes; raise SnapshotStopped if asked to stop."""
    with source.open("rb", buffering=0) as file:
        while data := file.read(COPIED_BYTES):
            if stopping is not None and stopping.is_set():
                raise SnapshotStopped
            yield data


def check_digest(blocks: Iterable[bytes], digest: str, name: object) -> Iterator[bytes]:
    """Yield the bytes of a file; raise StoreDamaged at its end if they have another digest."""
    found = xxhash.xxh3_128()
    for data in blocks:
        found.update(data)
        yield data
    if found.hexdigest() != digest:
        raise damage_error(name)


def is_unneeded(name: str, needed: Collection[str]) -> bool:
    """Return whether a file has the name of one of ours, and is not needed."""
    return name not in needed and _OWN_FILE.fullmatch(name) is not None


def write_copy(target: Path, mode: int, blocks: Iterable[bytes]) -> None:
    """Bring the bytes of a file to the disk, with the rights in `mode`.

    Raises:
        OSError: the disk of `target` refuses.
    """
    with target.open("wb", buffering=0) as file:
        target.chmod(mode & 0o666)
        for data in blocks:
            view = memoryview(data)
            while view:  # a disk that is nearly full takes a part
                view = view[file.write(view) :]
        os.fsync(file.fileno())


# ---- where an index is restored ------------------------------------------------------------------


class WorkFolder:
    """A folder that one command works in, from `begin` to `discard`, next to the place of an index.

        INDEX.restoring/streamer-work  the marker; locked while the command runs
        INDEX.restoring/index/         the index, until it is renamed

    A crash leaves the folder behind, and the next command removes it. A folder without the marker,
    or with anything else in it, is not ours: it is refused, and nothing in it is removed.
    """

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
