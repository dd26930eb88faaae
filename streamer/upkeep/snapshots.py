"""Snapshots: copies of an index as of a flush, several of them in one folder.

    FOLDER/snapshot-000007.json  a snapshot: the names, sizes and digests of an index's files
    FOLDER/files/DIGEST          the bytes of a file, once for all snapshots that have it

The folder may be a place in an object store (snapshot_places.py). The database's sorted files never
change, so a snapshot costs only what is new since the one before. The snapshot's own file is
written last: a crash leaves files that the next snapshot reuses or removes, never a partial
snapshot. Files are copies, not links, because damage to the index's files would damage linked
snapshots as well.

All bytes are compared with their digests when they are read. This detects damage, not forgery. So
names in a snapshot are not trusted: nothing is written outside the index that is restored.
"""

# Copies are named by digest, because a restored index numbers its files differently. A restored
# index recognizes its log by the digest of the record before its position, which `trim-log` keeps.

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from streamer.errors import StoreDamaged, StoreUnavailable, StreamerError, explain_failures
from streamer.index.codec import StoreMeta
from streamer.run.index_folder import meta_of, own_key, store_folder
from streamer.stored.database_files import remove_copy, state_files
from streamer.stored.store import Store
from streamer.stored.witness import Witness, make_folder, sync_folder
from streamer.upkeep import snapshot_places as places

_NAME = re.compile(r"snapshot-([0-9]{6,})\.json")
_FILE_OF_AN_INDEX = re.compile(r"secret\.key|store/[A-Za-z0-9][A-Za-z0-9._-]*")
_THREADS = 4  # that restore: one copies while another waits for the disk
_FILES = "files"

Report = Callable[["Taken | StreamerError"], None]


class File(msgspec.Struct):
    """A file of an index: its name there, and what identifies its bytes."""

    name: str
    size: int
    changed_ns: int
    digest: str


class Snapshot(msgspec.Struct):
    """What a snapshot has: the files of an index as of its flush `flush`, with so many pages.

    `key` is the id of the key that the index was made with.
    """

    number: int
    made: datetime
    flush: int
    pages: int
    key: str
    files: list[File]
    format: int = 1

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)


class _Sealed(msgspec.Struct):
    """A snapshot's own file: the snapshot, and the digest of its bytes."""

    digest: str
    snapshot: msgspec.Raw


class Taken(NamedTuple):
    """A snapshot that was taken: how many of its files were copied, and their bytes."""

    snapshot: Snapshot
    files: int
    size: int


class SnapshotFolder:
    """A place with snapshots of one index. One process writes it at a time.

    Where something of a snapshot is missing, or not what was written, every function raises
    StoreDamaged; StoreUnavailable where there is no such snapshot, the place or a disk refuses, or
    another process writes there.
    """

    def __init__(self, place: places.Place | str | Path) -> None:
        self._place = places.place_of(place) if isinstance(place, str | Path) else place
        self.name = self._place.name  # as the user calls it

    def parts(self) -> list[str]:
        """Return the parts of a worker's, one a shard, with snapshots; "" where it has itself."""
        if self.numbers():
            return [""]
        below = sorted(part for part in self._place.parts() if re.fullmatch(r"shard-[0-9]+", part))
        return [part for part in below if self.below(part).numbers()] or [""]

    def below(self, part: str) -> SnapshotFolder:
        """Return the place of a part."""
        return SnapshotFolder(self._place.below(part) if part else self._place)

    def check_outside(self, index: Path) -> None:
        """Raise StoreUnavailable if the place is in the folder of an index, and lost with it."""
        is_path = "://" not in self.name
        if is_path and Path(self.name).resolve().is_relative_to(index.resolve()):
            raise StoreUnavailable(
                f"{self.name} is in the index, and would be lost with it. Name a folder elsewhere."
            )

    def numbers(self) -> list[int]:
        """Return the numbers of all snapshots, oldest first."""
        found = map(_NAME.fullmatch, self._place.sizes())
        return sorted(int(name[1]) for name in found if name)

    def read(self, number: int | None = None) -> Snapshot:
        """Return a snapshot by its number, None: the newest."""
        there = self.numbers()
        if not there:
            raise StoreUnavailable(f"There is no snapshot in {self.name}. Name their folder.")
        if number is None:
            number = there[-1]
        if number not in there:
            listed = ", ".join(map(str, there))
            raise StoreUnavailable(f"{self.name} has no snapshot {number}; it has {listed}.")
        data = self._place.read(_own_file(number))
        with suppress(msgspec.MsgspecError):
            sealed = msgspec.json.decode(data, type=_Sealed)
            if sealed.digest == xxhash.xxh3_128_hexdigest(bytes(sealed.snapshot)):
                snapshot = msgspec.json.decode(sealed.snapshot, type=Snapshot)
                _check_names(snapshot, f"{self.name}/{_own_file(number)}")
                return snapshot
        raise places.damage_error(f"{self.name}/{_own_file(number)}")

    def take(self, checkpoint: StoreCheckpoint, keep: int, stopping: threading.Event) -> Taken:
        """Copy what is new of a checkpoint; leave the newest `keep` snapshots, 0: all.

        Raises:
            SnapshotStopped: `stopping` was set.
        """
        self.check_outside(checkpoint.index)
        with self._place.writing():
            there = self.numbers()
            newest = None
            with suppress(StoreDamaged):  # the newest that is whole
                newest = self.read() if there else None
            if newest and newest.key != checkpoint.key:
                raise StoreUnavailable(
                    f"{self.name} has snapshots of an index with another key. Name another folder "
                    "for those of this one."
                )
            before = newest.files if newest else []  # these need not be read again
            known = {(file.name, file.size, file.changed_ns): file.digest for file in before}
            files, new = [], []
            stored = self._place.sizes(_FILES)
            for name, source in checkpoint.files():
                found = source.stat()
                seen = name, found.st_size, found.st_mtime_ns
                file = File(*seen, known.get(seen) or places.digest_of(source, stopping))
                files.append(file)
                if stored.get(file.digest) != file.size:
                    self._place.put(source, f"{_FILES}/{file.digest}", file.digest, stopping)
                    stored[file.digest] = file.size
                    new.append(file.size)
            number, made = max(there, default=0) + 1, datetime.now(UTC).replace(microsecond=0)
            known_by = checkpoint.flush, checkpoint.pages, checkpoint.key
            snapshot = Snapshot(number, made, *known_by, files)
            self._write(snapshot)
            self._remove([*there, number][:-keep] if keep else [])
            return Taken(snapshot, len(new), sum(new))

    def _write(self, snapshot: Snapshot) -> None:
        packed = msgspec.json.encode(snapshot)
        sealed = _Sealed(xxhash.xxh3_128_hexdigest(packed), msgspec.Raw(packed))
        self._place.create(_own_file(snapshot.number), msgspec.json.encode(sealed))

    def _remove(self, numbers: list[int]) -> None:
        """Remove snapshots, and then each file that no other has."""
        for number in numbers:
            self._place.remove(_own_file(number))  # first: no snapshot lacks a file at any moment
        needed = {file.digest for number in self.numbers() for file in self.read(number).files}
        self._place.sweep(_FILES, needed)

    def restore(self, index: Path, number: int | None = None) -> list[tuple[Path, Snapshot]]:
        """Make the index in `index`, which must not be there, of a snapshot: all or nothing.

        Return the snapshot of each folder that was made: of a worker's snapshots those of all
        shards, below `index`.
        """
        parts = [(index / part, self.below(part)) for part in self.parts()]
        chosen = [(folder, below, below.read(number)) for folder, below in parts]
        try:
            with ExitStack() as stack:
                works = [(folder, _work_for(folder.absolute())) for folder, _ in parts]
                for (_, below, snapshot), (_, work) in zip(chosen, works, strict=True):
                    stack.callback(work.discard)
                    work.begin()
                    below.lay_out(snapshot, work.index)
                for folder, work in works:
                    work.index.rename(folder)
                    sync_folder(folder.parent)
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot restore to {index}: {error.strerror or error}. Nothing of it is left "
                "there. Free space on its disk or give the right to write there, and run the same "
                "command again; or name another folder."
            ) from error
        return [(folder, snapshot) for folder, _, snapshot in chosen]

    def check(self, number: int) -> StoreMeta:
        """Read every byte of a snapshot and open it; return the state of its index."""
        snapshot = self.read(number)
        with (
            tempfile.TemporaryDirectory(prefix="streamer-") as scratch,
            explain_failures(Path(scratch)),
        ):
            return self.lay_out(snapshot, Path(scratch, "index"), lend=True)

    def lay_out(self, snapshot: Snapshot, index: Path, *, lend: bool = False) -> StoreMeta:
        """Make an index in a new folder and open it; return its state.

        With `lend` it is for a look only: its files may be links.

        Raises:
            OSError: the disk of `index` refuses.
        """
        put = self._place.lend if lend else self._place.fetch
        make_folder(store_folder(index))
        stored = self._place.sizes(_FILES)

        def lay(file: File) -> None:
            name = f"{_FILES}/{file.digest}"
            if stored.get(file.digest) != file.size:
                raise places.damage_error(f"{self.name}/{name}")
            put(name, index / file.name, file.digest)

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lay, snapshot.files))
        witness = Witness(index)
        witness.begin()
        witness.write(snapshot.flush)
        witness.close()
        sync_folder(store_folder(index))
        sync_folder(index)
        store = Store.open(store_folder(index), writable=False)
        store.close()
        return store.known


def _own_file(number: int) -> str:
    return f"snapshot-{number:06}.json"


def _check_names(snapshot: Snapshot, where: str) -> None:
    """Raise StoreDamaged if a file is none of an index, is there twice, or has no digest."""
    seen: set[str] = set()
    for file in snapshot.files:
        is_own = _FILE_OF_AN_INDEX.fullmatch(file.name) and places.DIGEST.fullmatch(file.digest)
        if not is_own or file.name in seen:
            raise StoreDamaged(
                where,
                f"its file {file.name!r} (digest {file.digest!r}) is not one of an index",
                "Nothing was written. Streamer did not write this snapshot as it is now: use "
                "another one, and find out who changed it.",
            )
        seen.add(file.name)


def _work_for(index: Path) -> places.WorkFolder:
    """Return where the index in `index` is prepared.

    Raises:
        StoreUnavailable: something is in the place of the one or the other.
    """
    if index.exists() and (not index.is_dir() or any(index.iterdir())):
        why = f"{index} is not empty. Move what is there elsewhere, or name another folder."
        raise StoreUnavailable(why)
    work = places.WorkFolder(index.with_name(f"{index.name}.restoring"))
    work.check()
    return work


class StoreCheckpoint:
    """The files of an index as of its newest flush, as links that stay what they are.

    To be made when no flush is written, and removed when the files are copied.
    """

    def __init__(self, index: Path, store: Store) -> None:
        """Make the links."""
        meta = store.known
        self.index, self.flush, self.pages = index, meta.seq, meta.rows
        self.key = str(meta.identity.get("key", ""))
        self._own_key = own_key(index)
        self._folder = store.checkpoint()

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files of the index, by their names in it."""
        if self._own_key.exists():
            yield self._own_key.name, self._own_key
        for file in sorted(state_files(self._folder)):
            yield f"{store_folder(Path()).name}/{file.name}", file

    def remove(self) -> None:
        """Remove the links."""
        remove_copy(self._folder)


def take_snapshot(index: Path, to: SnapshotFolder, keep: int) -> Taken:
    """Take a snapshot of an index that is not in use.

    Raises:
        StoreDamaged: the index is, or a snapshot.
        StoreMismatch: the index has another format.
        StoreUnavailable: there is none, it is in use, or a disk refuses.
    """
    meta_of(index)  # to create none where there is none
    with closing(Store.open(store_folder(index))) as store, ExitStack() as stack:
        checkpoint = StoreCheckpoint(index, store)
        stack.callback(checkpoint.remove)
        return to.take(checkpoint, keep, threading.Event())


@dataclass
class RegularSnapshots:
    """Takes a snapshot of an open index every so many seconds; `report` is called with each.

    The links are made at a flush, in the thread that writes it; a thread of its own copies. A
    failure ends nothing: the next one is tried when it is due. `clock` returns seconds.
    """

    _index: Path
    _to: SnapshotFolder
    _every: float
    _keep: int
    _report: Report
    _clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "snapshot")
        self._copying: Future[None] | None = None
        self._stopping = threading.Event()
        self._flush, self._begun_at = self._newest()

    def _newest(self) -> tuple[int, float]:
        """Return the flush of the newest snapshot, and when it was made by our clock."""
        try:
            newest = self._to.read()
        except StreamerError:
            return 0, self._clock() - self._every  # there is none, or `take` reports why
        age = (datetime.now(UTC) - newest.made).total_seconds()
        return newest.flush, self._clock() - min(max(age, 0.0), self._every)

    def is_due(self, flush: int, *, changed: bool = False) -> bool:
        """Return whether one is due of an index with this newest flush, and `changed` since."""
        is_copying = self._copying is not None and not self._copying.done()
        is_new = changed or flush != self._flush
        return is_new and not is_copying and self._clock() - self._begun_at >= self._every

    def begin(self, store: Store) -> None:
        """Begin to take one of a store, whose newest flush is written; in the thread of flushes."""
        self._begun_at = self._clock()
        try:
            checkpoint = StoreCheckpoint(self._index, store)
        except Exception as error:  # noqa: BLE001 - it must not fail the flush
            self._report(self._failure(error))
            return
        self._copying = self._thread.submit(self._copy, checkpoint)

    def _copy(self, checkpoint: StoreCheckpoint) -> None:
        try:
            self._report(self._to.take(checkpoint, self._keep, self._stopping))
            self._flush = checkpoint.flush
        except places.SnapshotStopped:
            pass
        except Exception as error:  # noqa: BLE001 - it would be lost otherwise
            self._report(self._failure(error))
        finally:
            checkpoint.remove()

    def _failure(self, error: Exception) -> StreamerError:
        """Return the error to report: as it is, or with what could not be foreseen named."""
        if isinstance(error, StreamerError):
            return error
        return StoreUnavailable(
            f"A snapshot of {self._index} to {self._to.name} failed: {type(error).__name__}: "
            f"{error}. The next one is tried when it is due; the index is unchanged."
        )

    def stop(self) -> None:
        """Give up what is being copied; what is there is found by the next one."""
        self._stopping.set()
        self._thread.shutdown()
