"""A process that folds the log: the real shard, a real store, and what is not published yet."""

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamer.index.codec import unpack_state
from streamer.index.memtable import FREE
from streamer.index.messages import Keys, Output, Record
from streamer.index.ports import BEFORE_ALL, FoundUrls, Hits, Horizon, KeptRows, no_hits
from streamer.index.shard import Shard
from streamer.index.url_versions import is_hidden, time_of, url_keys
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored.forget import sweep
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from tests.helpers.stored_rows import stored_postings
from tests.simulation.pages import BANDS, NOT_TRACKED

FOREVER = 10**9


class NothingFlushed:
    """The look-ups of a shard that never flushes: the fold that everything is held against."""

    flushes = 0
    first_row: int | None = None

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

    def urls(self, urls: list[bytes], flushes: int) -> FoundUrls:
        """Find no version."""
        del flushes
        return FoundUrls(urls, url_keys(urls, b""), [None] * len(urls), 0)


class Reported(NamedTuple):
    """A verdict as plain values; `near` has the similarity and ref of what is nearest to a page."""

    ref: int
    similarity: int
    basis: int
    representative: int
    near: tuple[int, ...] = ()
    change: int = NOT_TRACKED


def reported(output: Output) -> list[tuple[int, Reported]]:
    """Return verdicts as plain values, each with its number."""
    block, count = output.verdicts, len(output.verdicts)
    columns = zip(
        block.pages.refs.tolist(),
        block.similarities.tolist(),
        block.basis.tolist(),
        block.representative_refs.tolist(),
        ((near.similarity, near.ref) if near else () for near in block.nearest or [None] * count),
        [NOT_TRACKED] * count if block.changes is None else block.changes.tolist(),
        strict=True,
    )
    return [(number, Reported(*each)) for number, each in enumerate(columns, output.start)]


class Owner:
    """Folds the log; `life` counts down for a zombie, `doomed` after a failed publish."""

    def __init__(self, machine: type[Shard], disk: Path, skip: int) -> None:
        self.disk = disk
        self.store = Store.open(disk / "store")
        self.lookup = StoredLookup(self.store)
        meta = self.store.meta
        state = meta.state if meta else b""
        self.shard = machine(BANDS, self.lookup, state=state, memtable_capacity=4)
        self.waiting: list[tuple[int, Reported, int]] = []  # number, verdict, and place in the log
        self.skip = skip  # committed: records below are applied, their verdicts are out already
        self.life = self.doomed = FOREVER

    @property
    def live(self) -> bool:
        return self.life == FOREVER and self.doomed == FOREVER

    @property
    def flushed_position(self) -> int:
        """Return the log position of the last flush."""
        meta = self.store.meta
        return unpack_state(meta.state).applied if meta else 0

    def published(self) -> int:
        """Return the log position below which everything is published."""
        return self.waiting[0][2] if self.waiting else self.shard.applied

    def take(self, record: Record) -> None:
        """Apply a record; queue the verdicts that it leads to, unless they are out already."""
        position = self.shard.applied
        output = self.shard.apply(record)
        if output is not None and position >= self.skip:
            self.waiting += [(number, verdict, position) for number, verdict in reported(output)]

    def flush(self, *, sweeps: bool = False, killed_after: int = FOREVER) -> None:
        """Move what is kept to the store; sweep what is forgotten, if it `sweeps`.

        Raises:
            Killed: the sweep has written so many times.
        """
        new = self.store.flush({"bands": BANDS}, self.shard.begin_flush(), b"")
        found: Counter[str] = Counter()
        if sweeps:
            self.shard.forgetting.begin_sweep()
            self.store.replace = partial(_replace, self.store.replace, [killed_after])  # type: ignore[method-assign]
            found = sweep(self.store, again=False)
            del self.store.replace
        self.shard.end_flush()
        self.lookup.refresh(new, swept=sweeps)
        if sweeps:
            self.shard.forgetting.end_sweep(found)
        self.store.delete_dropped()

    def canon(self) -> Any:
        return canon(self.shard, self.store)


class Killed(Exception):  # noqa: N818 - it is no error
    """The process ends here."""


def _replace(real: Callable[..., None], left: list[int], *entries: Any, **changed: Any) -> None:
    if not left[0]:
        raise Killed
    left[0] -= 1
    real(*entries, **changed)


def copy_disk(source: Path, target: Path) -> Path:
    """Copy an index as it is on disk at one moment; the sorted files never change and are linked.

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

    What is behind the horizon is left out, and what is forgotten: whether it was dropped, or
    swept yet, must not show.
    """
    memtable = shard.memtable
    rows: dict[int, tuple[int, int, bytes]] = {}
    buckets: dict[int, list[int]] = defaultdict(list)
    if store is not None:
        for key, row in stored_postings(store):
            buckets[key].append(row)
        for part in store.keys(1024):
            stored = shard.lookup.rows(part.rows)
            stored = shard.forgetting.hide(stored, part.rows)
            columns = part.rows.tolist(), stored.times.tolist(), stored.refs, stored.sketches
            for row, time, ref, sketch in zip(*columns, strict=True):
                if time > BEFORE_ALL:
                    rows[row] = (time, ref, sketch.tobytes())
    for entry in range(memtable.count):
        if int(memtable.states[entry]) == FREE:
            continue
        row = int(memtable.rows[entry])
        sketch = memtable.sketches[entry].tobytes()
        rows[row] = int(memtable.times[entry]), int(memtable.refs[entry]), sketch
        for bit in range(memtable.own_keys):
            if int(memtable.masks[entry]) >> bit & 1:
                buckets[int(memtable.keys[entry, bit])].append(row)
    horizon = shard.horizon
    rows = {row: r for row, r in rows.items() if r[0] >= horizon.time and row >= horizon.row}
    buckets = {key: [row for row in found if row in rows] for key, found in buckets.items()}
    return (
        rows,
        {key: sorted(found) for key, found in buckets.items() if found},
        shard.positions,
        shard.verdicts,
        shard.next_row,
        horizon,
        shard.applied,
        shard.settings,
        _versions(shard, store, horizon),
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
        and int.from_bytes(version[16:20], "little") >= horizon.row  # rows that came before it
        and not is_hidden(shard.forgetting, version)
    }
