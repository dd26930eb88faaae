"""Page files in object stores and on web servers, read by ranges of bytes.

A file is what it was when it was looked up: its size and its ETag, or the time of its last change.
Each answer is held against these, so bytes of two versions are never read as one file. It is read
in blocks, the next one ahead of its reader. Where a connection ends within a block the rest of the
block is asked for, from the byte that was reached. So no more than `BLOCKS_KEPT` blocks are in
memory, and a reader may go to any place of the file.

A file's name is its URL without the part after the question mark, which may sign it: this is what
is shown and stored. A URL with a password in it is refused.
"""

# Blocks of 4 MiB, one request each, and not one long response: so a reader can seek (Parquet, WACZ,
# a gzip member that is read twice), memory is bounded, and a dropped connection costs the rest of
# one block. Versions are compared here, because servers differ in how they handle If-Match.

from __future__ import annotations

import io
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Self

from streamer.errors import InputError, SettingsError, needs_extra
from streamer.pages.extras import Extra

if TYPE_CHECKING:
    import obstore
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

    from streamer import object_store
else:
    obstore, object_store = Extra("obstore"), Extra("streamer.object_store")

BLOCK_BYTES = 4 << 20
BLOCKS_KEPT = 4  # of a file: one in hand and one ahead, for its reader and for who checks a member
FILES_AHEAD, BYTES_AHEAD = 32, 16 << 20  # of small files that are read before their turn
TRIES = 5  # that bring nothing, until a reader gives up
_PART_BYTES = 16 << 10  # of a block; what arrived of the last part is lost with a connection
_SCHEMES = ("s3", "gs", "az", "https", "http", "hf")
_WEB = ("https", "http")
_HUB = "hf:"  # of the Hugging Face hub, a web server that lists its files
_TIMEOUT = "30s"  # of a request, for a block at most: what it brought until then is kept
_LOOK_UPS = 16  # at the same time; of small files so many are read then
_STORES_KEPT = 64
_PLACE = re.compile(r"(?:[^:@\[\]]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?")  # a bucket, or a host and a port
_PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NO_SUCH_RANGE = "416 Range Not Satisfiable"
_PIPE_IT = "download it, or pipe it: curl URL | streamer replay -"


def is_remote(name: str) -> bool:
    """Return whether a name is a URL of a file that is not on this machine."""
    return name.partition("://")[0] in _SCHEMES and "://" in name


def name_of(url: str) -> str:
    """Return the name of what a path or URL leads to: a URL without what signs it.

    Raises:
        InputError: it holds a password, or cannot be read.
    """
    if not is_remote(url):
        return url
    scheme, _, rest = url.partition("://")
    place = re.split("[/?#]", rest)[0] if scheme in _WEB else rest.partition("/")[0]
    if not place:
        raise InputError(f"{scheme}://: has no bucket or host; give {scheme}://PLACE/PATH")
    if not _PLACE.fullmatch(place):
        raise InputError(
            f"{scheme}://...: a URL with a user or a password is not taken, since names of files "
            "are stored. Set the credentials in the environment, give a signed URL, or pipe the "
            "file: curl --netrc URL | streamer replay -"
        )
    name = url.partition("#")[0].partition("?")[0] if scheme in _WEB else url
    if not name.isprintable():
        raise InputError(f"{name!r}: the name is not printable UTF-8; rename the file")
    return name


def store_of(name: str) -> str:
    """Return the beginning of a name or URL, which names the bucket, the host or the dataset."""
    return "/".join(name.split("/")[: 5 if name.startswith(_HUB) else 3])


class MissingFileError(InputError):
    """Report a file that is not there."""


class ShortFileError(InputError):
    """Report a file that ends before the bytes that were asked for."""


class UnusableFileError(InputError):
    """Report a file that has changed, or whose server cannot be used: no file of it is better."""


class Stores:
    """The stores that URLs lead to, opened once, so that connections are used again.

    One that fails is asked again for a minute, if `patient`.
    """

    def __init__(self, *, patient: bool = True) -> None:
        self._open = lru_cache(_STORES_KEPT)(partial(_opened, patient=patient))

    def of(self, url: str) -> tuple[ObjectStore, str]:
        """Return the store of a URL and the path in it.

        A URL of a web server that is signed, or whose path may be written in many ways, is a store
        itself, so that it is asked for as it is given.

        Raises:
            SettingsError: the extra is not installed, or credentials are missing or do not fit.
        """
        root = store_of(url)
        path = url.removeprefix(root).removeprefix("/")
        if url.startswith((*_WEB, _HUB)) and not _PLAIN_PATH.fullmatch(path):
            return self._open(url), ""
        return self._open(root), path


def _opened(root: str, *, patient: bool) -> ObjectStore:
    name = name_of(root)
    with needs_extra("object-store", f"Reading {name}"):
        more = "; or, of a public bucket, AWS_SKIP_SIGNATURE=true"
        object_store.check_credentials(root, f"Files in {name}", more)
    try:
        return object_store.open_store(root, timeout=_TIMEOUT, patient=patient)
    except (obstore.exceptions.BaseError, ValueError) as error:
        raise SettingsError(
            f"{name} cannot be read: {object_store.said_by(error)}. Check the URL, and what the "
            "environment says of the store."
        ) from error


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """A file in an object store or on a web server, as it was when it was looked up.

    Attributes:
        name: its URL without what signs it.
        size: in bytes.
        version: its ETag, or the time of its last change.
        url: with what signs it, so it is shown nowhere.
        ahead: what brings all of its bytes, if they are read before the file has its turn.
    """

    name: str
    size: int
    version: str
    url: str = field(repr=False)
    stores: Stores = field(repr=False, compare=False)
    ahead: list[Future[bytes]] = field(default_factory=list, repr=False, compare=False)

    @property
    def status(self) -> tuple[int, ...]:
        """The size, and a number for the version: equal while nobody writes to it."""
        digest = blake2b(self.version.encode(), digest_size=7).digest()
        return self.size, int.from_bytes(digest, "big")

    def whole(self) -> bytes:
        """Return all bytes, which may have been read ahead; else as `read`."""
        return self.ahead[0].result() if self.ahead else self.read(0, self.size)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes [start, end), asking again where a connection ends before.

        Raises:
            InputError: they cannot be read, or the file is another one now.
        """
        data, tries = bytearray(), 0
        while start + len(data) < end and self.size:
            before = len(data)
            failure = _append(self, data, self._asked(start + len(data), end))
            tries = 0 if len(data) > before else tries + 1
            if tries >= TRIES:
                raise InputError(
                    f"{self.name}: the connection ends at byte {start + len(data):,} again and "
                    f"again ({failure}); run the same command again later"
                )
            if tries > 1:
                time.sleep(0.1 * 2**tries)
        return bytes(data)

    def _asked(self, start: int, end: int) -> GetResult:
        """Ask for the bytes [start, end); return the answer."""
        store, path = self.stores.of(self.url)
        is_all = (start, end) == (0, self.size)  # which any server understands
        options: GetOptions = {} if is_all else {"range": (start, end)}
        with explaining_store(self.name):
            return obstore.get(store, path, options=options)

    @classmethod
    def of(cls, meta: ObjectMeta, url: str, stores: Stores) -> Self:
        """Return a file as its store describes it.

        Raises:
            UnusableFileError: nothing shows whether it changes.
        """
        name, version = name_of(url), version_of(meta)
        if not version:
            raise UnusableFileError(
                f"{name}: the server gives neither ETag nor Last-Modified, so nobody could see "
                f"whether the file changes; {_PIPE_IT}"
            )
        return cls(name, meta["size"], version, url, stores)

    @classmethod
    def met(cls, url: str, stores: Stores, start: int, end: int) -> tuple[Self, bytes]:
        """Return a file that was not looked up, and its bytes [start, end), fewer at its end.

        Raises:
            InputError: they cannot be read, for one because the file ends before.
        """
        unknown, data = cls(name_of(url), -1, "", url, stores), bytearray()
        answer = unknown._asked(start, end)
        found = cls.of(answer.meta, url, stores)
        _append(found, data, answer)
        end = min(end, found.size)
        return found, bytes(data) + found.read(start + len(data), end)


def _append(file: RemoteObject, data: bytearray, answer: GetResult) -> str:
    """Append what an answer brings of a file; return why it ended, if it did not bring all."""
    now = answer.meta["size"], version_of(answer.meta)
    check_same(file.name, (file.size, file.version), now)
    try:
        for part in answer.stream(min_chunk_size=_PART_BYTES):
            data += part
    except (obstore.exceptions.BaseError, OSError) as error:
        return object_store.said_by(error)
    return "fewer bytes than it has announced"


class RemoteFile(io.RawIOBase):
    """The bytes of a remote file, for one reader that may seek; reading raises `InputError`."""

    def __init__(self, remote: RemoteObject) -> None:
        self._remote = remote
        self._position = 0
        self._blocks: dict[int, Future[bytes]] = {}  # the one that was used last comes last
        self._pool = ThreadPoolExecutor(1, "remote-file")

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place; return it."""
        self._position = max(0, (0, self._position, self._remote.size)[whence] + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill `buffer`; return how many bytes it got, fewer at the end."""
        data = self.at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def at(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from anywhere, fewer at the end."""
        parts, end = [], min(start + size, self._remote.size)
        while start < end:
            number, begin = divmod(start, BLOCK_BYTES)
            parts.append(self._block(number)[begin : begin + end - start])
            start += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Forget what was read."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._blocks.clear()
        super().close()

    def _block(self, number: int) -> bytes:
        """Return a block; the next one is asked for too if the one before was read."""
        is_next = number - 1 in self._blocks
        found = self._asked(number)
        if is_next and (number + 1) * BLOCK_BYTES < self._remote.size:
            self._asked(number + 1)
            self._asked(number)
        return found.result()

    def _asked(self, number: int) -> Future[bytes]:
        """Return a block that is there, or on its way; the one that was not used longest goes."""
        found = self._blocks.pop(number, None)
        if found is None:
            start = number * BLOCK_BYTES
            end = min(start + BLOCK_BYTES, self._remote.size)
            is_all = (start, end) == (0, self._remote.size)
            read = self._remote.whole if is_all else partial(self._remote.read, start, end)
            found = self._pool.submit(read)
        self._blocks[number] = found
        while len(self._blocks) > BLOCKS_KEPT:
            self._blocks.pop(next(iter(self._blocks))).cancel()
        return found


class ReadAhead(AbstractContextManager["ReadAhead"]):
    """Reads small files before their turn, in their order; a context manager that stops it.

    A file of one block at most is small. A larger one is read when it has its turn.
    """

    def __init__(self, files: Iterable[RemoteObject]) -> None:
        self._waiting = deque(each for each in files if 0 < each.size <= BLOCK_BYTES)
        self._begun: deque[RemoteObject] = deque()  # the first of which may have its turn
        self._now: RemoteObject | None = None
        self._pool = ThreadPoolExecutor(_LOOK_UPS, "read-ahead")

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        while self._begun:
            self._begun.popleft().ahead.clear()

    def come_to(self, file: RemoteObject) -> None:
        """Have small files after this one read, which has its turn; the one before has had it.

        What has failed before its turn is read again: its store may be back.
        """
        if self._begun and self._begun[0] is self._now:
            self._begun.popleft().ahead.clear()
        self._now = file
        size = sum(each.size for each in self._begun)
        while self._waiting and len(self._begun) <= FILES_AHEAD:
            size += self._waiting[0].size
            if size > BYTES_AHEAD:
                break
            self._begun.append(following := self._waiting.popleft())
            following.ahead.append(self._reading(following))
        if file.ahead and file.ahead[0].done():
            failure = file.ahead[0].exception()
            if isinstance(failure, InputError) and not isinstance(failure, UnusableFileError):
                file.ahead[0] = self._reading(file)

    def _reading(self, file: RemoteObject) -> Future[bytes]:
        return self._pool.submit(file.read, 0, file.size)


class LookedUp(NamedTuple):
    """What a URL leads to: a file, or all files below it, sorted by name.

    `passed_over` are names below it that cannot be read as files, for one because of a "..".
    """

    objects: list[RemoteObject]
    is_folder: bool = False
    passed_over: Sequence[str] = ()


def look_up(urls: Sequence[str]) -> dict[str, LookedUp]:
    """Return what URLs lead to, by their names.

    Raises:
        InputError: one leads to nothing, cannot be read, or two are of one name.
        SettingsError: the extra is not installed, or credentials are missing.
    """
    named: dict[str, str] = {}
    for url in urls:
        if named.setdefault(name := name_of(url), url) != url:
            raise InputError(
                f"{name}: two URLs differ only after the question mark, and files are known "
                "without that; give one of them, and pipe the other one into -"
            )
    found = _look_up_each([*named.values()], Stores(), Stores(patient=False))
    return dict(zip(named, found, strict=True))


def look_up_file(url: str) -> RemoteObject:
    """Return the one file that a URL leads to; raises as `look_up`."""
    [found] = look_up([url]).values()
    if found.is_folder:
        raise MissingFileError(f"{name_of(url)}: is no file but a prefix; name one file")
    return found.objects[0]


def _look_up_each(urls: Sequence[str], stores: Stores, once: Stores) -> list[LookedUp]:
    """Return what each URL leads to; a failure ends all."""
    pool = ThreadPoolExecutor(_LOOK_UPS, "look-up")
    try:
        return [*pool.map(lambda url: _look_up_one(url, stores, once), urls)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _look_up_one(url: str, stores: Stores, once: Stores) -> LookedUp:
    """Return what a URL leads to; `once` are stores that are not asked again when they fail."""
    name = name_of(url)
    store, path = stores.of(url)
    is_web = url.startswith(_WEB)
    if is_web and name.endswith("/"):
        raise InputError(
            f"{name}: web servers do not list their files; give each file's URL, or a list of "
            "them in a file that is named .paths"
        )
    is_hub = name.startswith(_HUB)
    if not is_web and (name.endswith("/") or name == store_of(name)):
        return _below(name, stores, once)
    with explaining_store(name):
        try:
            meta = _describe(url, stores, once) if is_web or is_hub else obstore.head(store, path)
        except FileNotFoundError:
            folder = name if is_hub else f"{name}/"
            if is_web or not (found := _below(folder, stores, once)).objects:
                raise
            return found
    return LookedUp([RemoteObject.of(meta, url, stores)])


def _describe(url: str, stores: Stores, once: Stores) -> ObjectMeta:
    """Return what a web server says of a file: to HEAD, or to GET where that says too little.

    Many servers answer HEAD with an error or without a size, and a URL may be signed for GET only.
    """
    failures = obstore.exceptions
    store, path = once.of(url)
    with suppress(failures.BaseError, FileNotFoundError):
        meta = obstore.head(store, path)
        if meta["size"] and version_of(meta):
            return meta
    store, path = stores.of(url)
    try:
        return obstore.get(store, path, options={"range": (0, 1)}).meta
    except failures.BaseError as error:
        if not isinstance(error, failures.NotSupportedError) and _NO_SUCH_RANGE not in str(error):
            raise
    return obstore.get(store, path).meta  # it gives whole files only, or this one is empty


def _below(name: str, stores: Stores, once: Stores) -> LookedUp:
    """Return the files below a place, whose name ends with a slash."""
    store, path = stores.of(name)
    from streamer.pages.listing import list_below, list_of_hub  # noqa: PLC0415 - an extra

    root = store_of(name)
    with explaining_store(name):
        if name.startswith(_HUB):  # its list has other digests than the ETags of its files
            urls = sorted(f"{root}/{path}" for path in list_of_hub(name))
            looked_up = _look_up_each(urls, stores, once)
            return LookedUp([each for one in looked_up for each in one.objects], is_folder=True)
        found, no_paths = list_below(store, path.rstrip("/"), name)
    files = {f"{root}/{each['path']}": each for each in found}
    usable = sorted(url for url in files if url.isprintable())
    others = [*(files.keys() - {*usable}), *(f"{root}/{key}" for key in no_paths)]
    objects = [RemoteObject.of(files[url], url, stores) for url in usable]
    shown = sorted(url if url.isprintable() else repr(url)[1:-1] for url in others)
    return LookedUp(objects, is_folder=True, passed_over=shown)


def version_of(meta: ObjectMeta) -> str:
    """Return the ETag, or else the time of the last change in seconds; "" if there is neither."""
    if tag := (meta["e_tag"] or "").removeprefix("W/").strip('"'):
        return tag
    seconds = int(meta["last_modified"].timestamp())
    return f"modified {seconds}" if seconds else ""


def check_same(name: str, before: tuple[int, str], now: tuple[int, str]) -> None:
    """Raise UnusableFileError for a file whose size or version, in this order, is another one."""
    if before[0] != now[0]:
        raise UnusableFileError(
            f"{name}: has changed while it was read ({before[0]:,} bytes before, {now[0]:,} now); "
            "run the same command again"
        )
    if before[1] != now[1]:
        raise UnusableFileError(
            f"{name}: has changed while it was read, or several servers give it different ETags "
            f"({before[1]} before, {now[1]} now, and the same size). Run the same command again; "
            f"if that does not help, {_PIPE_IT}"
        )


@contextmanager
def explaining_store(name: str) -> Iterator[None]:
    """Turn what a store says about a file into our errors."""
    failures = obstore.exceptions
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError(f"{name}: is not there; check the URL") from error
    except (failures.PermissionDeniedError, failures.UnauthenticatedError) as error:
        raise InputError(
            f"{name}: no permission to read; check the credentials in the environment, or whether "
            "the URL's signature has expired"
        ) from error
    except failures.NotSupportedError as error:
        raise UnusableFileError(
            f"{name}: the server gives whole files only, and no part of one, so a connection that "
            f"breaks off could not be taken up; {_PIPE_IT}"
        ) from error
    except (failures.BaseError, ValueError, OSError) as error:
        said = object_store.said_by(error)
        is_lasting = "Content-Length" in said
        remedy = _PIPE_IT if is_lasting else "check the URL and the network, and run it again"
        kind = InputError
        if _NO_SUCH_RANGE in said:
            kind, said = ShortFileError, "it is shorter than when it was looked up"
        raise kind(f"{name}: cannot be read ({said}); {remedy}") from error
