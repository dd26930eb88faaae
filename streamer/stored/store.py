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

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from streamer import errors
from streamer.index import codec
from streamer.index.codec import BANDS, FORMAT, KEYS, ROWS, SHINGLES, URLS, Entry, StoreMeta
from streamer.index.ports import BEFORE_ALL, FlushedRows, FlushedUrls, Horizon
from streamer.index.postings import NO_POSTINGS, Postings, sort_postings
from streamer.index.url_versions import url_entries, url_key
from streamer.stored import opening, row_blocks
from streamer.stored.database import Database
from streamer.stored.database_files import list_files, remove_copy
from streamer.stored.row_blocks import ROWS_A_BLOCK, SLOTS_A_KEY_BLOCK, RowKeys
from streamer.stored.witness import NAME as WITNESS
from streamer.stored.witness import Witness, make_folder, read_witness

_STRETCHES = 16  # rows are dropped in about so many steps: such a share may outlive its time
_ATTEMPTS = 20  # of a reader to find a consistent set of files while a writer merges them
_ATTEMPT_SECONDS = 0.05


class FlushedBlocks(NamedTuple):
    """What a flush has added: its postings, its rows in order, and their slots."""

    postings: Postings
    rows: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]


class Store:
    """An open index directory. One writer at a time; readers may open it meanwhile.

    Where something of it is damaged or missing, every function raises StoreDamaged; where the disk
    refuses, StoreUnavailable: then the index is what it was.

    Attributes:
        meta: the state of the newest flush; None in a store that has none yet.
        flushes: how many flushes there were since it was opened.
        was_written: whether there is a flush, or one was begun.
        needed: the files of the index that are not the store's own.
        failed: is called, in any thread, with "freeze", "merge" or "sweep" when one has failed.
    """

    def __init__(
        self, path: Path, database: Database | None, meta: StoreMeta | None, witness: Witness | None
    ) -> None:
        self.path = path
        self.flushes = 0
        self.failed: Callable[[str], None] = lambda _what: None
        self._database = database
        self.meta = meta
        self.was_written = meta is not None
        self._witness = witness
        self._is_writing = False
        self.needed: Sequence[Path] = ()  # without which nobody could use what is written
        self._freed = 0  # slots whose space was given back
        self._freed_urls = 0  # generations of versions of URLs
        self._noting = threading.Lock()

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> Self:
        """Open or (writable) create the store in the folder `path`.

        Raises:
            StoreDamaged: something of it is missing, or cannot be read.
            StoreMismatch: its format is not ours.
            StoreUnavailable: another process writes it, it is missing (reading), or the disk
                refuses.
        """
        if writable:
            return cls._open_to_write(path)
        if not opening.has_index(path.parent):
            why = f"There is no index in {path.parent}. Name the folder given as --index."
            raise errors.StoreUnavailable(why)
        for _ in range(_ATTEMPTS):
            seen = list_files(path)
            try:
                return cls(path, *opening.open_newest(path), None)
            except errors.StoreDamaged:
                if list_files(path) == seen:
                    raise  # and not a writer that has changed the files meanwhile
            time.sleep(_ATTEMPT_SECONDS)
        return cls(path, *opening.open_newest(path), None)

    @classmethod
    def _open_to_write(cls, path: Path) -> Self:
        Database.check_process()
        folder = path.parent
        is_new = not opening.has_index(folder)
        if not is_new and read_witness(folder) is None:
            raise opening.describe_unwitnessed(path)
        with errors.explain_failures(folder):
            make_folder(folder)
        witness = Witness(folder)
        with errors.on_failure(witness.close):
            if is_new:
                witness.begin()
            return cls(path, *opening.open_newest(path), witness)

    @property
    def known(self) -> StoreMeta:
        """Return the state of the newest flush; where there is none, that of an empty store."""
        return self.meta or StoreMeta(FORMAT, {})

    def flush(
        self, identity: dict[str, str | int | float], rows: FlushedRows, owner: bytes,
        notes: Sequence[Entry] = (),
    ) -> FlushedBlocks:  # fmt: skip
        """Add what the shard flushes, and all state, in one atomic step; return what is new.

        `notes` are stored in addition to the state, in the same step.
        """
        before = self.meta or StoreMeta(FORMAT, identity)
        slot, count = before.next_slot, len(rows.rows)
        postings = sort_postings(rows.keys, rows.masks, rows.rows) if count else NO_POSTINGS
        posted = len(postings.words)
        end = slot + -(-count // SLOTS_A_KEY_BLOCK) * SLOTS_A_KEY_BLOCK
        newest = int(rows.times.max(initial=BEFORE_ALL)), int(rows.rows.max(initial=-1))
        stretches = join_stretches(before.stretches, codec.Stretch(end, count, posted, *newest))
        dropped = first_to_stay(stretches, rows.horizon)
        after = StoreMeta(
            format=FORMAT,
            identity=identity,
            seq=before.seq + 1,
            next_slot=end,
            rows=before.rows + count - sum(each.rows for each in stretches[:dropped]),
            postings=before.postings + posted - sum(each.postings for each in stretches[:dropped]),
            state=rows.state,
            horizon=rows.horizon,
            owner=owner,
            first_slot=stretches[dropped - 1].end if dropped else before.first_slot,
            stretches=stretches[dropped:],
            generations=live_generations(before.generations, rows.versions, rows.horizon),
            forgotten=before.forgotten,
        )
        # Whoever finds keys finds their rows, if only a manifest's end is lost: rows come first.
        kinds = row_blocks.shingle_entries, row_blocks.row_entries, row_blocks.key_entries
        entries = [list(entries_of(rows, slot)) for entries_of in kinds]
        urls_of = url_entries(rows.versions) if rows.versions else []
        state = codec.STATE_KEY, msgspec.msgpack.encode(after)
        self._checked().write(entries, state, notes=notes, replaced=urls_of)
        self._witness_state(after)
        self.flushes += 1
        return FlushedBlocks(postings, rows.rows, slot + np.arange(count))

    def replace(self, entries: Sequence[Sequence[Entry]], **changed: object) -> None:
        """Write entries over those that are there, and what of the state `changed`, in one step.

        Each list has the entries of one family. A look-up at the same time finds a row as it was,
        or empty.
        """
        assert self.meta is not None, "a store without a flush has no entries"
        after = msgspec.structs.replace(self.meta, seq=self.meta.seq + 1, **changed)
        state = codec.STATE_KEY, msgspec.msgpack.encode(after)
        self._checked().write(entries, state, in_place=True)
        self._witness_state(after)

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

    def _witness_state(self, after: StoreMeta) -> None:
        """Take the state that was written."""
        self.meta = after
        assert self._witness is not None, self.path
        self._witness.write(after.seq)

    def _checked(self) -> Database:
        """Return the database to write; raise StoreUnavailable if the folder is another one now."""
        assert self._witness is not None, self.path
        gone = [path for path in self.needed if not errors.is_there(path)]
        if gone or not self._witness.is_current():
            what = gone[0] if gone else f"The index {self.path.parent}"
            raise errors.StoreUnavailable(
                f"{what} was removed or replaced while the index was open, so nothing is written. "
                "Begin a new index."
            )
        return self._to_write()

    def delete_dropped(self) -> None:
        """Free the space of what was dropped; no thread may read it any more."""
        first_slot, generations = self.known.first_slot, self.known.generations
        if first_slot > self._freed:
            blocks = {ROWS: ROWS_A_BLOCK, KEYS: SLOTS_A_KEY_BLOCK}
            if self.has_shingles:
                blocks[SHINGLES] = 1
            for family, slots in blocks.items():
                self._to_write().delete(family, [(self._freed // slots, first_slot // slots)])
            self._freed = first_slot
        first = generations[0].number if generations else 0
        if first > self._freed_urls:
            self._to_write().delete(URLS, [(self._freed_urls, first)])
            self._freed_urls = first

    def _to_write(self) -> Database:
        """Return the database, opened for writing by the first flush."""
        assert self._witness is not None, f"{self.path} is open for reading"
        if not self._is_writing or self._database is None:
            self.was_written = True
            self._drop_checkpoint()
            # Readers may still use the read-only handle, so it is not closed here.
            self._database = Database.write_to(self.path, lambda: self.failed("merge"))
            self._is_writing = True
            # A kill may have come between database and witness.
            self._witness.write(self.known.seq)
        return self._database

    def checkpoint(self) -> Path:
        """Return a folder with the database of the newest flush, out of links; not during a flush.

        Whoever asks for it removes it. There is one at a time.
        """
        database = self._to_write()
        folder = self._drop_checkpoint()
        if os.path.lexists(folder):
            raise errors.StoreUnavailable(
                f"{folder} is in the way: it is not the copy of an index that was killed. Move it "
                "elsewhere."
            )
        with self._noting:  # or the copy could lack a note that was reported
            database.checkpoint(folder)
        return folder

    def _drop_checkpoint(self) -> Path:
        """Remove the checkpoint that there is, of a process that was killed; return its folder."""
        folder = self.path.with_name("checkpoint")
        for each in (folder, folder.with_suffix(".tmp")):  # which RocksDB makes first
            remove_copy(each)
        return folder

    def keys(
        self, rows_at_once: int, first_slot: int = 0, rows_before: int = 0, *, whole: bool = True
    ) -> Iterator[RowKeys]:
        """Yield the keys of all rows, by their slots, so many slots at a time.

        Slots before the first one, which begins a block, are skipped; `rows_before` is how many
        rows they have.
        `whole` is as for `read_keys`.
        """
        meta, count = self.meta, rows_before
        blocks, at_once = self.key_blocks, max(1, rows_at_once // SLOTS_A_KEY_BLOCK)
        begin = max(blocks.start, first_slot // SLOTS_A_KEY_BLOCK)
        for first in range(begin, blocks.stop, at_once):
            part = range(first, min(first + at_once, blocks.stop))
            if found := self.read_keys(part, whole=whole):
                count += len(found.rows)
                yield found
        if meta is not None:
            most = meta.rows + (meta.forgotten if first_slot else 0)  # which what is frozen has
            if not meta.rows <= count <= most:
                raise errors.damage_error(self.path, f"it has {count} of {meta.rows} rows")

    @property
    def key_blocks(self) -> range:
        """Return the numbers of the blocks of keys."""
        known = self.known
        return range(known.first_slot // SLOTS_A_KEY_BLOCK, known.next_slot // SLOTS_A_KEY_BLOCK)

    def read_keys(self, blocks: range, *, whole: bool = True) -> RowKeys | None:
        """Return what some blocks of keys have.

        Without `whole`, only the upper 40 bits of each key are there. So it is in any case for keys
        that a row is not posted under.
        """
        try:
            rows_end = 1 + max((each.last_row for each in self.known.stretches), default=-1)
            found = row_blocks.unpack_keys(blocks.start, self._values(KEYS, blocks), rows_end)
        except ValueError as error:
            raise errors.damage_error(self.path, f"block {error} of its keys") from error
        if found is None or not whole:
            return found
        rows = row_blocks.rows_at(found.slots, self.row_blocks)
        return found.whole(row_blocks.gather_halves(rows, found.keys.shape[1]))

    def row_blocks(self, blocks: Sequence[int]) -> list[bytes]:
        """Return blocks of rows."""
        return self._values(ROWS, blocks)

    @property
    def has_shingles(self) -> bool:
        """Return whether each row has a set of shingles."""
        return "exact" in self.known.identity

    def shingles(self, slots: Sequence[int]) -> list[bytes]:
        """Return the sets of the rows in slots."""
        return self._values(SHINGLES, slots) if slots else []

    def url_versions(self, keys: Sequence[int]) -> list[bytes | None]:
        """Return the newest version under each key of a URL, None where there is none."""
        found: list[bytes | None] = [None] * len(keys)
        for generation in reversed(self.known.generations):
            places = [i for i, version in enumerate(found) if version is None]
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

    def write_bands(self, files: Iterable[Iterable[Entry]]) -> None:
        """Write files of blocks of frozen keys, and sync them; a flush may run meanwhile."""
        self._to_write().ingest(BANDS, files)

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
        for file in opening.index_files(self.path.parent):
            with suppress(FileNotFoundError):  # merged meanwhile
                total += file.stat().st_size
        return total

    def close(self, remove: Iterable[Path] = ()) -> None:
        """Release the store, remove these files of its index, and release its lock.

        The file that is locked is the last to go: another process may take the index from then on.
        """
        if self._database is not None:
            self._database.close()
        is_own = self._witness is not None and self._witness.is_current()
        for path in sorted(remove, key=lambda each: each.name == WITNESS) if is_own else ():
            path.unlink(missing_ok=True)
        if self._witness is not None:
            self._witness.close()


def join_stretches(before: list[codec.Stretch], new: codec.Stretch) -> list[codec.Stretch]:
    """Return all stretches with that of a flush; neighbours that have few of all rows become one.

    Any two neighbours that are left have a _STRETCHES-th of all rows, so about twice as many remain
    at most.
    """
    stretches = [*before, new]
    few = sum(each.rows for each in stretches) // _STRETCHES
    joined: list[codec.Stretch] = []
    for each in stretches:
        if joined and joined[-1].rows + each.rows <= few:
            joined[-1] = _both(joined[-1], each)
        else:
            joined.append(each)
    return joined


def live_generations(
    before: Sequence[codec.UrlGeneration], new: FlushedUrls | None, horizon: Horizon
) -> list[codec.UrlGeneration]:
    """Return the generations with what a flush brings, without those that have expired."""
    own = [*before]
    if new is not None:
        if own and own[-1].number == new.generation:
            own.pop()
        own.append(codec.UrlGeneration(new.generation, *new.newest))
    while own and (own[0].time < horizon.time or own[0].row < horizon.row):
        own.pop(0)
    return own


def _both(one: codec.Stretch, other: codec.Stretch) -> codec.Stretch:
    rows, postings = one.rows + other.rows, one.postings + other.postings
    newest, last_row = max(one.newest, other.newest), max(one.last_row, other.last_row)
    return codec.Stretch(other.end, rows, postings, newest, last_row)


def first_to_stay(stretches: list[codec.Stretch], horizon: Horizon) -> int:
    """Return the first stretch that may have a row at or after the horizon."""
    for i, stretch in enumerate(stretches):
        if stretch.newest >= horizon.time and stretch.last_row >= horizon.row:
            return i
    return len(stretches)
