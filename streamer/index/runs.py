"""The store: RocksDB holds what has left the head, in files that are added whole and never changed.

A flush writes sorted files, rows, postings and all other state, and adds them together: that one
step is atomic, so what is found after a kill is exactly some flush. There is no write-ahead log of
ours, because the input already is one. Runs of one size are merged into the next size by us, since
postings lie packed in blocks; the store itself only drops the files of merged runs.

One thread may flush while another merges: each writes its files beside the other, under numbers of
its own, and only the step that adds them, with the meta record of what is then there, is serial.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from rocksdict import AccessType, Rdict

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
from streamer.index.postings import Keys, Rows, sort_postings
from streamer.index.run_parts import Blocks, Parts, merged_runs, whole_run
from streamer.index.sorted_files import (
    Entries,
    add_files,
    database_options,
    reading_once,
    write_file,
)
from streamer.index.store_errors import explained
from streamer.index.written_runs import WrittenRuns

FAN_IN = 16  # runs of one level that become one of the next


class Store:
    """An open index directory. One writer at a time; readers may open it beside one.

    Attributes:
        flushes: how many flushes there were since it was opened.
        written: what look-ups take over of the runs written since.
    """

    def __init__(
        self,
        path: Path,
        database: Any,  # noqa: ANN401 - rocksdict has no types
        meta: StoreMeta | None,
        *,
        writable: bool,
    ) -> None:
        self.path = path
        self.writable = writable
        self.flushes = 0
        self.written = WrittenRuns()
        self._database = database
        self._meta = meta
        self._adding = threading.Lock()
        self._numbers = itertools.count()

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
            database = Rdict(str(path), options=database_options(), access_type=access)
        store = cls(path, database, None, writable=writable)
        with explained(path):
            store._meta = store._newest_meta()
        store._numbers = itertools.count(store._meta.seq + 1 if store._meta else 1)
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

    def newest(self) -> tuple[StoreMeta | None, int]:
        """Return the state of the newest flush, and how many there were: of one moment."""
        with self._adding:
            return self._meta, self.flushes

    def flush(
        self, identity: dict[str, str | int | float], shards: list[FlushedRows], owner: bytes
    ) -> None:
        """Add what all shards flush, and all state, in one atomic step.

        Raises:
            StoreUnavailable: nothing was added; the index is what it was.
        """
        seq = next(self._numbers)
        rows: list[Entries] = []
        numbers: list[tuple[bytes, bytes]] = []
        runs: dict[int, RunMeta] = {}
        flushes: dict[int, FlushMeta] = {}
        with explained(self.path):
            files = []
            for number, shard in enumerate(shards):
                if len(shard.rows):
                    flush = flushes[number] = flush_meta(seq, shard)
                    rows.append(row_entries(flush, number, shard))
                    if not flush.dense:
                        packed = shard.rows.astype("<i8").tobytes()
                        numbers.append((entry_key(seq, number, NUMBERS), packed))
                if len(shard.posting_keys):  # none, if every bucket that the rows met was full
                    run = runs[number] = run_meta(seq, 0, len(shard.posting_keys))
                    sorted_postings = sort_postings(shard.posting_keys, shard.posting_rows)
                    files.append(self._write_run(number, run, [sorted_postings], new=True))
            if rows:
                files.append(self._write(f"{seq}-rows", itertools.chain(*rows, numbers)))
            states = [shard.state for shard in shards]
            with self._adding:
                old = self._meta or StoreMeta(FORMAT, identity, 0, [ShardMeta() for _ in shards])
                metas = [
                    ShardMeta(_appended(before.runs, runs.get(i)),
                              _appended(before.flushes, flushes.get(i)), state)
                    for i, (before, state) in enumerate(zip(old.shards, states, strict=True))
                ]  # fmt: skip
                self._add(files, StoreMeta(FORMAT, identity, 0, metas, old.garbage, owner))
                self.flushes += 1

    def _add(self, files: list[str], meta: StoreMeta) -> None:
        """Add files and the record of what is then there; the caller holds the lock."""
        meta.seq = next(self._numbers)  # after all entries: to open an index is to read the last
        entry = (meta_key(meta.seq), msgspec.msgpack.encode(meta))
        add_files(self._database, [*files, self._write(f"{meta.seq}-meta", [entry])])
        self._meta = meta

    def _write(self, name: str, entries: Entries) -> str:
        """Write one sorted file into the folder for incoming ones; return its path."""
        self._incoming.mkdir(exist_ok=True)
        return write_file(self._incoming / f"{name}.sst", entries)

    def _write_run(
        self, shard: int, run: RunMeta, parts: Iterable[tuple[Keys, Rows]], *, new: bool
    ) -> str:
        """Write the file of a run, given in parts; keep what a look-up will take over.

        A shard's postings are a file of their own, which nothing keeps once they are merged.
        """
        noted = self.written.noted(shard, run, parts, new=new)
        return self._write(f"{run.seq}-{shard}", posting_entries(run, shard, noted))

    def merge(self) -> bool:
        """Merge FAN_IN runs of one level of one shard, if there are so many; tell whether.

        The old runs' postings stay until `drop_garbage`, for look-ups that still go by them.
        """
        meta = self._meta
        for number, shard in enumerate(meta.shards if meta else []):
            for level in sorted({run.level for run in shard.runs}):
                same = [run for run in shard.runs if run.level == level]
                if len(same) >= FAN_IN:
                    self._merge_runs(number, same[:FAN_IN])
                    return True
        return False

    def _merge_runs(self, number: int, runs: list[RunMeta]) -> None:
        merged = run_meta(next(self._numbers), runs[0].level + 1, sum(run.postings for run in runs))
        gone = {run.seq for run in runs}
        with explained(self.path):
            file = self._write_run(number, merged, self._merged(number, runs), new=False)
            with self._adding:
                old = self._meta
                assert old is not None, "runs of nothing"
                shards, shard = list(old.shards), old.shards[number]
                left = [run for run in shard.runs if run.seq not in gone]
                shards[number] = ShardMeta([*left, merged], shard.flushes, shard.state)
                garbage = [*old.garbage, *((number, seq) for seq in sorted(gone))]
                self.written.carry_over(number, runs, merged)
                self._add([file], StoreMeta(FORMAT, old.identity, 0, shards, garbage, old.owner))

    def _merged(self, shard: int, runs: list[RunMeta]) -> Parts:
        """Yield the postings of runs, given from the oldest to the newest, merged in parts."""
        yield from merged_runs(runs, [self._blocks(shard, run) for run in runs])

    def drop_garbage(self) -> None:
        """Delete the postings of runs that have been merged; done again if a kill came between."""
        garbage = list(self._meta.garbage) if self._meta else []
        for shard, seq in garbage:
            first, end = entry_prefix(seq, shard, POSTINGS), entry_prefix(seq, shard + 1, POSTINGS)
            with explained(self.path):
                self._database.delete_range(first, end)
                self._database.compact_range(first, end)
        with self._adding:
            if self._meta and garbage:
                left = [each for each in self._meta.garbage if each not in garbage]
                self._meta = msgspec.structs.replace(self._meta, garbage=left)

    def run_parts(self, shard: int, run: RunMeta) -> Parts:
        """Yield all postings of a run in order, some at a time; each part has whole blocks."""
        with explained(self.path):
            yield from whole_run(self._blocks(shard, run))

    def _blocks(self, shard: int, run: RunMeta) -> Blocks:
        prefix = entry_prefix(run.seq, shard, POSTINGS)
        entries = self._database.items(from_key=prefix, read_opt=reading_once())
        return itertools.takewhile(lambda entry: entry[0].startswith(prefix), entries)

    def read(self, keys: list[bytes]) -> list[bytes]:
        """Return the values of `keys`, each of which exists, or b"" where it does not."""
        with explained(self.path):
            return [value or b"" for value in self._database.get(keys)] if keys else []

    def row_numbers(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the row numbers that a flush brought, ascending."""
        if flush.dense:
            return np.arange(flush.first_row, flush.last_row + 1)
        return np.frombuffer(self.read([entry_key(flush.seq, shard, NUMBERS)])[0], "<i8")

    def step_record(self, seq: int) -> bytes:
        """Return what no other step of this or another store has; b"" if there is no such step."""
        record = self.read([meta_key(seq)])[0]
        with explained(self.path):
            return (self.path / "IDENTITY").read_bytes() + record if record else b""

    def size_bytes(self) -> int:
        """Return the bytes of the store's files."""
        return sum(file.stat().st_size for file in self.path.glob("*") if file.is_file())

    def close(self) -> None:
        """Release the store and its lock."""
        self._database.close()


def _appended(before: list[Any], item: Any) -> list[Any]:  # noqa: ANN401 - of any one type
    return before if item is None else [*before, item]
