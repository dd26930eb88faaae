"""The database of an index: RocksDB, opened for writing or looked at without a trace.

Rows and keys have column families of their own, in which entries only come behind the others; the
state is one key. What little a flush brings goes through RocksDB's log, all in one batch. Much of
it goes past the log: sorted files are written and synced first, and the state after them, so that
after a kill there may be rows that no state counts, and never the other way. In neither case does
RocksDB hold the interpreter while it waits for the disk, which `sync` in a batch would.

Files of neighbouring entries are merged, or each flush and each start would leave some: as soon as
there are sixteen at the end that are about as large as those behind them or smaller, they become
one, until that has 128 MB. So a row is written again once where heads are full, and eight times
where it came alone. This module is the only one that knows RocksDB.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    Checkpoint,
    ChecksumType,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from streamer.errors import StoreUnavailable, StreamerError
from streamer.index.codec import KEYS, ROWS, Entry, entry_key
from streamer.index.store_errors import damaged, database_error, explained

FAMILIES = {ROWS: "rows", KEYS: "keys"}
STATE = "default"  # the family that each database has
LOGGED_BYTES_MAX = 4 << 20  # of a flush; more is not written twice
LOG_BYTES_MAX = 64 << 20  # which an open reads
BUFFER_BYTES = 32 << 20
BLOCK_BYTES = 2048  # fewer than most entries have: each is read, and checked, alone
BATCH_BYTES = 1 << 20  # written in one call, which holds the interpreter
READ_AT_ONCE = 4096  # entries, about 13 MB; to read them does not hold the interpreter
MERGED_FILES = 16
MERGED_BYTES = 128 << 20  # a file of so many stays
_STATE_FILES = ("CURRENT", "MANIFEST-*", "*.log", "*.sst")  # all others tell nothing of the state


class Database:
    """An open database; from any thread."""

    def __init__(self, path: Path, opened: Any, families: Sequence[bytes]) -> None:  # noqa: ANN401 - rocksdict has no types
        self._path = path
        self._opened = opened
        self._families = {each: opened.get_column_family(FAMILIES[each]) for each in families}
        self._merger = ThreadPoolExecutor(1, "merge")
        self._merging: Future[None] | None = None

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
            there = Rdict.list_cf(links)  # none of ours in other formats
            families = [each for each, name in FAMILIES.items() if name in there]
            return cls(path, _open(links, AccessType.read_only(False), families), families)

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
            families = list(FAMILIES)
            database = cls(path, _open(str(path), AccessType.read_write(), families), families)
        database.merge()
        return database

    def last(self) -> Entry | None:
        """Return the last key of the state and its value; None where nothing was written.

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

    def values(self, family: bytes, blocks: Sequence[int]) -> list[bytes]:
        """Return blocks of a family.

        Raises:
            StoreDamaged: one of them cannot be read, or is missing.
        """
        found: list[Any] = []  # bytes, None where there is no such block
        entries = self._families.get(family)
        with _explained(self._path):
            for start in range(0, len(blocks), READ_AT_ONCE):
                keys = [entry_key(family, block) for block in blocks[start : start + READ_AT_ONCE]]
                found += [None] if entries is None else entries.get(keys)
        if None in found:
            block = blocks[found.index(None)]
            raise damaged(self._path, f"block {block} of its {FAMILIES[family]} is missing")
        return found

    def write(
        self, entries: Sequence[Sequence[Entry]], state: Entry, *, in_place: bool = False
    ) -> None:
        """Write entries, each list of one family, and the state, to the disk: all or none.

        Those that go past the log may be there without the state: not where others are `in_place`.

        Raises:
            StoreDamaged: a file of the database is damaged.
            StoreUnavailable: the disk refuses. Entries may be there then, the state is not.
        """
        size = sum(len(value) for own in entries for _, value in own)
        with _explained(self._path):
            batch = WriteBatch(raw_mode=True)
            for own in filter(None, entries):
                if size <= LOGGED_BYTES_MAX or in_place:
                    self._put(batch, own)
                else:
                    self._write_past_the_log(own)
            batch.put(*state)
            self._opened.write(batch)
            self._opened.flush_wal(True)
        self.merge()

    def _put(self, batch: WriteBatch, entries: Sequence[Entry]) -> None:
        handle = self._opened.get_column_family_handle(FAMILIES[entries[0][0][:1]])
        for key, value in entries:
            batch.put(key, value, handle)

    def _write_past_the_log(self, entries: Sequence[Entry]) -> None:
        options = WriteOptions()
        options.disable_wal = True  # type: ignore[assignment, method-assign]  # it is a property
        at_once = max(1, BATCH_BYTES // len(entries[0][1]))
        for start in range(0, len(entries), at_once):
            batch = WriteBatch(raw_mode=True)
            self._put(batch, entries[start : start + at_once])
            self._opened.write(batch, options)
        self._families[entries[0][0][:1]].flush()

    def delete(self, family: bytes, start: int, end: int) -> None:
        """Delete the blocks [start, end) of a family, and have their space given back in a thread.

        The note of what is deleted goes into a file of its own: in one with new entries it would
        reach from the oldest to the newest, and all between would be merged with it.

        Raises:
            StoreDamaged: a file of the database is damaged.
            StoreUnavailable: the disk refuses.
        """
        entries, limits = self._families[family], (entry_key(family, start), entry_key(family, end))
        with _explained(self._path):
            entries.flush()
            entries.delete_range(*limits)
            entries.flush()
        self._merger.submit(self._compact, entries, *limits)

    def settle(self, blocks: Mapping[bytes, range] | None = None) -> None:
        """Write entries anew, without those that were written over or deleted.

        These are all entries, or the state and some blocks of families.

        Raises:
            StoreDamaged: a file of the database is damaged.
            StoreUnavailable: the disk refuses.
        """
        with _explained(self._path):
            for entries in (self._opened, *self._families.values()):  # the log goes with the last
                entries.flush()
            self._opened.compact_range(None, None, _merging())
            for family, entries in self._families.items():
                if blocks is None:
                    entries.compact_range(None, None, _merging())
                elif own := blocks.get(family):
                    limits = entry_key(family, own.start), entry_key(family, own.stop)
                    entries.compact_range(*limits, _merging())

    def _compact(self, entries: Any, first: bytes, last: bytes) -> None:  # noqa: ANN401 - rocksdict has no types
        with contextlib.suppress(StreamerError), _explained(self._path):
            entries.compact_range(first, last, _merging())

    def merge(self) -> None:
        """Begin to merge files that are many for what they hold, in a thread."""
        if self._merging is None or self._merging.done():
            self._merging = self._merger.submit(self._merge)

    def _merge(self) -> None:
        with contextlib.suppress(StreamerError), _explained(self._path):
            files = sorted(self._opened.live_files(), key=lambda file: file["start_key"])
            for family, entries in self._families.items():
                own = [file for file in files if file["start_key"].startswith(family)]
                count = files_to_merge([file["size"] for file in own])
                if count:
                    first, last = own[-count]["start_key"], own[-1]["end_key"]
                    entries.compact_range(first, last, _merging())

    def checkpoint(self, folder: Path) -> None:
        """Make the same database in `folder`, which must not be there yet, out of links to files.

        What is in memory is filed first: to make the links holds the interpreter.

        Raises:
            StoreDamaged: a file of the database is damaged.
            StoreUnavailable: the disk refuses.
        """
        with _explained(self._path):
            for family in (*self._families.values(), self._opened):
                family.flush()
            Checkpoint(self._opened).create_checkpoint(str(folder))

    def figure(self, name: str) -> int | None:
        """Return a figure of RocksDB's own of all families, None where it knows none so named."""
        values = [
            each.property_int_value(name) for each in (self._opened, *self._families.values())
        ]
        return None if None in values else sum(values)

    def close(self) -> None:
        """Release the database. What it could not file by then stands in its log."""
        self._merger.shutdown()
        families, self._families = list(self._families.values()), {}
        with contextlib.suppress(StreamerError), _explained(self._path):
            while families:  # all of them, or it stays open
                families.pop(0).close()
        with contextlib.suppress(StreamerError), _explained(self._path):
            self._opened.close()
        self._opened = None


def files_to_merge(sizes: Sequence[int]) -> int:
    """Return how many files at the end are to become one; 0 if they are few or large.

    `sizes` are those of all files, in the order of what they hold. Each that is merged has at most
    twice as many bytes as all behind it together.
    """
    behind = count = 0
    for size in reversed(sizes):
        if size >= MERGED_BYTES or (count and size > 2 * behind):
            break
        behind, count = behind + size, count + 1
    return count if count >= MERGED_FILES else 0


def state_files(path: Path) -> Iterator[Path]:
    """Yield the files of the database in `path` that hold its state."""
    return itertools.chain.from_iterable(map(path.glob, _STATE_FILES))


@contextlib.contextmanager
def _links_to(path: Path) -> Iterator[str]:
    """Yield a folder of links to the files in `path` that hold the state."""
    with contextlib.ExitStack() as stack:
        try:
            links = stack.enter_context(TemporaryDirectory(prefix="streamer-"))
            for file in state_files(path):
                Path(links, file.name).symlink_to(file.absolute())
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot make links to the index {path} in a temporary folder: {error}. "
                "Name another folder for that with TMPDIR."
            ) from error
        yield links


def _open(path: str, access: AccessType, families: Sequence[bytes]) -> Any:  # noqa: ANN401 - rocksdict has no types
    options = _options()
    # All families are given, since rocksdict would take their options from a file in the folder.
    names = [STATE, *(FAMILIES[family] for family in families)]
    return Rdict(path, options, dict.fromkeys(names, options), access)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    table = BlockBasedOptions()
    table.disable_cache()  # the system has one, and hardly anything is read twice
    table.set_block_size(BLOCK_BYTES)
    table.set_checksum_type(ChecksumType.xxh3())
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())  # sketches and hashes do not compress
    options.set_write_buffer_size(BUFFER_BYTES)
    options.set_atomic_flush(True)  # of all families: no keys are filed before their rows
    options.set_max_total_wal_size(LOG_BYTES_MAX)
    options.set_target_file_size_base(2 * MERGED_BYTES)
    options.set_max_manifest_file_size(4 << 20)
    options.set_max_background_jobs(2)
    options.set_max_open_files(-1)  # all at once: a reader keeps those that the writer removes
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)  # a page of its own log every ten minutes
    return options


def _merging() -> CompactOptions:
    options = CompactOptions()
    options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
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
