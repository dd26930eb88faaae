"""Rewrite an existing index with another number of shards.

The bands of a signature do not depend on the number of shards; only their owners do. So the keys of
a page are joined from all shards by its page ref and dealt out again, together with the information
under which of them the page is posted: a refused posting stays refused. Rows keep the numbers of
shard 0, which has every kept page in the order of insertion, and so does everything counted by
rows. Expired and retired rows are left out. The index must be at rest: no page may be on its way
between shards.

The new index is written next to the old one, synced, and swapped with it in one step. The old one
stays next to it. A crash leaves one or the other, and the same command starts again.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.index.codec import (
    Entry,
    PendingForget,
    ShardState,
    Undecided,
    pack_state,
    unpack_state,
)
from streamer.index.forgetting import REF, Forgetting
from streamer.index.messages import CONFIG, VERDICTS, Keys, destination_name, shard_name
from streamer.index.ports import (
    BEFORE_ALL,
    NO_HORIZON,
    FlushedRows,
    FlushedUrls,
    Horizon,
    KeptRows,
)
from streamer.index.settings import key_columns
from streamer.index.url_versions import split_key
from streamer.run.catalogue import entry_blocks, unpack_catalogue
from streamer.run.index_folder import (
    Identity,
    first_shard,
    own_key,
    read_meta,
    shard_folders,
    store_folder,
)
from streamer.run.site_store import stored_entries
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored.row_blocks import SLOTS_A_KEY_BLOCK, gather_rows, rows_at
from streamer.stored.store import Store, has_index
from streamer.stored.witness import NAME as WITNESS
from streamer.stored.witness import sync_folder
from streamer.upkeep.work_folder import WorkFolder

ROWS_AT_ONCE = 16_384  # about 10 MB, and a flush
_OF_AN_INDEX = {"store", "checkpoint", "checkpoint.tmp", WITNESS, "secret.key"}
_AT_WORKING_FOLDER, _EXCHANGE = -100, 2  # of renameat2(2)
_PURPOSE = "reshard to "  # so many shards

Places = npt.NDArray[np.int64]
Progress = Callable[[int], None]  # called with the number of rows that were written


class ShardPart(NamedTuple):
    """A shard of an index: the one at `place` in its store, and its state."""

    store: Store
    place: int
    state: ShardState


@dataclass(slots=True)
class Joined:
    """Kept pages with their keys at all shards.

    Attributes:
        numbers: int64, of their rows, ascending.
        rows: what is stored of them.
        keys: uint64[n, bands + 1]; posted: bool[n, bands + 1], under which of them.
        shingles: their sets; none where the index has none.
    """

    numbers: Places
    rows: KeptRows
    keys: Keys
    posted: npt.NDArray[np.bool_]
    shingles: list[bytes]


class Old:
    """An index that is to get another number of shards; it is locked until `close`."""

    def __init__(self, folder: Path) -> None:
        """Open it.

        Raises:
            StoreDamaged: something of it is missing, or cannot be read.
            StoreMismatch: it is not whole.
            StoreUnavailable: there is none, it is in use, or it has no flush yet.
        """
        self.folder = folder
        self.names = shard_folders(folder)
        read_meta(folder / self.names[0])[0].close()  # to create none where there is none
        with ExitStack() as stack:
            found: dict[int, ShardPart] = {}
            for name in self.names:
                store = Store.open(store_folder(folder / name))
                stack.callback(store.close)
                meta = store.meta
                if meta is None:
                    raise StoreUnavailable(f"The index {folder / name} is empty: reshard no such.")
                self.identity: Identity = meta.identity
                first = first_shard(name)
                for place, shard in enumerate(meta.shards):
                    found[first + place] = ShardPart(store, place, unpack_state(shard.state))
            self.shards, self.bands = int(self.identity["shards"]), int(self.identity["bands"])
            if sorted(found) != [*range(self.shards)]:
                raise StoreMismatch(
                    f"{folder} has the shards {sorted(found)} of an index of {self.shards}. Put "
                    "the folders of all of them together, as shard-0, shard-1 and so on."
                )
            self.parts = [found[number] for number in range(self.shards)]
            self.close = stack.pop_all().close

    @property
    def owners(self) -> list[bytes]:
        """Return the owners' own states, by stores."""
        metas = [store.meta for store in {id(p.store): p.store for p in self.parts}.values()]
        return [meta.owner for meta in metas if meta is not None]

    @property
    def rows(self) -> int:
        """Return how many rows shard 0 has."""
        store, place, _ = self.parts[0]
        return store.meta.shards[place].rows if store.meta else 0

    @cached_property
    def forgetting(self) -> Forgetting:
        """Return what shard 0 is to forget: as all do at rest."""
        return Forgetting(self.parts[0].state.forgotten)

    @property
    def horizon(self) -> Horizon:
        """Return what answers no page any more."""
        store, place, _ = self.parts[0]
        return store.meta.shards[place].horizon if store.meta else NO_HORIZON

    def check_at_rest(self) -> None:
        """Raise StoreMismatch unless no page is on its way between the shards."""
        for number, part in enumerate(self.parts):
            state = part.state
            waiting = len(state.undecided.refs) + sum(len(pages) for _, pages in state.held)
            if waiting:
                raise _not_at_rest(f"{waiting} pages have no verdict yet at shard {number}")
            # A page that was held when it was named is named at shard 0 as well, and left out.
            named = [kind for kind, *_ in state.forgotten.terms if kind != REF]
            if named or state.forgotten.doomed or state.forgotten.gone:
                raise _not_at_rest(f"shard {number} has pages to forget")
            for to, other in enumerate(self.parts):
                sent = state.sent.get(destination_name(to), 0)
                taken = other.state.positions.get(shard_name(number), 0)
                if to != number and sent != taken:
                    raise _not_at_rest(f"shard {to} has taken {taken} of {sent} of shard {number}")
            if state.renewed:
                raise StoreMismatch(
                    "An index whose pages were renewed (--renew-on-match) cannot be given other "
                    "shards: such a page has several rows, not the same ones in each shard. Build "
                    "a new index."
                )
            own = {**(state.settings or {}), "shards": 0}
            if own != {**(self.parts[0].state.settings or {}), "shards": 0}:
                raise _not_at_rest(f"shard {number} has not been told of all settings")

    def joined(self) -> Iterator[Joined]:
        """Yield all kept pages that have not expired, some thousand at a time."""
        store, place, _ = self.parts[0]
        others = [_RowsOfShard(part) for part in self.parts[1:]]
        for own in store.keys(place, ROWS_AT_ONCE):
            rows = gather_rows(rows_at(own.slots, store.row_blocks))
            rows = self.forgetting.hide(rows, own.rows)  # of URLs that were replaced
            answers = self.horizon.has(rows.times, own.rows) & (rows.times > BEFORE_ALL)
            left = np.flatnonzero(answers)
            left = left[np.argsort(own.rows[left])]
            rows = rows.take(left)
            count = len(left)
            keys = np.zeros((count, self.bands + 1), np.uint64)
            posted = np.zeros((count, self.bands + 1), np.bool_)
            self._deal_in(0, [own.keys[left], own.masks[left]], np.arange(count), keys, posted)
            for number, other in enumerate(others, 1):
                if found := other.keys_of(np.array(rows.refs, np.uint64)):
                    at, *theirs = found
                    self._deal_in(number, theirs, at, keys, posted)
            sets = store.shingles(own.slots[left].tolist()) if store.has_shingles else []
            yield Joined(own.rows[left], rows, keys, posted, sets)

    def versions(self) -> Iterator[FlushedUrls]:
        """Yield the versions of URLs that shard 0 has, some thousand of a generation at a time."""
        store, place, _ = self.parts[0]
        generations = store.meta.shards[place].generations if store.meta else []
        live = {each.number: Horizon(each.time, each.row) for each in generations}
        by_generation = itertools.groupby(store.scan_urls(), lambda entry: split_key(entry[0])[0])
        for number, found in by_generation:
            while number in live and (part := list(itertools.islice(found, ROWS_AT_ONCE))):
                versions = {split_key(key)[1]: version for key, version in part}
                yield FlushedUrls(number, live[number], versions)

    def _deal_in(
        self,
        number: int,
        found: list[Keys],
        at: Places,
        keys: Keys,
        posted: npt.NDArray[np.bool_],
    ) -> None:
        """Enter the keys and masks that a shard has of the pages `at`."""
        columns = np.array(key_columns(number, self.shards, self.bands))
        own, masks = found
        keys[at[:, None], columns] = own
        bits = np.arange(len(columns), dtype=np.uint64)
        posted[at[:, None], columns] = masks[:, None] >> bits & np.uint64(1) > 0

    def state(self, number: int, shards: int) -> bytes:
        """Return the state of a new shard: one that has judged what all of these have.

        What shards have told each other counts anew, and so do settings. No page to come is older
        than those that shard 0 has seen.
        """
        first = self.parts[0].state
        before = self.parts[number].state if number < self.shards else None
        sent = before.sent.get(destination_name(VERDICTS), 0) if before else 0
        positions = {
            source: position
            for source, position in first.positions.items()
            if number == 0 and source != CONFIG and not source.startswith(shard_name(0)[:-1])
        }
        refused = sum(part.state.refused for part in self.parts) if number == 0 else 0
        settings = first.settings and {**first.settings, "shards": shards}
        nothing = Undecided(b"", [], b"", b"", b"", [], b"")
        return pack_state(
            ShardState(
                settings, positions, {destination_name(VERDICTS): sent} if sent else {}, 0,
                first.next_row, refused, nothing, [], first.watermark, first.horizon,
                first.generation, PendingForget(records=first.forgotten.records),
            )
        )  # fmt: skip


def _not_at_rest(what: str) -> StoreMismatch:
    return StoreMismatch(
        f"The index is not at rest: {what}. Start its owners (`streamer worker --role index`) "
        "without signers until they have read their logs, stop them in order, and try again."
    )


class _RowsOfShard:
    """The keys of another shard's rows, found by their pages' refs: 16 bytes of memory a row."""

    def __init__(self, part: ShardPart) -> None:
        self._part = part
        store, place, _ = part
        refs, slots = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for keys in store.keys(place, ROWS_AT_ONCE):
            rows = gather_rows(rows_at(keys.slots, store.row_blocks))
            refs.append(np.array(rows.refs, np.uint64))
            slots.append(keys.slots)
        joined = np.concatenate(refs)
        order = np.argsort(joined, kind="stable")
        self._refs, self._slots = joined[order], np.concatenate(slots)[order]

    def keys_of(self, refs: npt.NDArray[np.uint64]) -> tuple[Places, Keys, Keys] | None:
        """Return which pages the shard has, by their places among `refs`; their keys and masks.

        It lacks pages that are too short to compare. None: it has none of them.
        """
        if not len(self._refs):
            return None
        at = np.searchsorted(self._refs, refs)
        there = np.flatnonzero(self._refs.take(at, mode="clip") == refs)
        slots = self._slots[at[there]]
        store, place, _ = self._part
        blocks = np.unique(slots // SLOTS_A_KEY_BLOCK).tolist()
        found = [store.read_keys(place, range(block, block + 1)) for block in blocks]
        read = [each for each in found if each is not None]
        if not read:
            return None
        rows = np.searchsorted(np.concatenate([each.slots for each in read]), slots)
        keys = np.concatenate([each.keys for each in read])[rows]
        return there, keys, np.concatenate([each.masks for each in read])[rows]


# ---- the new index ------------------------------------------------------------------------------


def write(old: Old, shards: int, folder: Path, owners: Sequence[bytes], progress: Progress) -> None:
    """Write the index with so many shards to `folder`, which must not be there, and sync it.

    With one of `owners` all shards lie in one store, else each in one of its own, as shard-0 and so
    on; they are the stores' states of their owners.

    Raises:
        StoreDamaged: something of the old index cannot be read.
        StoreUnavailable: the disk refuses. Nothing of it is left then.
    """
    try:
        _write(old, shards, folder, owners, progress)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(
    old: Old, shards: int, folder: Path, owners: Sequence[bytes], progress: Progress
) -> None:
    together = len(old.names) == 1 and old.names[0] == ""
    names = [""] if together else [f"shard-{number}" for number in range(shards)]
    identity = old.identity | {"shards": shards}
    columns = [key_columns(number, shards, old.bands) for number in range(shards)]
    states = [old.state(number, shards) for number in range(shards)]
    with ExitStack() as stack:
        stores = []
        for name in names:
            stores.append(Store.open(store_folder(folder / name)))
            stack.callback(stores[-1].close)

        def put(
            part: Joined, versions: FlushedUrls | None = None, notes: Sequence[Entry] = ()
        ) -> None:
            dealt = [
                _dealt(part, own, number, state, old.horizon)
                for number, (own, state) in enumerate(zip(columns, states, strict=True))
            ]
            dealt[0].versions = versions
            each = [dealt] if together else [[one] for one in dealt]
            for store, flushed, owner in zip(stores, each, owners, strict=True):
                store.flush(identity, flushed, owner, notes)

        first = old.parts[0].store
        notes = [*_source_blocks(first), *stored_entries(first)] if together else []
        put(_nothing(old.bands), notes=notes)  # makes the index, though there be no rows
        done = 0
        for part in old.joined():
            put(part)
            done += len(part.numbers)
            progress(done)
        for versions in old.versions():
            put(_nothing(old.bands), versions)
    key = own_key(old.folder)
    if key.exists():
        shutil.copy(key, own_key(folder))
    for name in names:
        _sync(store_folder(folder / name))
        _sync(folder / name)
    _sync(folder)


def _source_blocks(store: Store) -> list[Entry]:
    """Return the entries of a catalogue that a store has in addition to the state."""
    assert store.meta is not None, "it is read of a flush"
    return entry_blocks(store, unpack_catalogue(store.meta.owner).apart)


def _nothing(bands: int) -> Joined:
    rows = KeptRows(np.empty((0, SKETCH_WORDS), np.uint64), [], [], np.empty(0, np.int64))
    keys = np.empty((0, bands + 1), np.uint64)
    return Joined(np.empty(0, np.int64), rows, keys, keys > 0, [])


def _dealt(
    part: Joined, columns: list[int], number: int, state: bytes, horizon: Horizon
) -> FlushedRows:
    """Return what a new shard has of some pages: all at the first, elsewhere those posted there."""
    posted = part.posted[:, columns]
    bits = np.arange(len(columns), dtype=np.uint64)
    masks = (posted.astype(np.uint64) << bits).sum(axis=1, dtype=np.uint64)
    there = np.flatnonzero((masks > 0) | (number == 0))
    rows = part.rows.take(there)
    return FlushedRows(
        part.numbers[there], np.array(rows.refs, np.uint64), np.ascontiguousarray(rows.sketches),
        np.ascontiguousarray(part.keys[there][:, columns]), masks[there], rows.urls, rows.times,
        state, horizon, [part.shingles[i] for i in there.tolist()] if part.shingles else [],
    )  # fmt: skip


def _sync(folder: Path) -> None:
    try:
        sync_folder(folder)
    except OSError as error:
        raise StoreUnavailable(f"Cannot write the index {folder}: {error.strerror}.") from error


# ---- in its place -------------------------------------------------------------------------------


class Destination:
    """Where the new index of `folder` goes: to `out`, or in its place.

    While it is written it is at `new`; in the end the old one is at `before`.
    """

    def __init__(self, folder: Path, out: Path | None = None) -> None:
        self.folder, self.out = folder, out
        target = (out or folder).absolute()
        self._work = WorkFolder(target.with_name(f"{target.name}.resharding"))

    @property
    def new(self) -> Path:
        """Return where the new index is written."""
        return self._work.index

    @property
    def before(self) -> Path:
        """Return where the old index is put."""
        return self.folder.absolute().with_name(f"{self.folder.absolute().name}.before")

    def begin(self, shards: int) -> None:
        """Remove what a killed run has left; check that there is room for what comes.

        Raises:
            SettingsError: something is in the place of the new or the old index.
            StoreUnavailable: something else is where the new index is written, or the disk refuses.
        """
        if self.out is not None:
            if self.out.exists():
                raise SettingsError(f"{self.out} is there already. Name another folder as --out.")
        elif self.before.exists():
            raise SettingsError(
                f"{self.before} is there, where the index as it is now would be kept. Move it "
                "elsewhere, or name a folder as --out."
            )
        elif others := sorted(_others_in(self.folder)):
            raise SettingsError(
                f"{self.folder} holds more than an index: {', '.join(others)}. Move that elsewhere,"
                " or name another folder as --out."
            )
        try:
            self._work.begin(f"{_PURPOSE}{shards}")
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot write {self._work.path}: {error.strerror}. Nothing has changed; name "
                "another folder as --out."
            ) from error

    def finish_killed(self, shards: int) -> bool:
        """Return whether the index has so many shards.

        If a run was killed when the indexes were exchanged, put the old one to `before`.

        Raises:
            StreamerError: the index cannot be read.
        """
        part = shard_folders(self.folder)[0]
        store, meta = read_meta(self.folder / part)
        store.close()
        now = int(meta.identity["shards"])
        is_exchanged = self.out is None and self._work.purpose() == f"{_PURPOSE}{now}"
        if is_exchanged and not self.before.exists() and self.new.exists():
            self.new.rename(self.before)
        if is_exchanged and not self.new.exists():
            self._work.remove_left()
        return now == shards

    def take(self) -> None:
        """Put the new index, which is whole, where it belongs; in one step.

        Raises:
            StoreUnavailable: the file system refuses.
        """
        try:
            if self.out is not None:
                self.new.rename(self.out)
                sync_folder(self.out.absolute().parent)
                return
            _exchange(self.new, self.folder)
            sync_folder(self.folder.absolute().parent)
            self.new.rename(self.before)
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot put {self.new} in the place of {self.out or self.folder}: "
                f"{error.strerror}. Nothing has changed; name another folder as --out."
            ) from error

    def end(self) -> None:
        """Remove the folder in which the new index was written, if it is not there any more."""
        self._work.end()


def _others_in(folder: Path) -> set[str]:
    """Return the names of what is in an index's folder and not of the index."""
    there = {path.name for path in folder.iterdir()} - _OF_AN_INDEX
    return {name for name in there if not has_index(folder / name)}


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step, which Python has no function for."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other.absolute())
    here = _AT_WORKING_FOLDER
    if libc.renameat2(here, paths[0], here, paths[1], _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
