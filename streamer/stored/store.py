"""The store: what has left the memtable, in a database of rows, of keys, and of one state.

A flush gives its rows the slots after those that the state counts (codec.py). It writes the rows,
their keys and the state in one atomic step, so a crash leaves exactly the state of some flush.
Blocks after the state's slots belong to a flush that failed or was killed: they are never read, and
the next flush overwrites them. Last, the flush is recorded in the witness (witness.py).

What cannot be read is refused, never taken for empty. Every slot that the state counts has a block
of keys, and these blocks name as many rows as the state. They are read when an index is opened for
look-ups; rows are read by their slots. Nothing is written before an index was read and found to
fit: a store that is refused is not changed.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import (
    StoreDamaged,
    StoreMismatch,
    StoreUnavailable,
    damaged,
    explained,
    is_there,
)
from streamer.index.codec import (
    BANDS,
    FORMAT,
    KEYS,
    READ_FORMATS,
    ROWS,
    SHINGLES,
    STATE_KEY,
    URLS,
    Entry,
    ShardMeta,
    StoreMeta,
    Stretch,
    UrlGeneration,
    format_of,
)
from streamer.index.ports import BEFORE_ALL, FlushedRows, FlushedUrls, Horizon
from streamer.index.postings import NO_POSTINGS, Postings, sort_postings
from streamer.index.url_versions import url_entries, url_key
from streamer.stored.database import Database, remove_copy
from streamer.stored.row_blocks import (
    ROWS_A_BLOCK,
    SLOTS_A_KEY_BLOCK,
    RowKeys,
    gather_marks,
    key_entries,
    row_entries,
    rows_at,
    shingle_entries,
    unpack_keys,
)
from streamer.stored.witness import NAME as WITNESS
from streamer.stored.witness import Witness, make_folder, read_places, witnessed

_STRETCHES = 16  # rows are dropped in about so many steps: such a share may outlive its time
_ATTEMPTS = 20  # of a reader to find a consistent set of files while a writer merges them
_ATTEMPT_SECONDS = 0.05


class FlushedBlocks(NamedTuple):
    """What a flush has added to a shard: its postings, its rows in order, and their slots."""

    postings: Postings
    rows: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]


class Store:
    """An open index directory. One writer at a time; readers may open it meanwhile.

    Where something of it is damaged or missing, every function raises StoreDamaged; where the disk
    refuses, StoreUnavailable: then the index is what it was.

    Attributes:
        flushes: how many flushes there were since it was opened.
        failed: is called, in any thread, with "freeze", "merge" or "sweep" when one has failed.
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
        self.failed: Callable[[str], None] = lambda _what: None
        self._database = database
        self._meta = meta
        self._witness = witness
        self._is_writing = False
        self._freed = 0  # slots whose space was given back
        self._freed_urls = 0  # generations of versions of URLs
        self._noting = threading.Lock()

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
                return cls(path, *_read(path), None)
            except StoreDamaged:
                if _listing(path) == seen:
                    raise  # and not a writer that has changed the files meanwhile
            time.sleep(_ATTEMPT_SECONDS)
        return cls(path, *_read(path), None)

    @classmethod
    def _open_to_write(cls, path: Path) -> Store:
        folder = path.parent
        is_new = not has_index(folder)
        if not is_new and witnessed(folder) is None:
            raise _unwitnessed(path)
        with explained(folder):
            make_folder(folder)
        witness = Witness(folder)
        try:
            if is_new:
                witness.begin()
            return cls(path, *_read(path), witness)
        except BaseException:
            witness.close()
            raise

    @property
    def meta(self) -> StoreMeta | None:
        """Return the state of the newest flush; None in a store that has none yet."""
        return self._meta

    def flush(
        self, identity: dict[str, str | int | float], shards: list[FlushedRows], owner: bytes,
        notes: Sequence[Entry] = (),
    ) -> list[FlushedBlocks]:  # fmt: skip
        """Add what all shards flush, and all state, in one atomic step; return all that is new.

        `notes` are stored in addition to the state, in the same step.
        """
        before = self._meta or StoreMeta(FORMAT, identity, 0, 0, [ShardMeta() for _ in shards])
        slot, metas, added = before.next_slot, [], []
        stretch = Stretch(0, [])
        sets_of: list[Entry] = []
        rows_of: list[Entry] = []
        keys_of: list[Entry] = []
        urls_of: list[Entry] = []
        for number, (rows, meta) in enumerate(zip(shards, before.shards, strict=True)):
            count, postings = len(rows.rows), NO_POSTINGS
            if count:
                sets_of += shingle_entries(rows, slot)
                rows_of += row_entries(rows, slot)
                keys_of += key_entries(number, rows, slot)
                postings = sort_postings(rows.keys, rows.masks, rows.rows)
            posted = len(postings.words)
            generations = live_generations(meta.generations, rows.versions, rows.horizon)
            urls_of += url_entries(rows.versions) if rows.versions else []
            metas.append(
                ShardMeta(
                    meta.rows + count,
                    meta.postings + posted,
                    rows.state,
                    rows.horizon,
                    generations,
                    meta.forgotten,
                )
            )
            newest = int(rows.times.max(initial=BEFORE_ALL)), int(rows.rows.max(initial=-1))
            stretch.shards.append((count, posted, *newest))
            added.append(FlushedBlocks(postings, rows.rows, slot + np.arange(count)))
            slot += -(-count // SLOTS_A_KEY_BLOCK) * SLOTS_A_KEY_BLOCK
        stretch.end = slot
        stretches = joined_stretches(before.stretches, stretch)
        dropped = first_to_stay(stretches, [rows.horizon for rows in shards])
        first_slot = stretches[dropped - 1].end if dropped else before.first_slot
        for gone in stretches[:dropped]:
            for meta, (count, posted, *_) in zip(metas, gone.shards, strict=True):
                meta.rows, meta.postings = meta.rows - count, meta.postings - posted
        after = StoreMeta(
            FORMAT, identity, before.seq + 1, slot, metas, owner, first_slot, stretches[dropped:]
        )
        # Whoever finds keys finds their rows, if only a manifest's end is lost: rows come first.
        self._write([sets_of, rows_of, keys_of], after, notes=notes, replaced=urls_of)
        self.flushes += 1
        return added

    def replace(
        self, entries: Sequence[Sequence[Entry]], shards: list[ShardMeta], stretches: list[Stretch]
    ) -> None:
        """Write entries over those that are there, and what the state says of them, in one step.

        Each list has those of one family.
        Who looks up meanwhile finds a row as it was, or empty.
        """
        assert self._meta is not None, "a store without a flush has no entries"
        seq = self._meta.seq + 1
        after = msgspec.structs.replace(
            self._meta, format=FORMAT, seq=seq, shards=shards, stretches=stretches
        )
        self._write(entries, after, in_place=True)

    def settle(self, key_blocks: range | None = None, *, urls: bool = False) -> None:
        """Remove what was overwritten from the disk before this returns.

        By default that is all; with `key_blocks`, old states, these blocks of keys, and the blocks
        of rows and shingles of the same slots; with `urls`, versions of URLs, too.
        """
        if key_blocks is None:
            self._to_write().settle()
            return
        slots = key_blocks.start * SLOTS_A_KEY_BLOCK, key_blocks.stop * SLOTS_A_KEY_BLOCK
        rows = range(slots[0] // ROWS_A_BLOCK, slots[1] // ROWS_A_BLOCK)
        all_urls = range(1 << 63 if urls else 0)
        blocks = {KEYS: key_blocks, ROWS: rows, SHINGLES: range(*slots), URLS: all_urls}
        self._to_write().settle(blocks)

    def reopen(self) -> None:
        """Open the database again, which begins a new list of files; nothing else may use it."""
        assert self._database is not None, "a store without a flush has no files"
        self._database.close()
        self._database, self._is_writing = None, False
        self._to_write()

    def _write(
        self,
        entries: Sequence[Sequence[Entry]],
        after: StoreMeta,
        *,
        notes: Sequence[Entry] = (),
        replaced: Sequence[Entry] = (),
        in_place: bool = False,
    ) -> None:
        state = STATE_KEY, msgspec.msgpack.encode(after)
        self._to_write().write(entries, state, notes=notes, replaced=replaced, in_place=in_place)
        self._meta = after
        assert self._witness is not None, self.path
        self._witness.write(after.seq)

    def delete_dropped(self) -> None:
        """Free the space of what was dropped; no thread may read it any more."""
        first_slot = self._meta.first_slot if self._meta else 0
        if first_slot > self._freed:
            blocks = {ROWS: ROWS_A_BLOCK, KEYS: SLOTS_A_KEY_BLOCK}
            if self.has_shingles:
                blocks[SHINGLES] = 1
            for family, slots in blocks.items():
                self._to_write().delete(family, [(self._freed // slots, first_slot // slots)])
            self._freed = first_slot
        for meta in self._meta.shards if self._meta else []:  # one of them has some
            first = meta.generations[0].number if meta.generations else 0
            if first > self._freed_urls:
                self._to_write().delete(URLS, [(self._freed_urls, first)])
                self._freed_urls = first

    def _to_write(self) -> Database:
        """Return the database, opened for writing by the first flush."""
        assert self._witness is not None, f"{self.path} is open for reading"
        if not self._is_writing or self._database is None:
            self._without_checkpoint()
            # Readers may still use the read-only handle, so it is not closed here.
            self._database = Database.write_to(self.path, lambda: self.failed("merge"))
            self._is_writing = True
            # A kill may have come between database and witness.
            self._witness.write(self._meta.seq if self._meta else 0)
        return self._database

    def checkpoint(self) -> Path:
        """Return a folder with the database of the newest flush, out of links; not during a flush.

        Whoever asks for it removes it. There is one at a time.
        """
        database = self._to_write()
        folder = self._without_checkpoint()
        if os.path.lexists(folder):
            raise StoreUnavailable(
                f"{folder} is in the way: it is not the copy of an index that was killed. Move it "
                "elsewhere."
            )
        with self._noting:  # or the copy could lack a note that was reported
            database.checkpoint(folder)
        return folder

    def _without_checkpoint(self) -> Path:
        """Remove the checkpoint that there is, of a process that was killed; return its folder."""
        folder = self.path.with_name("checkpoint")
        for each in (folder, folder.with_suffix(".tmp")):  # which RocksDB makes first
            remove_copy(each)
        return folder

    def keys(
        self, shard: int, rows_at_once: int, first_slot: int = 0, rows_before: int = 0,
        *, whole: bool = True,
    ) -> Iterator[RowKeys]:  # fmt: skip
        """Yield the keys of all rows of a shard, by their slots, so many slots at a time.

        Slots before the first one, which begins a block, are skipped; `rows_before` is how many
        rows they have.
        `whole` is as for `read_keys`.
        """
        meta, count = self._meta, rows_before
        blocks, at_once = self.key_blocks, max(1, rows_at_once // SLOTS_A_KEY_BLOCK)
        for first in range(
            max(blocks.start, first_slot // SLOTS_A_KEY_BLOCK), blocks.stop, at_once
        ):
            part = range(first, min(first + at_once, blocks.stop))
            if found := self.read_keys(shard, part, whole=whole):
                count += len(found.rows)
                yield found
        if meta is not None:
            own = meta.shards[shard]
            most = own.rows + (own.forgotten if first_slot else 0)  # which what is frozen has
            if not own.rows <= count <= most:
                raise damaged(self.path, f"it has {count} of {own.rows} rows")

    @property
    def key_blocks(self) -> range:
        """Return the numbers of the blocks of keys, of all shards."""
        slots = (self._meta.first_slot, self._meta.next_slot) if self._meta else (0, 0)
        return range(*(slot // SLOTS_A_KEY_BLOCK for slot in slots))

    def read_keys(self, shard: int, blocks: range, *, whole: bool = True) -> RowKeys | None:
        """Return what some blocks of keys have of a shard.

        Without `whole`, only the upper 40 bits of each key are there. So it is in any case for keys
        that a row is not posted under.
        """
        try:
            found = unpack_keys(shard, blocks.start, self._values(KEYS, blocks))
        except ValueError as error:
            raise damaged(self.path, f"block {error} of its keys") from error
        if found is None or not whole:
            return found
        return found.whole(gather_marks(rows_at(found.slots, self.row_blocks), found.keys.shape[1]))

    def row_blocks(self, blocks: Sequence[int]) -> list[bytes]:
        """Return blocks of rows."""
        return self._values(ROWS, blocks)

    @property
    def has_shingles(self) -> bool:
        """Return whether each row has a set of shingles."""
        return self._meta is not None and "exact" in self._meta.identity

    def shingles(self, slots: Sequence[int]) -> list[bytes]:
        """Return the sets of the rows in slots."""
        return self._values(SHINGLES, slots) if slots else []

    def url_versions(self, shard: int, keys: Sequence[int]) -> list[bytes | None]:
        """Return the newest version under each key of a URL, None where there is none."""
        found: list[bytes | None] = [None] * len(keys)
        places = [*range(len(keys))]
        generations = self._meta.shards[shard].generations if self._meta else []
        for generation in reversed(generations):
            places = [i for i in places if found[i] is None]
            assert self._database is not None, "a store without a flush has no versions"
            asked = [url_key(generation.number, keys[i]) for i in places]
            for i, version in zip(places, self._database.newest(URLS, asked), strict=True):
                found[i] = version
        return found

    def scan_urls(self) -> Iterator[Entry]:
        """Yield all versions of URLs, with the keys of their entries."""
        if self._database is not None:
            yield from self._database.scan(URLS)

    @property
    def url_count(self) -> int:
        """Return how many versions of URLs there are, about: replaced ones may count, too."""
        return self._database.count(URLS) if self._database is not None else 0

    def forget_urls(self, keys: Sequence[bytes]) -> None:
        """Delete entries of versions; `settle` removes their bytes from the disk."""
        if keys:
            self._to_write().remove(URLS, keys)

    def band_blocks(self, blocks: Sequence[int]) -> list[bytes]:
        """Return blocks of frozen keys."""
        return self._values(BANDS, blocks)

    def write_bands(self, entries: Iterable[Entry]) -> None:
        """Write blocks of frozen keys, and sync them; a flush may run meanwhile."""
        self._to_write().write_apart(BANDS, entries)

    def drop_bands(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Delete blocks [start, end) of frozen keys."""
        self._to_write().delete(BANDS, ranges)

    def note(self, key: bytes) -> bytes | None:
        """Return what was noted under a key, None if nothing was."""
        return self._database.note(key) if self._database is not None else None

    def put_note(self, key: bytes, value: bytes) -> None:
        """Note a value under a key; none removes it."""
        with self._noting:
            self._to_write().put_note(key, value)

    def _values(self, family: bytes, blocks: Sequence[int]) -> list[bytes]:
        assert self._database is not None, "a store without a flush has no entries"
        return self._database.values(family, blocks)

    def size_bytes(self) -> int:
        """Return the bytes of the store's files."""
        total = 0
        for file in _files_of(self.path.parent):
            with suppress(FileNotFoundError):  # merged meanwhile
                total += file.stat().st_size
        return total

    def close(self, remove: Iterable[Path] = ()) -> None:
        """Release the store, remove these files and folders of its index, and release its lock.

        The file that is locked is the last to go: another process may take the index from then on.
        """
        if self._database is not None:
            self._database.close()
        for path in sorted(remove, key=lambda each: each.name == WITNESS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self._witness is not None:
            self._witness.close()


def joined_stretches(before: list[Stretch], new: Stretch) -> list[Stretch]:
    """Return all stretches with that of a flush; neighbours that have few of all rows become one.

    Any two neighbours that are left have a _STRETCHES-th of all rows, so about twice as many remain
    at most.
    """
    stretches = [*before, new]
    few = sum(map(_rows, stretches)) // _STRETCHES
    joined: list[Stretch] = []
    for each in stretches:
        if joined and _rows(joined[-1]) + _rows(each) <= few:
            joined[-1] = _both(joined[-1], each)
        else:
            joined.append(each)
    return joined


def live_generations(
    before: Sequence[UrlGeneration], new: FlushedUrls | None, horizon: Horizon
) -> list[UrlGeneration]:
    """Return the generations with what a flush brings, without those that have expired."""
    own = [*before]
    if new is not None:
        if own and own[-1].number == new.generation:
            own.pop()
        own.append(UrlGeneration(new.generation, *new.newest))
    while own and (own[0].time < horizon.time or own[0].row < horizon.row):
        own.pop(0)
    return own


def _both(one: Stretch, other: Stretch) -> Stretch:
    both = [
        (a[0] + b[0], a[1] + b[1], max(a[2], b[2]), max(a[3], b[3]))
        for a, b in zip(one.shards, other.shards, strict=True)
    ]
    return Stretch(other.end, both)


def _rows(stretch: Stretch) -> int:
    return sum(count for count, *_ in stretch.shards)


def first_to_stay(stretches: list[Stretch], horizons: list[Horizon]) -> int:
    """Return the first stretch that may have a row at or after the horizon of its shard."""
    for i, stretch in enumerate(stretches):
        for (*_, newest, last), horizon in zip(stretch.shards, horizons, strict=True):
            if newest >= horizon.time and last >= horizon.row:
                return i
    return len(stretches)


def has_index(folder: Path) -> bool:
    """Return whether `folder` has an index, or what is left of one."""
    others = any(file.name != WITNESS for file in _files_of(folder))
    return others or any(number is not None for number in read_places(folder) or ())


def _files_of(folder: Path) -> Iterator[Path]:
    """Yield the files of an index; its secret is not among them."""
    for pattern in (WITNESS, "store/*"):
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
    """Return the database as it is now, and its state; None where there is no flush yet.

    The witness is read before and after, since a writer may be active.
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
        return is_there(path / "CURRENT")


def _load(path: Path, database: Database) -> StoreMeta | None:
    """Return the state that a database has, None of an empty one."""
    last = database.last()
    if last is None:
        return None
    key, value = last
    if key[-1:] != STATE_KEY:  # it ends so in all formats
        raise StoreMismatch(f"{path} holds something else than an index. Use another --index.")
    try:
        if (other := format_of(value)) not in READ_FORMATS:
            raise StoreMismatch(
                f"The index {path} has format {other}, ours is {FORMAT}. Use the version that "
                "wrote it, or give this one another folder: a worker builds the index from its "
                "log there, a replay from its files (docs/upgrade.md)."
            )
        return msgspec.msgpack.decode(value, type=StoreMeta)
    except msgspec.MsgspecError as error:
        raise damaged(path, f"its state does not fit: {error}") from error
