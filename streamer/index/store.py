"""The store: what has left the head. Rows and postings lie in files that grow, state in RocksDB.

A flush writes rows and postings behind those that are there (shard_files.py), then one batch of
their lengths and all state: that one step is atomic, so what is found after a kill is exactly some
flush. Then the witness (witness.py) is told.

What cannot be read is refused, never taken for empty: to open a store is to read every entry of its
database, and to see that they are all there, that it is not behind the witness, and that the files
of rows and postings are long enough. Nothing is written before the first flush: a store that is
refused stays as it is. Rows are read by their numbers, and postings only when an index is opened,
into the key table.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import StoreDamaged, StoreMismatch, StoreUnavailable
from streamer.index.block_file import Access
from streamer.index.codec import (
    BLOCKS,
    FLUSH,
    FORMAT,
    NUMBERS,
    STATE_KEY,
    FlushMeta,
    ShardMeta,
    StoredState,
    StoreMeta,
    entry_key,
    entry_place,
    format_of,
    pack_state,
    unpack_lengths,
)
from streamer.index.database import Database
from streamer.index.postings import NO_POSTINGS, PARTS, Postings, unpack_postings
from streamer.index.row_blocks import ROWS_A_BLOCK
from streamer.index.shard_files import ShardFiles
from streamer.index.store_errors import damaged, explained
from streamer.index.types import FlushedRows
from streamer.index.witness import NAME as WITNESS
from streamer.index.witness import Witness, read_places, witnessed

_ATTEMPTS = 20  # of a reader to find the files in peace, beside a writer that merges them
_ATTEMPT_SECONDS = 0.05


class Store:
    """An open index directory. One writer at a time; readers may open it beside one.

    Attributes:
        flushes: how many flushes there were since it was opened.
    """

    def __init__(
        self,
        path: Path,
        database: Database | None,
        meta: StoreMeta | None,
        witness: Witness | None,
    ) -> None:
        self.path = path
        self.flushes = 0
        self._database = database
        self._meta = meta
        self._witness = witness
        self._is_writing = False
        self._files: list[ShardFiles] = []

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> Store:
        """Open or (writable) create the store in the folder `path`.

        Raises:
            StoreDamaged: something of it is missing, or cannot be read.
            StoreMismatch: its format is not ours.
            StoreUnavailable: another process writes it, it is missing (reading), or the disk
                refuses.
        """
        if writable:
            return cls._open_to_write(path)
        if not has_index(path.parent):
            raise StoreUnavailable(
                f"There is no index in {path.parent}. Name the folder given as --index."
            )
        for _ in range(_ATTEMPTS):
            seen = _listing(path)
            try:
                return cls._opened(path, None)
            except StoreDamaged:
                if _listing(path) == seen:
                    raise  # and not a writer that has changed the files meanwhile
            time.sleep(_ATTEMPT_SECONDS)
        return cls._opened(path, None)

    @classmethod
    def _open_to_write(cls, path: Path) -> Store:
        folder = path.parent
        is_new = not has_index(folder)
        if not is_new and witnessed(folder) is None:
            raise _unwitnessed(path)
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        witness = Witness(folder)
        try:
            if is_new:
                witness.begin()
            return cls._opened(path, witness)
        except BaseException:
            witness.close()
            raise

    @classmethod
    def _opened(cls, path: Path, witness: Witness | None) -> Store:
        database, meta = _read(path)
        store = cls(path, database, meta, None)
        try:
            store._open_files(meta.shards if meta else [], Access.WRITE if witness else Access.READ)
        except BaseException:
            store.close()
            raise
        store._witness = witness
        return store

    def _open_files(self, shards: Sequence[ShardMeta], access: Access) -> None:
        for number, shard in enumerate(shards):
            self._files.append(ShardFiles(self.path.parent, number, shard.flushes, access))

    @property
    def meta(self) -> StoreMeta | None:
        """Return the state of the newest flush; None in a store that has none yet."""
        return self._meta

    def flush(
        self, identity: dict[str, str | int | float], shards: list[FlushedRows], owner: bytes
    ) -> list[Postings]:
        """Add what all shards flush, and all state, in one atomic step; return all new postings.

        Raises:
            StoreDamaged: the database is.
            StoreUnavailable: the disk refuses. Nothing was added; the index is what it was.
        """
        seq = self._meta.seq + 1 if self._meta else 1
        old = self._meta.shards if self._meta else [ShardMeta() for _ in shards]
        if not self._files:
            self._open_files(old, Access.CREATE)
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
        entries = itertools.chain.from_iterable(each.entries() for each in brought)
        self._to_write().write([*entries, (STATE_KEY, pack_state(meta))])
        postings = [NO_POSTINGS] * len(shards)
        for each in brought:
            self._files[each.shard].take(each.flush)
            postings[each.shard] = each.postings
        self._meta = meta
        self.flushes += 1
        assert self._witness is not None, self.path
        self._witness.write(seq)
        return postings

    def _to_write(self) -> Database:
        """Return the database, opened for writing by the first flush."""
        assert self._witness is not None, f"{self.path} is open for reading"
        if not self._is_writing or self._database is None:
            self._database = Database.write_to(self.path)  # others may be reading the one before
            self._is_writing = True
            self._witness.write(self._meta.seq if self._meta else 0)  # a kill may have come before
        return self._database

    def postings(self, shard: int, flush: FlushMeta, part: int) -> Postings:
        """Return a part of the postings that a flush brought.

        Raises:
            StoreDamaged: they are.
        """
        [postings] = self.all_postings(shard, [flush], part)
        return postings

    def all_postings(self, shard: int, flushes: Sequence[FlushMeta], part: int) -> list[Postings]:
        """Return a part of the postings that each of these flushes brought, read in one go.

        Raises:
            StoreDamaged: one of them is.
        """
        lengths = unpack_lengths(b"".join(each.part_lengths for each in flushes)).reshape(-1, PARTS)
        first = np.array([each.postings_start for each in flushes], np.int64)
        ends = first + lengths[:, : part + 1].sum(axis=1)
        data, limits = self._files[shard].postings.read(ends - lengths[:, part], ends)
        return unpack_postings(part, data, limits)

    def block_lengths(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the lengths in bytes of the row blocks that a flush brought."""
        return unpack_lengths(self._get(entry_key(BLOCKS, shard, flush.seq)))

    def read_blocks(
        self, shard: int, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the row blocks at [starts[i], ends[i]) of a shard's row file, and their limits.

        Raises:
            StoreDamaged: one of them is.
        """
        return self._files[shard].rows.read(starts, ends)

    def row_numbers(self, shard: int, flush: FlushMeta) -> npt.NDArray[np.int64]:
        """Return the row numbers that a flush brought, ascending."""
        if flush.dense:
            return np.arange(flush.first_row, flush.last_row + 1)
        return np.frombuffer(self._get(entry_key(NUMBERS, shard, flush.seq)), "<i8")

    def _get(self, key: bytes) -> bytes:
        assert self._database is not None, "a store without a flush has no entries"
        value = self._database.get(key)
        if value is None:
            raise damaged(self.path, f"it lacks entry {key.hex()}")
        return value

    def size_bytes(self) -> int:
        """Return the bytes of the store's files."""
        total = 0
        for file in _files_of(self.path.parent):
            with suppress(FileNotFoundError):  # merged meanwhile
                total += file.stat().st_size
        return total

    def close(self) -> None:
        """Release the store and its lock."""
        for files in self._files:
            files.close()
        if self._database is not None:
            self._database.close()
        if self._witness is not None:
            self._witness.close()


def has_index(folder: Path) -> bool:
    """Tell whether `folder` has an index, or what is left of one."""
    others = any(file.name != WITNESS for file in _files_of(folder))
    return others or any(number is not None for number in read_places(folder) or ())


def _files_of(folder: Path) -> Iterator[Path]:
    """Yield the files of an index; its secret is not among them."""
    for pattern in (WITNESS, "rows-*", "postings-*", "store/*"):
        yield from folder.glob(pattern)


def _listing(path: Path) -> list[tuple[str, int]]:
    """Return the names and sizes of the database's files."""
    found = []
    for file in path.glob("*"):
        with suppress(FileNotFoundError):
            found.append((file.name, file.stat().st_size))
    return sorted(found)


def _unwitnessed(path: Path) -> StoreDamaged:
    """Return the error about an index without a witness, as those of older formats are.

    Raises:
        StoreMismatch: its format is another.
    """
    if _has_database(path):
        database = Database.look(path)
        try:
            _load(path, database)
        finally:
            database.close()
    return damaged(path.parent / WITNESS, "it is missing")


def _read(path: Path) -> tuple[Database | None, StoreMeta | None]:
    """Return the database as it is now and all that it tells; None where there is no flush yet.

    The witness is read before and after, since a writer may go on beside.
    """
    before = witnessed(path.parent)
    if before is None:
        raise _unwitnessed(path)
    if not _has_database(path):
        if before:
            raise damaged(path / "CURRENT", "it is missing")
        return None, None
    database = Database.look(path)
    try:
        meta = _load(path, database)
        seq, after = meta.seq if meta else 0, witnessed(path.parent) or 0
        if not before <= seq <= after + 1:
            raise damaged(path, f"it has flush {seq}, and {after} was written to it")  # noqa: TRY301 - it is closed here
    except BaseException:
        database.close()
        raise
    return database, meta


def _has_database(path: Path) -> bool:
    with explained(path):
        return (path / "CURRENT").exists()


def _load(path: Path, database: Database) -> StoreMeta | None:
    """Return what a database tells, None of an empty one; every entry of it is read."""
    last = database.last()
    if last is None:
        return None
    key, value = last
    if key[-1:] != STATE_KEY:  # it ends so in all formats
        raise StoreMismatch(f"{path} holds something else than an index. Use another --index.")
    try:
        if (other := format_of(value)) != FORMAT:
            raise StoreMismatch(
                f"The index {path} has format {other}, ours is {FORMAT}. "
                "Use the version that wrote it, or build a new index."
            )
        state = msgspec.msgpack.decode(value, type=StoredState)
        flushes = _flushes(database, len(state.shards))
    except (msgspec.MsgspecError, struct.error, LookupError, ValueError) as error:
        raise damaged(path, f"its entries do not fit: {error}") from error
    shards = []
    for shard, brought in zip(state.shards, flushes, strict=True):
        if len(brought) != shard.flushes:
            raise damaged(path, f"it has {len(brought)} of {shard.flushes} flushes of a shard")
        shards.append(ShardMeta(brought, shard.state))
    return StoreMeta(state.format, state.identity, state.seq, shards, state.owner)


def _flushes(database: Database, shards: int) -> list[list[FlushMeta]]:
    """Return what each shard's flushes brought, by reading every entry of the database.

    Raises:
        LookupError, ValueError, struct.error, msgspec.MsgspecError: an entry is missing, or is not
            of this index.
    """
    found: list[list[FlushMeta]] = [[] for _ in range(shards)]
    expected: dict[bytes, FlushMeta] = {}  # beside a flush: entries of kinds that come later
    for key, value in database.entries():
        if key == STATE_KEY:
            continue
        kind, shard, seq = entry_place(key)
        if kind == FLUSH:
            flush = msgspec.msgpack.decode(value, type=FlushMeta)
            found[shard].append(flush)
            expected[entry_key(BLOCKS, shard, seq)] = flush
            if not flush.dense:
                expected[entry_key(NUMBERS, shard, seq)] = flush
        else:
            _check_entry(kind, value, expected.pop(key))
    if expected:
        raise LookupError(f"{next(iter(expected)).hex()} is missing")
    return found


def _check_entry(kind: int, value: bytes, flush: FlushMeta) -> None:
    """Raise ValueError unless an entry beside a flush is what that flush needs."""
    if kind == NUMBERS:
        fits = len(value) == 8 * flush.rows
    else:
        lengths, parts = unpack_lengths(value), unpack_lengths(flush.part_lengths)
        fits = (
            (len(lengths), lengths.sum()) == (-(-flush.rows // ROWS_A_BLOCK), flush.size)
            and (len(parts), parts.sum()) == (PARTS, flush.postings_size)
        )  # fmt: skip
    if not fits:
        raise ValueError(f"those of flush {flush.seq}")
