"""The RocksDB database of an index, opened for writing or read without leaving a trace.

Rows and keys have column families of their own, to which entries are only appended. The state is
one key. A small flush is one batch in RocksDB's log. A large flush goes past the log: its sorted
files are written and synced first, the state after them. So a crash may leave rows that no state
counts, never a state whose rows are missing. In neither case does RocksDB hold the interpreter lock
while it waits for the disk, as `sync` in a batch would.

Versions of URLs arrive in any order and overwrite each other. They go through RocksDB's log in one
batch with the state, and RocksDB compacts their files by its own rules.

Each flush and each start would leave more files, so neighbours are merged: once sixteen files at
the end are about as large as the ones before them, or smaller, they become one of at most 128 MB. A
row is rewritten once where memtables are full, and eight times where it came alone. No other module
knows RocksDB.
"""

# Through RocksDB's log a row costs 2.6 us of CPU, not 1.5; ingesting sorted files costs 0.5, but
# the binding holds the interpreter lock while it syncs them, 100 ms per flush on a busy disk.
# Tried: a custom file format was 2 us faster per row read, but entries could not be removed, nor
# the files copied at one moment. The versions of URLs go through the log, or a kill would leave
# versions from the future. After 50,000 flushes, most of one row, there were 36 files (measured at
# 6ec076e).

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import rocksdict

from streamer import errors
from streamer.index.codec import BANDS, KEYS, ROWS, SHINGLES, URLS, Entry, entry_key, entry_keys
from streamer.stored.database_files import check_logs, link_files
from streamer.stored.witness import make_folder

_log = logging.getLogger(__name__)

FAMILIES = {ROWS: "rows", KEYS: "keys", BANDS: "bands", SHINGLES: "shingles", URLS: "urls"}
KEYS_ABOUT = "rocksdb.estimate-num-keys"
ERRORS = "rocksdb.background-errors"  # since it was opened; those of all families
STATE = "default"  # the family that each database has
LOGGED_BYTES_MAX = 4 << 20  # of a flush; more is not written twice
LOG_BYTES_MAX = 64 << 20  # which an open reads
BUFFER_BYTES = 32 << 20
BLOCK_BYTES = 2048  # fewer than most entries have: each is read, and checked, alone
URL_BLOCK_BYTES = 4096  # some ten versions: fewer would make the index of their blocks longer
FILTER_BITS = 10  # a version: one in a hundred is looked for in vain
BATCH_BYTES = 1 << 20  # written in one call, which holds the interpreter
READ_AT_ONCE = 4096  # entries, about 13 MB; to read them does not hold the interpreter
INGESTED = "ingested"  # a file until it is the database's
MERGED_FILES = 16
MERGED_BYTES = 128 << 20  # a file of so many stays
_Rdict = Any  # of rocksdict, which has no types
_writers = set[int]()  # processes, up to this one, that have opened a database to write it


class Database:
    """An open database; from any thread.

    Where a file of it is damaged, every function raises StoreDamaged; StoreUnavailable, where the
    disk refuses.
    """

    def __init__(
        self, path: Path, opened: _Rdict, families: Sequence[bytes], failed: Callable[[], None]
    ) -> None:
        self._path = path
        self._failed = failed
        self._opened = opened
        self._families = {each: opened.get_column_family(FAMILIES[each]) for each in families}
        self._merger = ThreadPoolExecutor(1, "merge")
        self._merging: Future[None] | None = None

    @classmethod
    def look(cls, path: Path) -> Self:
        """Open the database in `path` for reading, as it is now; nothing is written there.

        rocksdict writes a file of its own into any folder that it opens. So it is given a folder of
        its own, with links to the files that matter; all are open when that is removed again.

        Raises:
            StoreDamaged: a file is missing or damaged.
            StoreUnavailable: the system refuses.
        """
        with link_files(path) as links, _explain_failures(path, links):
            check_logs(path, Path(links))
            there = rocksdict.Rdict.list_cf(links)  # databases of other formats have none of these
            families = [each for each, name in FAMILIES.items() if name in there]
            opened = _open(links, families, writable=False)
            return cls(path, opened, families, lambda: None)

    @staticmethod
    def check_process() -> None:
        """Raise StoreUnavailable where RocksDB's threads are those of the process before a fork.

        They are one pool for all databases of a process, and closing one waits for them.
        """
        if _writers and os.getpid() not in _writers:
            raise errors.StoreUnavailable(
                "This process was forked from one that had opened an index, and cannot write any. "
                "Start it by spawn or forkserver, or open the first index after the fork."
            )

    @classmethod
    def write_to(cls, path: Path, failed: Callable[[], None] = lambda: None) -> Self:
        """Open or create the database in `path` for writing; `failed` is called for failed merges.

        Raises:
            StoreDamaged: a file is missing or damaged.
            StoreUnavailable: another process has it open, or the system refuses.
        """
        _writers.add(os.getpid())
        with errors.explain_failures(path):
            make_folder(path)
        with _explain_failures(path):
            families = list(FAMILIES)
            database = cls(path, _open(str(path), families, writable=True), families, failed)
        database.merge()
        return database

    def last(self) -> Entry | None:
        """Return the last key of the state and its value; None where nothing was written."""
        with _explain_failures(self._path):
            cursor = self._opened.iter()
            cursor.seek_to_last()
            if cursor.valid():
                return cursor.key(), cursor.value()
            cursor.status()  # raises what has kept it from being valid, if anything has
            return None

    def note(self, key: bytes) -> bytes | None:
        """Return the note under a key, which is stored in addition to the state."""
        with _explain_failures(self._path):
            value: bytes | None = self._opened.get(key)
            return value

    def put_note(self, key: bytes, value: bytes) -> None:
        """Store a note under a key before the state's, synced; an empty value removes it."""
        with _explain_failures(self._path):
            batch = rocksdict.WriteBatch(raw_mode=True)
            if value:
                batch.put(key, value)
            else:
                batch.delete(key)
            self._commit(batch)

    def values(self, family: bytes, blocks: Sequence[int]) -> list[bytes]:
        """Return blocks of a family, all of which must be there."""
        found: list[Any] = []  # bytes, None where there is no such block
        for start in range(0, len(blocks), READ_AT_ONCE):
            found += self.newest(family, entry_keys(family, blocks[start : start + READ_AT_ONCE]))
        if None in found:
            block = blocks[found.index(None)]
            what = f"block {block} of its {FAMILIES[family]} is missing"
            raise errors.damage_error(self._path, what)
        return found

    def newest(self, family: bytes, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, None of one that is not there."""
        entries = self._families.get(family)
        with _explain_failures(self._path):
            return [None] * len(keys) if entries is None else entries.get(list(keys))

    def count(self, family: bytes) -> int:
        """Return how many entries a family has, about."""
        entries = self._families.get(family)
        return 0 if entries is None else entries.property_int_value(KEYS_ABOUT) or 0

    def scan(self, family: bytes) -> Iterator[Entry]:
        """Yield all entries of a family, by their keys."""
        if family not in self._families:
            return
        with _explain_failures(self._path):
            cursor = self._families[family].iter()
            cursor.seek_to_first()
            while cursor.valid():
                yield cursor.key(), cursor.value()
                cursor.next()
            cursor.status()  # raises what has kept it from being valid, if anything has

    def write(
        self,
        entries: Sequence[Sequence[Entry]],
        state: Entry,
        *,
        notes: Sequence[Entry] = (),
        replaced: Sequence[Entry] = (),
        in_place: bool = False,
    ) -> None:
        """Write entries, each list of one family, notes and the state, to the disk: all or none.

        Those that go past the log may be there without the state: not where others are `in_place`,
        nor those that are `replaced`. Where the disk refuses, the state is not there.
        """
        size = sum(len(value) for own in entries for _, value in own)
        with _explain_failures(self._path):
            batch = rocksdict.WriteBatch(raw_mode=True)
            for own in filter(None, entries):
                if size <= LOGGED_BYTES_MAX or in_place:
                    self._put(batch, own)
                else:
                    self.write_apart(own[0][0][:1], own)
            if replaced:
                self._put(batch, replaced)
            for note in (*notes, state):
                batch.put(*note)
            self._commit(batch)
        self.merge()

    def _commit(self, batch: rocksdict.WriteBatch) -> None:
        """Write a batch to the disk by the log."""
        self._opened.write(batch)
        self._opened.flush_wal(True)

    def _put(self, batch: rocksdict.WriteBatch, entries: Sequence[Entry]) -> None:
        handle = self._opened.get_column_family_handle(FAMILIES[entries[0][0][:1]])
        for key, value in entries:
            batch.put(key, value, handle)

    def write_apart(self, family: bytes, entries: Iterable[Entry]) -> None:
        """Write entries of a family past the log, and sync them; no state goes with them.

        Raises:
            StoreUnavailable: the disk refuses. Some may be there then.
        """
        options = rocksdict.WriteOptions()
        options.disable_wal = True  # type: ignore[assignment, method-assign]  # it is a property
        with _explain_failures(self._path):
            for own in _batches(entries):
                batch = rocksdict.WriteBatch(raw_mode=True)
                self._put(batch, own)
                self._opened.write(batch, options)
            self._families[family].flush()

    def ingest(self, family: bytes, files: Iterable[Iterable[Entry]]) -> None:
        """Add files of a family, each of these entries, whose keys ascend; no state goes with them.

        A file lies below all others, unless one there has keys between its first and its last.

        Raises:
            StoreUnavailable: the disk refuses. Some files may be there then.
        """
        path, options = self._path / INGESTED, rocksdict.IngestExternalFileOptions()
        options.set_move_files(True)
        with errors.explain_failures(path), _explain_failures(self._path):
            try:
                for entries in files:
                    # That of a killed process may be a second name of one of the database's own.
                    path.unlink(missing_ok=True)
                    writer = rocksdict.SstFileWriter(_options())
                    writer.open(str(path))
                    for key, value in entries:
                        writer[key] = value
                    writer.finish()
                    self._families[family].ingest_external_file([str(path)], options)
            finally:
                path.unlink(missing_ok=True)

    def delete(self, family: bytes, ranges: Sequence[tuple[int, int]]) -> None:
        """Delete blocks [start, end) of a family, and have their space given back in a thread.

        The note of each range goes into a file of its own: in one with others, or with new entries,
        it would reach from the first to the last, and all between would be merged with it.
        """
        entries = self._families[family]
        for start, end in ranges:
            first, last = entry_key(family, start), entry_key(family, end)
            with _explain_failures(self._path):
                cursor = entries.iter()
                cursor.seek(first)
                if cursor.valid() and cursor.key() < last:
                    entries.flush()
                    entries.delete_range(first, last)
                    entries.flush()
            # Also what a killed process has deleted. RocksDB takes in the file of the last key.
            last = entry_key(family, end - 1) + b"\xff" * 8
            self._merger.submit(self._compact, entries, first, last)

    def remove(self, family: bytes, keys: Sequence[bytes]) -> None:
        """Delete entries by their keys; `settle` removes their bytes from the disk."""
        with _explain_failures(self._path):
            batch = rocksdict.WriteBatch(raw_mode=True)
            handle = self._opened.get_column_family_handle(FAMILIES[family])
            for key in keys:
                batch.delete(key, handle)
            self._commit(batch)

    def settle(self, blocks: Mapping[bytes, range] | None = None) -> None:
        """Rewrite entries, without those that were overwritten or deleted.

        These are all entries, or the state and some blocks of families.
        """
        with _explain_failures(self._path):
            for entries in (self._opened, *self._families.values()):  # the log goes with the last
                entries.flush()
            self._rewrite(self._opened)
            for family, entries in self._families.items():
                if blocks is None:
                    self._rewrite(entries)
                elif own := blocks.get(family):
                    limits = entry_key(family, own.start), entry_key(family, own.stop)
                    self._rewrite(entries, *limits)

    def _compact(self, entries: _Rdict, first: bytes, last: bytes) -> None:
        with (
            self._report_failures("give back the space of dropped pages"),
            _explain_failures(self._path),
        ):
            self._rewrite(entries, first, last)

    def _rewrite(
        self, entries: _Rdict, first: bytes | None = None, last: bytes | None = None
    ) -> None:
        """Write entries of a family again, in files without what was written over.

        Raises:
            StoreUnavailable: it failed, which `compact_range` does not say.
        """
        before = self._opened.property_int_value(ERRORS)
        options = rocksdict.CompactOptions()
        options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
        entries.compact_range(first, last, options)
        if self._opened.property_int_value(ERRORS) != before:
            raise errors.StoreUnavailable(
                f"RocksDB could not merge files of the index {self._path}; {self._path / 'LOG'} "
                "says why. Check that the disk has room."
            )

    def merge(self) -> None:
        """Begin to merge files that are many for what they hold, in a thread."""
        if self._merging is None or self._merging.done():
            with contextlib.suppress(RuntimeError):  # the interpreter ends: another process does it
                self._merging = self._merger.submit(self._merge)

    @contextlib.contextmanager
    def _report_failures(self, what: str) -> Iterator[None]:
        """Log and count a failure of work in a thread of its own, which no flush depends on."""
        try:
            yield
        except errors.StreamerError as error:
            _log.warning("The index could not %s; it is unchanged. %s", what, error)
            self._failed()

    def _merge(self) -> None:
        with self._report_failures("merge files"), _explain_failures(self._path):
            files = sorted(self._opened.live_files(), key=lambda file: file["start_key"])
            for family in (ROWS, KEYS):  # the writer of bands merges those itself
                entries = self._families[family]
                own = [file for file in files if file["start_key"].startswith(family)]
                count = files_to_merge([file["size"] for file in own])
                if count:
                    first, last = own[-count]["start_key"], own[-1]["end_key"]
                    self._rewrite(entries, first, last)

    def checkpoint(self, folder: Path) -> None:
        """Make the same database in `folder`, which must not be there yet, out of links to files.

        What is in memory is filed first: to make the links holds the interpreter.
        """
        with _explain_failures(self._path):
            for family in (*self._families.values(), self._opened):
                family.flush()
            rocksdict.Checkpoint(self._opened).create_checkpoint(str(folder))

    def close(self) -> None:
        """Release the database. What it could not file by then is in its log."""
        self._merger.shutdown()
        families, self._families = list(self._families.values()), {}
        with contextlib.suppress(errors.StreamerError), _explain_failures(self._path):
            while families:  # all of them, or it stays open
                families.pop(0).close()
        with contextlib.suppress(errors.StreamerError), _explain_failures(self._path):
            self._opened.close()
        self._opened = None


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries in lists of about as many bytes as are written in one call."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry[1])
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def files_to_merge(sizes: Sequence[int]) -> int:
    """Return how many files at the end are to become one; 0 if they are few or large.

    `sizes` are those of all files, in the order of what they hold. Each that is merged has at most
    twice as many bytes as all after it together.
    """
    after = count = 0
    for size in reversed(sizes):
        if size >= MERGED_BYTES or (count and size > 2 * after):
            break
        after, count = after + size, count + 1
    return count if count >= MERGED_FILES else 0


def _open(path: str, families: Sequence[bytes], *, writable: bool) -> _Rdict:
    # All families are given, since rocksdict would take their options from a file in the folder.
    named = {STATE: _options()}
    named |= {FAMILIES[family]: _options(by_key=family == URLS) for family in families}
    if BANDS in families:  # whose files are as they are to stay, until they are deleted
        named[FAMILIES[BANDS]].set_disable_auto_compactions(True)
    access = rocksdict.AccessType
    own = access.read_write() if writable else access.read_only(False)
    return rocksdict.Rdict(path, _options(), named, own)


def _options(*, by_key: bool = False) -> rocksdict.Options:
    """Return the options of a family; `by_key` of one that is asked for keys it may not have."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    table = rocksdict.BlockBasedOptions()
    table.disable_cache()  # the system has one, and hardly anything is read twice
    table.set_block_size(URL_BLOCK_BYTES if by_key else BLOCK_BYTES)
    if by_key:
        table.set_bloom_filter(FILTER_BITS, block_based=False)
    table.set_checksum_type(rocksdict.ChecksumType.xxh3())
    options.set_block_based_table_factory(table)
    # Sketches and hashes do not compress.
    options.set_compression_type(rocksdict.DBCompressionType.none())
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


@contextlib.contextmanager
def _explain_failures(path: Path, links: str = "") -> Iterator[None]:
    """Turn RocksDB's failures into ours; `links` stand in its texts for `path`."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:  # rocksdict raises Exception itself
            raise
        text = str(error).replace(links, str(path)) if links else str(error)
        raise errors.database_error(path, text) from error
