"""The store: RocksDB holds what has left the head, in files that are added whole and never changed.

A flush writes sorted files, rows, postings and all other state, and ingests them together: that
one step is atomic, so what is found after a kill is exactly some flush. There is no write-ahead log
of ours, because the input already is one. Runs of one size are merged into the next size by us,
since postings lie packed in blocks; the store itself only drops the files of merged runs.

This is the only module that knows RocksDB.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
)

from streamer.errors import StoreMismatch, StoreUnavailable
from streamer.index.codec import (
    FORMAT,
    NUMBERS,
    POSTINGS,
    FlushMeta,
    RunMeta,
    ShardMeta,
    StoreMeta,
    entry_key,
    entry_prefix,
    is_meta_key,
    meta_key,
)
from streamer.index.entries import flush_meta, posting_entries, row_entries, run_meta
from streamer.index.lookup import FlushedRows
from streamer.index.postings import (
    Keys,
    Rows,
    joined_blocks,
    merge_postings,
    split_blocks,
)
from streamer.index.store_errors import explained

FAN_IN = 8  # runs of one level that become one of the next
CACHE_BYTES = 64 << 20
BLOCKS_A_READ = 4096  # of a run that is read as a whole, about 5 MB
READ_AHEAD_BYTES = 1 << 20
ADVICE_BYTES = 128 << 10  # the system takes no more at a time, of what it is asked to read ahead
BLOCK_BYTES = 1 << 10  # less than any value of ours: one is read without its neighbours

Entries = Iterable[tuple[bytes, bytes]]


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_block_size(BLOCK_BYTES)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())  # sketches and hashes do not compress
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    return options


def _read_ahead() -> ReadOptions:
    """Return options for reading much in order, once: not by way of the cache."""
    options = ReadOptions()
    options.set_readahead_size(READ_AHEAD_BYTES)
    options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks its argument
    return options


class Store:
    """An open index directory. One writer at a time; readers may open it beside one."""

    def __init__(
        self,
        path: Path,
        database: Any,  # noqa: ANN401 - rocksdict has no types
        meta: StoreMeta | None,
        *,
        writable: bool,
    ) -> None:
        self.path = path
        self._database = database
        self._meta = meta
        self._written: dict[tuple[int, int], Keys] = {}  # by shard and seq
        self.writable = writable

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> Store:
        """Open or (writable) create the store in the folder `path`.

        Raises:
            StoreUnavailable: it is locked, missing (reading), damaged, or the disk refuses.
            StoreMismatch: its format is not ours.
        """
        if not writable and not (path / "CURRENT").exists():
            raise StoreUnavailable(
                f"There is no index in {path.parent}. Name the folder given as --index."
            )
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
            access = AccessType.read_write() if writable else AccessType.read_only(False)
            database = Rdict(str(path), options=_options(), access_type=access)
        store = cls(path, database, None, writable=writable)
        with explained(path):
            store._meta = store._newest_meta()
        if writable:
            shutil.rmtree(store._incoming, ignore_errors=True)
            store.drop_garbage()
        return store

    def _newest_meta(self) -> StoreMeta | None:
        cursor = self._database.iter()
        cursor.seek_to_last()
        if not cursor.valid():
            return None
        key = cursor.key()
        if not is_meta_key(key):
            raise StoreMismatch(
                f"{self.path} holds something else than an index. Use another --index."
            )
        head = msgspec.msgpack.decode(cursor.value(), type=dict[str, Any])
        if head.get("format") != FORMAT:
            raise StoreMismatch(
                f"The index {self.path} has format {head.get('format')}, ours is {FORMAT}. "
                "Use the version that wrote it, or build a new index."
            )
        return msgspec.msgpack.decode(cursor.value(), type=StoreMeta)

    @property
    def meta(self) -> StoreMeta | None:
        """Return the state of the newest flush; None in a store that has none yet."""
        return self._meta

    @property
    def _incoming(self) -> Path:
        return self.path.parent / "incoming"

    def flush(
        self, identity: dict[str, str | int | float], shards: list[FlushedRows], owner: bytes
    ) -> None:
        """Add what all shards flush, and all state, in one atomic step.

        Raises:
            StoreUnavailable: nothing was added; the index is what it was.
        """
        old = self._meta or StoreMeta(FORMAT, identity, 0, [ShardMeta() for _ in shards])
        seq = old.seq + 1
        metas: list[ShardMeta] = []
        self._written.clear()
        postings: list[Entries] = []
        rows: list[Entries] = []
        sparse: list[tuple[bytes, bytes]] = []
        for number, (shard, before) in enumerate(zip(shards, old.shards, strict=True)):
            meta = ShardMeta(list(before.runs), list(before.flushes), shard.state)
            if len(shard.rows):
                flush = flush_meta(seq, shard)
                meta.flushes.append(flush)
                if len(shard.posting_keys):  # none, if every bucket that the rows met was full
                    meta.runs.append(run_meta(seq, 0, len(shard.posting_keys)))
                    self._written[number, seq] = shard.posting_keys
                    postings.append(
                        posting_entries(seq, number, shard.posting_keys, shard.posting_rows)
                    )
                rows.append(row_entries(flush, number, shard))
                if not flush.dense:
                    numbers = shard.rows.astype("<i8").tobytes()
                    sparse.append((entry_key(seq, number, NUMBERS), numbers))
            metas.append(meta)
        new = StoreMeta(FORMAT, identity, seq, metas, old.garbage, owner)
        self._ingest(postings, itertools.chain(*rows, sparse), new)

    def _ingest(self, postings: list[Entries], others: Entries, meta: StoreMeta) -> None:
        """Write sorted files and add them in one atomic step; entries come in order of their keys.

        A shard's postings are a file of their own, which nothing keeps once they are merged.
        """
        others = itertools.chain(others, [(meta_key(meta.seq), msgspec.msgpack.encode(meta))])
        with explained(self.path):
            self._incoming.mkdir(exist_ok=True)
            files = [self._write(entries, n) for n, entries in enumerate([*postings, others])]
            how = IngestExternalFileOptions()
            how.set_move_files(True)
            with _read_into_cache(files):
                self._database.ingest_external_file(files, how)
        self._meta = meta

    def _write(self, entries: Entries, number: int) -> str:
        """Write one sorted file into the folder for incoming ones; return its path."""
        file = str(self._incoming / f"{number}.sst")
        writer = SstFileWriter(options=_options())
        writer.open(file)
        for key, value in entries:
            writer[key] = value
        writer.finish()
        return file

    def merge(self) -> bool:
        """Merge FAN_IN runs of one level of one shard, if there are so many; tell whether.

        The old runs' postings stay until `drop_garbage`, for look-ups that still go by them.
        """
        meta = self._meta
        for number, shard in enumerate(meta.shards if meta else []):
            for level in sorted({run.level for run in shard.runs}):
                same = [run for run in shard.runs if run.level == level]
                if meta and len(same) >= FAN_IN:
                    self._merge_runs(meta, number, same[:FAN_IN])
                    return True
        return False

    def _merge_runs(self, meta: StoreMeta, number: int, runs: list[RunMeta]) -> None:
        keys, rows = merge_postings([self.read_run(number, run) for run in runs])
        seq = meta.seq + 1
        gone = {run.seq for run in runs}
        shards = list(meta.shards)
        old = shards[number]
        kept = [run for run in old.runs if run.seq not in gone]
        merged = run_meta(seq, runs[0].level + 1, len(keys))
        shards[number] = ShardMeta([*kept, merged], old.flushes, old.state)
        garbage = [*meta.garbage, *((number, seq) for seq in sorted(gone))]
        entries = posting_entries(seq, number, keys, rows)
        new = StoreMeta(FORMAT, meta.identity, seq, shards, garbage, meta.owner)
        self._ingest([entries], [], new)
        self._written[number, seq] = keys

    def drop_garbage(self) -> None:
        """Delete the postings of runs that have been merged; done again if a kill came between."""
        if self._meta is None:
            return
        for shard, seq in self._meta.garbage:
            first, end = entry_prefix(seq, shard, POSTINGS), entry_prefix(seq, shard + 1, POSTINGS)
            with explained(self.path):
                self._database.delete_range(first, end)
                self._database.compact_range(first, end)
        self._meta = msgspec.structs.replace(self._meta, garbage=[])

    def run_keys(self, shard: int, run: RunMeta) -> Keys:
        """Return the keys of a run, in order; one just written is handed out without reading."""
        written = self._written.pop((shard, run.seq), None)
        return self.read_run(shard, run)[0] if written is None else written

    def read_run(self, shard: int, run: RunMeta) -> tuple[Keys, Rows]:
        """Return all postings of a run, in order."""
        keys, rows = np.empty(run.postings, np.uint64), np.empty(run.postings, np.uint32)
        prefix, at = entry_prefix(run.seq, shard, POSTINGS), 0
        with explained(self.path):
            entries = self._database.items(from_key=prefix, read_opt=_read_ahead())
            own = itertools.takewhile(lambda entry: entry[0].startswith(prefix), entries)
            blocks = (value for _, value in own)
            while values := list(itertools.islice(blocks, BLOCKS_A_READ)):
                at += split_blocks(*joined_blocks(values), keys[at:], rows[at:])
        assert at == run.postings, f"{at} postings of {run.postings} in run {run.seq}"
        return keys, rows

    def read(self, keys: list[bytes]) -> list[bytes]:
        """Return the values of `keys`, each of which exists, or b"" where it does not."""
        with explained(self.path):
            return [value or b"" for value in self._database.get(keys)] if keys else []

    def row_numbers(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the row numbers that a flush brought, ascending."""
        if flush.dense:
            return np.arange(flush.first_row, flush.last_row + 1)
        return np.frombuffer(self.read([entry_key(flush.seq, shard, NUMBERS)])[0], "<i8")

    def size_bytes(self) -> int:
        """Return the bytes of the store's files."""
        return sum(file.stat().st_size for file in self.path.glob("*") if file.is_file())

    def close(self) -> None:
        """Release the store and its lock."""
        self._database.close()


@contextlib.contextmanager
def _read_into_cache(files: list[str]) -> Iterator[None]:
    """Have the system read files into its cache afterwards: the store drops what it has written."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Path(file).open("rb")) for file in files]
        yield
        for file in opened:
            for start in range(0, os.fstat(file.fileno()).st_size, ADVICE_BYTES):
                os.posix_fadvise(file.fileno(), start, ADVICE_BYTES, os.POSIX_FADV_WILLNEED)
