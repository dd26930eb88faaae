"""Places in archives, read many at a time: byte ranges of files here, in stores, on web servers.

Ranges that are near each other in one archive become one request. What fails for one archive only
is a fault of the records in it. Whether that is so, the store is asked for another archive that it
has given before: if that cannot be had either, the store is away, and the error ends the run; else
the place is read once more. A store that gives nothing while others do is dead for the run, and
its places fail at once.
"""

import errno
import hashlib
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from streamer.errors import InputError, InvalidPage
from streamer.pages import remote

CONNECTIONS = 16
GAP_BYTES_MAX = 64 << 10  # between two ranges that are read as one: less than a round trip costs
RANGE_BYTES_MAX = 4 << 20  # of what is read as one
_KNOWN_MAX = 4_096  # archives that are known to be as they were, while others are read
_HEAD_BYTES = 512  # of an archive here, by which it is known: its first record has an id
_FAILURES_WAITED_FOR = 3  # archives of a store: another one shows afterwards whether it is away
_OF_ALL_FILES = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
_AS_OF_NO_DISK = {errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV}


class ArchiveRange(NamedTuple):
    """The bytes [start, end) of an archive, which is a path or a URL."""

    archive: str
    start: int
    end: int


class Version(NamedTuple):
    """Which archive it is: its name, its size, and its ETag; of one here how it begins.

    `query` is a digest of its URL, if that has more than the name: some servers have files by that.
    """

    name: str
    size: int
    tag: str
    query: str = ""

    @property
    def key(self) -> str:
        """What no other archive has."""
        return f"{self.name}?{self.query}" if self.query else self.name


class StoredRange(NamedTuple):
    """The bytes of a place, and the archive that they are from."""

    data: bytes
    version: Version


_Outcome = StoredRange | InvalidPage


@dataclass(slots=True)
class _Request:
    """Places that are read together, by their numbers: the bytes [start, end) of an archive."""

    archive: str
    start: int
    end: int
    numbers: list[int] = field(default_factory=list)


def requests_for(places: Sequence[ArchiveRange]) -> list[_Request]:
    """Return what to ask for, to have the bytes of places: each of these is part of one."""
    made: list[_Request] = []
    for number in sorted(range(len(places)), key=lambda each: places[each]):
        archive, start, end = places[number]
        last = made[-1] if made else _Request("", 0, 0)
        gap, size = start - last.end, max(end, last.end) - last.start
        if last.archive != archive or gap > GAP_BYTES_MAX or size > RANGE_BYTES_MAX:
            made.append(last := _Request(archive, start, end))
        last.end = max(last.end, end)
        last.numbers.append(number)
    return made


class ArchiveReader(AbstractContextManager["ArchiveReader"]):
    """Reads places in archives; a context manager that stops what is still read.

    `root` is the folder or URL that most of them are below.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._pool = ThreadPoolExecutor(CONNECTIONS, "archives")
        self._stores, self._stores_once = remote.Stores(), remote.Stores(patient=False)
        self._lock = threading.Lock()
        self._known: dict[str, remote.RemoteObject] = {}
        self._reached_here = ""  # the path of the last archive here that was read
        self._reached: dict[str, list[str]] = {}  # by store the URLs it has given last, two of them
        self._dead: set[str] = set()  # stores that gave nothing, while others did
        self._failures: Counter[str] = Counter()  # by store, of archives that it did not give

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, places: Sequence[ArchiveRange]) -> list[Callable[[], StoredRange]]:
        """Have places read; return for each what waits for its bytes, fewer where it ends.

        These raise:
            InvalidPage: `archive_unreadable`.
            InputError: the archive has changed meanwhile, or its store is away.
        """
        found: dict[int, Callable[[], StoredRange]] = {}
        for request in requests_for(places):
            reading = self._pool.submit(self._read, request, places)
            found |= {n: partial(_result, reading, at) for at, n in enumerate(request.numbers)}
        return [found[number] for number in range(len(places))]

    def _read(self, request: _Request, places: Sequence[ArchiveRange]) -> list[_Outcome]:
        """Return what there is of each place of a request; alone, where they fail together.

        They have had their minute then, so each is tried without waiting.
        """
        own = [places[number] for number in request.numbers]
        whole = self._range(ArchiveRange(request.archive, request.start, request.end))
        if isinstance(whole, StoredRange):
            return [_part(whole, place, request.start) for place in own]
        if len(own) == 1:
            return [whole]
        return [_part(self._range(place, self._stores_once), place, place.start) for place in own]

    def _range(self, place: ArchiveRange, stores: remote.Stores | None = None) -> _Outcome:
        """Return the bytes of a place.

        Raises:
            InputError: as `ask` returns.
        """
        if not remote.is_remote(place.archive):
            return self._local_range(place)
        store = remote.store_of(place.archive)
        if store in self._dead:
            return _unreadable(f"{store} could not be reached before in this run")
        if stores is None:
            waits = self._failures[store] < _FAILURES_WAITED_FOR
            stores = self._stores if waits else self._stores_once
        for is_last in (False, True):  # the store may have been away for a while
            try:
                return self._remote_range(place, stores)
            except remote.MissingFileError:
                return _unreadable("is not there")
            except remote.UnusableFileError:
                raise
            except InputError as error:
                failed = error
                if is_last or self._is_reachable(place.archive):
                    continue
                if store in self._reached or not self._reached:
                    raise
                self._dead.add(store)  # others can be reached, so it is not the network
                break
        self._failures[store] += 1
        return _unreadable(str(failed).removeprefix(f"{remote.name_of(place.archive)}: "))

    def _local_range(self, place: ArchiveRange) -> _Outcome:
        path, start, end = place
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode):
                    return _unreadable("is no file")
                if not found.st_size:  # as what the system shows of itself is: /proc/self/mem
                    return _unreadable("it has 0 bytes")
                head, data = os.pread(file, _HEAD_BYTES, 0), os.pread(file, end - start, start)
            finally:
                os.close(file)
        except (OSError, ValueError) as error:
            what = str(getattr(error, "strerror", None) or error)
            code, last = getattr(error, "errno", None), self._reached_here
            if code in _OF_ALL_FILES:
                raise InputError(f"{path}: {what}; check the disk") from error
            if code in _AS_OF_NO_DISK and last and not os.path.isfile(last):  # noqa: PTH113 - as below
                why = f"{path}: {what}, and {last} was read before and is gone; check the disk"
                raise InputError(why) from error
            if not (remote.is_remote(self._root) or os.path.isdir(self._root or ".")):  # noqa: PTH112 - of many thousand
                why = f"{self._root}: the folder of the archives is not there"
                raise InputError(why) from error
            return _unreadable(what)
        self._reached_here = path
        return StoredRange(data, Version(os.path.realpath(path), found.st_size, _digest(head)))

    def _remote_range(self, place: ArchiveRange, stores: remote.Stores) -> StoredRange:
        url, start, end = place
        known, data = self._known.get(url), b""
        if known is None:
            try:
                known, data = remote.RemoteObject.met(url, stores, start, end)
            except remote.ShortFileError:
                known = remote.look_up_file(url)
        with self._lock:
            before = self._known.setdefault(url, known)
            versions = (before.size, before.version), (known.size, known.version)
            remote.check_same(known.name, *versions)
            if len(self._known) > _KNOWN_MAX:
                self._known.pop(next(iter(self._known)))
        data = data or replace(known, stores=stores).read(start, min(end, known.size))
        if data:
            with self._lock:
                reached = self._reached.setdefault(remote.store_of(url), [])
                reached[:] = [*[each for each in reached if each != url][-1:], url]
        query = "" if known.name == known.url else _digest(os.fsencode(known.url))
        return StoredRange(data, Version(known.name, known.size, known.version, query))

    def _is_reachable(self, url: str) -> bool:
        """Return whether the store of an archive gives a byte, of another one if it has before.

        The archive itself has had its minute.
        """
        with self._lock:
            reached = [each for each in self._reached.get(remote.store_of(url), []) if each != url]
        stores = self._stores if reached else self._stores_once
        try:
            remote.RemoteObject.met([url, *reached][-1], stores, 0, 1)
        except InputError:
            return False
        return True


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _part(found: _Outcome, place: ArchiveRange, start: int) -> _Outcome:
    """Return the bytes of a place out of those from `start` on."""
    if isinstance(found, InvalidPage):
        return found
    if place.start >= found.version.size:
        return _unreadable(f"it has {found.version.size:,} bytes")
    return StoredRange(found.data[place.start - start : place.end - start], found.version)


def _unreadable(why: str) -> InvalidPage:
    return InvalidPage("archive_unreadable", why)


def _result(reading: Future[list[_Outcome]], at: int) -> StoredRange:
    outcome = reading.result()[at]
    if isinstance(outcome, InvalidPage):
        raise outcome
    return outcome
