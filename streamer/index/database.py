"""The database of an index: RocksDB, opened for writing or looked at without a trace.

A flush is one batch, written to the disk before `write` returns: after a kill at any moment the
database has it or has it not. What is overwritten goes when RocksDB merges its files, so they stay
few. This module is the only one that knows RocksDB.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from streamer.errors import StoreUnavailable, StreamerError
from streamer.index.store_errors import database_error, explained

CACHE_BYTES = 4 << 20  # hardly anything is read twice
BUFFER_BYTES = 4 << 20  # of its log, which an open reads: what is overwritten within is never filed
_STATE_FILES = ("CURRENT", "MANIFEST-*", "*.log", "*.sst")  # all others tell nothing of the state


class Database:
    """An open database; from any thread."""

    def __init__(self, path: Path, opened: Any) -> None:  # noqa: ANN401 - rocksdict has no types
        self._path = path
        self._opened = opened

    @classmethod
    def look(cls, path: Path) -> Database:
        """Open the database in `path` for reading, as it is now; nothing is written there.

        rocksdict writes a file of its own into any folder that it opens. So it is given a folder of
        links to the files that matter; all of them are open when that is removed again.

        Raises:
            StoreDamaged: a file is missing or damaged.
            StoreUnavailable: the system refuses.
        """
        with _links_to(path) as links, _explained(path, links):
            return cls(path, _open(links, AccessType.read_only(False)))

    @classmethod
    def write_to(cls, path: Path) -> Database:
        """Open or create the database in `path` for writing.

        Raises:
            StoreDamaged: a file is missing or damaged.
            StoreUnavailable: another process has it open, or the system refuses.
        """
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        with _explained(path):
            return cls(path, _open(str(path), AccessType.read_write()))

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key.

        Raises:
            StoreDamaged: it cannot be read.
        """
        with _explained(self._path):
            value: bytes | None = self._opened.get(key, read_opt=_reading_once())
            return value

    def last(self) -> tuple[bytes, bytes] | None:
        """Return the last key and its value; None of an empty database.

        Raises:
            StoreDamaged: it cannot be read.
        """
        with _explained(self._path):
            cursor = self._opened.iter()
            cursor.seek_to_last()
            if cursor.valid():
                return cursor.key(), cursor.value()
            cursor.status()  # raises what has kept it from being valid, if anything has
            return None

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and values, in order.

        Raises:
            StoreDamaged: one of them cannot be read.
        """
        with _explained(self._path):
            cursor = self._opened.iter(_reading_once())
            cursor.seek_to_first()
        while True:
            with _explained(self._path):
                if not cursor.valid():
                    cursor.status()  # at the end as after an error: only this tells
                    return
                entry = cursor.key(), cursor.value()
                cursor.next()
            yield entry

    def write(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Write entries to the disk: all of them or none.

        Raises:
            StoreDamaged: a file of the database is damaged.
            StoreUnavailable: the disk refuses.
        """
        batch = WriteBatch(raw_mode=True)
        for key, value in entries:
            batch.put(key, value)
        options = WriteOptions()
        options.sync = True
        with _explained(self._path):
            self._opened.write(batch, options)

    def figure(self, name: str) -> int | None:
        """Return a figure of RocksDB's own, None where it does not know one of this name."""
        value: int | None = self._opened.property_int_value(name)
        return value

    def close(self) -> None:
        """Release the database. What it could not file by then stands in its log."""
        with contextlib.suppress(StreamerError), _explained(self._path):
            self._opened.close()
        self._opened = None


@contextlib.contextmanager
def _links_to(path: Path) -> Iterator[str]:
    """Yield a folder of links to the files in `path` that hold the state."""
    with contextlib.ExitStack() as stack:
        try:
            links = stack.enter_context(TemporaryDirectory(prefix="streamer-"))
            for file in itertools.chain.from_iterable(map(path.glob, _STATE_FILES)):
                Path(links, file.name).symlink_to(file.absolute())
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot make links to the index {path} in a temporary folder: {error}. "
                "Name another folder for that with TMPDIR."
            ) from error
        yield links


def _open(path: str, access: AccessType) -> Any:  # noqa: ANN401 - rocksdict has no types
    options = _options()
    # Families are given, since rocksdict would take their options from a file in the folder.
    return Rdict(path, options, {"default": options}, access)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())  # sketches and hashes do not compress
    options.set_write_buffer_size(BUFFER_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(-1)  # all at once: a reader keeps those that the writer removes
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)  # a page of its own log every ten minutes
    return options


def _reading_once() -> ReadOptions:
    """Return options for reading much, once: not by way of the cache."""
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks its argument
    return options


@contextlib.contextmanager
def _explained(path: Path, links: str = "") -> Iterator[None]:
    """Turn RocksDB's failures into ours; `links` stand in its texts for `path`."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:  # rocksdict raises Exception itself
            raise
        text = str(error)
        raise database_error(path, text.replace(links, str(path)) if links else text) from error
