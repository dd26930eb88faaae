"""A process that folds a shard: the real class, a real store, and what is not published yet."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamer.index.codec import pack_pages
from streamer.index.memtable import FLUSHED, FREE, KEPT, RETIRED, UNDECIDED
from streamer.index.messages import Keys
from streamer.index.ports import BEFORE_ALL, FoundUrls, Hits, Horizon, KeptRows, no_hits
from streamer.index.shard import Shard
from streamer.index.url_versions import is_hidden, rows_before, time_of, url_keys
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored.forget import sweep
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from tests.helpers.stored_rows import stored_postings
from tests.simulation.pages import BANDS, split

FOREVER = 10**9


class NothingFlushed:
    """The look-ups of a shard that never flushes: the fold that everything is held against."""

    flushes = 0

    def find(self, keys: Keys, flushes: int) -> Hits:
        """Find nothing."""
        del keys
        return no_hits(flushes)

    def rows(self, rows: Any) -> KeptRows:
        """Return no rows; no others are asked for."""
        assert not len(rows)
        return KeptRows(np.empty((0, SKETCH_WORDS), np.uint64), [], [], np.empty(0, np.int64))

    def shingles(self, rows: Any) -> list[bytes]:
        """Return no sets, as above."""
        assert not len(rows)
        return []

    def keys(self, row: int) -> tuple[Keys, int]:
        """Return the keys of no row, as above."""
        raise AssertionError(row)

    def urls(self, urls: list[bytes], flushes: int) -> FoundUrls:
        """Find no version."""
        del flushes
        return FoundUrls(urls, url_keys(urls, b""), [None] * len(urls), 0)


class Owner:
    """Folds shard `number`; `life` counts down for a zombie, `doomed` after a failed publish."""

    def __init__(
        self, machine: type[Shard], number: int, shards: int, disk: Path, skip: int
    ) -> None:
        self.number = number
        self.disk = disk
        self.store = Store.open(disk / "store")
        self.lookup = StoredLookup(self.store, 0)
        meta = self.store.meta
        state = meta.shards[0].state if meta else b""
        self.shard = machine(number, shards, BANDS, self.lookup, state=state, memtable_capacity=4)
        self.queues: dict[int, list[tuple[int, Any, int]]] = defaultdict(list)
        self.skip = skip  # committed: records below are applied, their outputs are out already
        self.life = self.doomed = FOREVER

    @property
    def live(self) -> bool:
        return self.life == FOREVER and self.doomed == FOREVER

    @property
    def busy(self) -> bool:
        return any(self.queues.values())

    def published(self) -> int:
        """Return the log position below which everything is published."""
        waiting = [queue[0][2] for queue in self.queues.values() if queue]
        return min(waiting, default=self.shard.applied)

    def take(self, record: Any) -> None:
        """Apply a record; queue what it makes the shard emit, unless that is out already."""
        position = self.shard.applied
        for output in self.shard.apply(record):
            if position >= self.skip:
                numbered = enumerate(split(output.items), output.start)
                self.queues[output.destination] += [(n, item, position) for n, item in numbered]

    def flush(self, *, sweeps: bool = False, killed_after: int = FOREVER) -> None:
        """Move what is kept to the store; sweep what is forgotten, if it is said so.

        Raises:
            Killed: the sweep has written so many times.
        """
        identity: dict[str, str | int | float] = {"shards": self.shard.shards, "bands": BANDS}
        [brought] = self.store.flush(identity, [self.shard.begin_flush()], b"")
        found: list[Counter[str]] = []
        if sweeps:
            self.shard.forgetting.begin_sweep()
            self.store.replace = partial(_replace, self.store.replace, [killed_after])  # type: ignore[method-assign]
            found = sweep(self.store, again=False)
            del self.store.replace
        self.shard.flushed()
        self.lookup.refresh(brought, swept=sweeps)
        for each in found:
            self.shard.forgetting.end_sweep(each)
        self.store.delete_dropped()

    def canon(self) -> Any:
        return canon(self.shard, self.store)


class Killed(Exception):  # noqa: N818 - it is no error
    """The process ends here."""


def _replace(real: Callable[..., None], left: list[int], *entries: Any) -> None:
    if not left[0]:
        raise Killed
    left[0] -= 1
    real(*entries)


def copy_disk(source: Path, target: Path) -> Path:
    """Copy an index as it lies on disk at one moment; the sorted files never change and are linked.

    RocksDB merges its files in threads of its own. A copy made meanwhile is of no moment: again.
    """

    def link(a: str, b: str) -> None:
        os.link(a, b) if a.endswith(".sst") else shutil.copyfile(a, b)

    while True:
        with suppress(shutil.Error, FileNotFoundError):
            before = _sizes(source)
            shutil.copytree(source, target, copy_function=link)
            if _sizes(source) == before:
                return target
        shutil.rmtree(target, ignore_errors=True)


def _sizes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*")}


def canon(shard: Shard, store: Store | None) -> Any:
    """Return a shard's state in a form that does not tell memtable and store apart.

    What lies behind the horizon is left out, and what is forgotten: whether it was dropped, or
    swept yet, must not show.
    """
    memtable = shard.memtable
    rows: dict[int, tuple[int, int, bytes, bool]] = {}
    buckets: dict[int, list[int]] = defaultdict(list)
    if store is not None:
        for key, row in stored_postings(store, 0):
            buckets[key].append(row)
        for part in store.keys(0, 1024):
            stored = shard.lookup.rows(part.rows)
            stored = shard.forgetting.hide(stored, part.rows)
            numbers = part.rows.tolist()
            columns = numbers, stored.times.tolist(), stored.refs, stored.sketches
            for row, time, ref, sketch in zip(*columns, strict=True):
                if time > BEFORE_ALL:
                    rows[row] = (time, ref, sketch.tobytes(), True)
    for entry in range(memtable.count):
        state = int(memtable.states[entry])
        if state in {FREE, KEPT | RETIRED, FLUSHED | RETIRED}:  # it may be in the store as well
            continue
        row = int(memtable.rows[entry])
        rows[row] = (
            int(memtable.times[entry]),
            int(memtable.refs[entry]),
            memtable.sketches[entry].tobytes(),
            state == KEPT,
        )
        for bit in range(memtable.own_keys):
            if int(memtable.masks[entry]) >> bit & 1:
                buckets[int(memtable.keys[entry, bit])].append(row)
    horizon = shard.horizon
    rows = {row: r for row, r in rows.items() if r[0] >= horizon.time and row >= horizon.row}
    buckets = {key: [row for row in found if row in rows] for key, found in buckets.items()}
    held = {
        row: [(pack_pages(p).columns, p.nearest, p.containers) for p in pages]
        for row, pages in shard._held.items()  # noqa: SLF001 - as above
    }
    return (
        rows,
        {key: sorted(found) for key, found in buckets.items() if found},
        held,
        shard.positions,
        shard.sent,
        shard.next_row,
        shard.renewed,
        horizon,
        shard.applied,
        shard.settings,
        _versions(shard, store, horizon),
        shard.forgetting.doomed,
        shard.forgetting.gone,
        shard.forgetting.replacements,
        shard.forgetting.oldest,
        [(each.number, each.refs) for each in shard.forgetting._replaced],  # noqa: SLF001 - as above
        {
            int(memtable.rows[i]): int(memtable.retired[i])
            for i in np.flatnonzero(memtable.states[: memtable.count] == UNDECIDED | RETIRED)
        },
    )


def _versions(shard: Shard, store: Store | None, horizon: Horizon) -> dict[bytes, bytes]:
    """Return the versions of URLs that may still be compared with."""
    versions = {key[-8:]: v for key, v in store.scan_urls()} if store is not None else {}
    for own in (shard._urls._flushing, shard._urls._recent):  # noqa: SLF001 - as above
        versions |= {key.to_bytes(8, "big"): version for key, version in own.items()}
    return {
        key: version
        for key, version in versions.items()
        if time_of(version) >= horizon.time
        and rows_before(version) >= horizon.row
        and not is_hidden(shard.forgetting, version)
    }
