"""The store: what has left the head. Rows and postings lie in files that grow, state in RocksDB.

A flush writes rows and postings behind those that are there (shard_files.py), then one sorted file
of their lengths and all state, and adds it: that one step is atomic, so what is found after a kill
is exactly some flush. There is no write-ahead log of ours, because the input already is one.
Nothing is ever merged: rows are read by their numbers, and postings only when an index is opened,
into the key table.
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
from streamer.index.entries import flush_entries, unpack_lengths
from streamer.index.lookup import FlushedRows
from streamer.index.postings import NO_POSTINGS, Postings, unpack_postings
from streamer.index.shard_files import ShardFiles
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
        self._files: list[ShardFiles] = []
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
            store._open_files(store._meta.shards if store._meta else [])
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

    def _open_files(self, shards: Sequence[ShardMeta]) -> None:
        for number, shard in enumerate(shards):
            self._files.append(
                ShardFiles(self.path.parent, number, shard.flushes, writable=self.writable)
            )

    @property
    def meta(self) -> StoreMeta | None:
        """Return the state of the newest flush; None in a store that has none yet."""
        return self._meta

    @property
    def _incoming(self) -> Path:
        return self.path.parent / "incoming"

    def flush(
        self, identity: dict[str, str | int | float], shards: list[FlushedRows], owner: bytes
    ) -> list[Postings]:
        """Add what all shards flush, and all state, in one atomic step; return all new postings.

        Raises:
            StoreUnavailable: nothing was added; the index is what it was.
        """
        seq = next(self._numbers)
        old = self._meta.shards if self._meta else [ShardMeta() for _ in shards]
        if not self._files:
            self._open_files(old)
        brought = [
            files.bring(seq, rows)
            for files, rows in zip(self._files, shards, strict=True)
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
        postings = [NO_POSTINGS] * len(shards)
        for each in brought:
            self._files[each.shard].take(each.flush)
            postings[each.shard] = each.postings
        self._meta = meta
        self.flushes += 1
        return postings

    def postings(self, shard: int, flush: FlushMeta, part: int) -> Postings:
        """Return a part of the postings that a flush brought.

        Raises:
            StoreUnavailable: the disk refuses, or they are damaged.
        """
        lengths = unpack_lengths(self._read(entry_key(flush.seq, shard, POSTINGS)))
        ends = flush.postings_start + np.cumsum(lengths)
        wanted = slice(part, part + 1)
        data, limits = self._files[shard].postings.read((ends - lengths)[wanted], ends[wanted])
        return unpack_postings(part, data[: limits[-1]])

    def block_lengths(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the lengths in bytes of the row blocks that a flush brought."""
        return unpack_lengths(self._read(entry_key(flush.seq, shard, BLOCKS)))

    def read_blocks(
        self, shard: int, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the row blocks at [starts[i], ends[i]) of a shard's row file, and their limits.

        Raises:
            StoreUnavailable: the disk refuses, or a block is damaged.
        """
        return self._files[shard].rows.read(starts, ends)

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
        beside = (self.path.parent.glob(f"{name}-*") for name in ("rows", "postings"))
        files = itertools.chain(self.path.glob("*"), *beside)
        return sum(file.stat().st_size for file in files if file.is_file())

    def close(self) -> None:
        """Release the store and its lock."""
        for files in self._files:
            files.close()
        self._database.close()
