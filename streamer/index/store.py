"""The store: what has left the head. RocksDB holds postings and all state, row files hold rows.

A flush writes rows behind those that are there (row_file.py), then one sorted file of postings, the
lengths of the rows' blocks and all other state, and adds it: that one step is atomic, so what is
found after a kill is exactly some flush. There is no write-ahead log of ours, because the input
already is one. Nothing is ever merged: rows are read by their numbers, and postings only when an
index is opened, into the key table.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from rocksdict import AccessType, Rdict

from streamer.errors import StoreMismatch, StoreUnavailable
from streamer.index.codec import (
    BLOCKS,
    FORMAT,
    NUMBERS,
    POSTINGS,
    FlushMeta,
    ShardMeta,
    StoreMeta,
    entry_key,
    is_meta_key,
    meta_key,
)
from streamer.index.entries import Brought, flush_entries, flush_meta
from streamer.index.lookup import FlushedRows
from streamer.index.postings import Postings, unpack_postings
from streamer.index.row_blocks import pack_rows
from streamer.index.row_file import RowFile
from streamer.index.sorted_files import add_file, database_options, reading_once, write_file
from streamer.index.store_errors import explained


class Store:
    """An open index directory. One writer at a time; readers may open it beside one.

    Attributes:
        flushes: how many flushes there were since it was opened.
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
        self._database = database
        self._meta = meta
        self._row_files: list[RowFile] = []
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
            store._open_row_files(store._meta.shards if store._meta else [])
        store._numbers = itertools.count(store._meta.seq + 1 if store._meta else 1)
        if writable:
            shutil.rmtree(store._incoming, ignore_errors=True)
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

    def _open_row_files(self, shards: Sequence[ShardMeta]) -> None:
        for number, shard in enumerate(shards):
            size = sum(flush.size for flush in shard.flushes)
            path = self.path.parent / f"rows-{number}"
            self._row_files.append(RowFile(path, size, writable=self.writable))

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
        seq = next(self._numbers)
        old = self._meta.shards if self._meta else [ShardMeta() for _ in shards]
        if not self._row_files:
            self._open_row_files(old)
        brought = [
            self._append_rows(seq, number, rows)
            for number, rows in enumerate(shards)
            if len(rows.rows)
        ]
        metas = [
            ShardMeta(before.flushes, rows.state) for before, rows in zip(old, shards, strict=True)
        ]
        for each in brought:
            metas[each.shard].flushes = [*metas[each.shard].flushes, each.flush]
        meta = StoreMeta(FORMAT, identity, seq, metas, owner)
        last = (meta_key(seq), msgspec.msgpack.encode(meta))
        with explained(self.path):
            self._incoming.mkdir(exist_ok=True)
            entries = itertools.chain(flush_entries(brought), [last])
            add_file(self._database, write_file(self._incoming / f"{seq}.sst", entries))
        for each in brought:
            self._row_files[each.shard].size += each.flush.size
        self._meta = meta
        self.flushes += 1

    def _append_rows(self, seq: int, shard: int, rows: FlushedRows) -> Brought:
        """Write the rows that a shard flushes; they count when the flush is added."""
        data, ends = pack_rows(rows.refs, rows.sketches, rows.marks, rows.urls)
        self._row_files[shard].append(data)
        return Brought(shard, flush_meta(seq, rows, len(data)), rows, ends)

    def postings(self, shard: int, flush: FlushMeta, part: int) -> Postings:
        """Return a part of the postings that a flush brought."""
        return unpack_postings(part, self._read(entry_key(flush.seq, shard, POSTINGS, part)))

    def block_lengths(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the lengths in bytes of the row blocks that a flush brought."""
        lengths = self._read(entry_key(flush.seq, shard, BLOCKS))
        return np.frombuffer(lengths, "<u4").astype(np.int64)

    def read_blocks(
        self, shard: int, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the row blocks at [starts[i], ends[i]) of a shard's row file, as that does.

        Raises:
            StoreUnavailable: the disk refuses, or a block is damaged.
        """
        return self._row_files[shard].read(starts, ends)

    def row_numbers(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the row numbers that a flush brought, ascending."""
        if flush.dense:
            return np.arange(flush.first_row, flush.last_row + 1)
        return np.frombuffer(self._read(entry_key(flush.seq, shard, NUMBERS)), "<i8")

    def _read(self, key: bytes) -> bytes:
        with explained(self.path):
            value: bytes = self._database.get(key, read_opt=reading_once())
            return value

    def size_bytes(self) -> int:
        """Return the bytes of the store's files."""
        files = (*self.path.glob("*"), *self.path.parent.glob("rows-*"))
        return sum(file.stat().st_size for file in files if file.is_file())

    def close(self) -> None:
        """Release the store and its lock."""
        for file in self._row_files:
            file.close()
        self._database.close()
