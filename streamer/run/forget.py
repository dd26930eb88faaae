"""Forgetting kept pages of an index that nobody judges with: found by a scan, and written over.

A row that is forgotten leaves its slot empty: no number, no key, no URL, no sketch. Blocks are
written anew, some at a time, together with what the state says of them; so a kill leaves an index
that has forgotten some of the pages, and the same command goes on. In the end all files are written
anew, or the old bytes would stay in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.index.codec import SHINGLES, Entry, ShardMeta, Stretch, entry_key
from streamer.index.frozen import thaw
from streamer.index.row_blocks import (
    NO_ROW,
    SLOTS_A_KEY_BLOCK,
    RowKeys,
    gather_rows,
    key_entries,
    row_entries,
)
from streamer.index.store import Store
from streamer.index.stored_rows import read_rows
from streamer.index.types import BEFORE_ALL, FlushedRows, KeptRows
from streamer.index.url_versions import time_of, url_of

_BLOCKS_AT_ONCE = 8  # of keys, and of the rows that belong to them: some 2 MB
_VERSIONS_AT_ONCE = 4096

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Wanted:
    """What is to be forgotten: pages with one of these URLs or hosts, or a time before this one.

    A host that begins with a dot stands for all below it, too. Times are in milliseconds.
    """

    urls: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    before_ms: int = BEFORE_ALL

    def __call__(self, rows: KeptRows) -> Mask:
        """Tell which rows are to be forgotten."""
        named = [bool(self.urls or self.hosts) and self._names(url) for url in rows.urls]
        return np.array(named, np.bool_) | (rows.times < self.before_ms)

    def _names(self, url: bytes) -> bool:
        text = url.decode()
        return text in self.urls or (bool(self.hosts) and self._names_host(text))

    def _names_host(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:  # none of a URL's forms
            return False
        parts = host.split(".")
        below = ("." + ".".join(parts[i:]) for i in range(len(parts)))
        return host in self.hosts or any(each in self.hosts for each in below)


def forget(store: Store, wanted: Wanted, *, dry_run: bool, progress: Callable[[int], None]) -> int:
    """Forget kept pages, or only count them; return how many they are.

    The versions of URLs that the same is wanted of go with them.

    `progress` is told how many blocks of keys are read. When this returns, nothing of the pages is
    in the store.

    Raises:
        StoreDamaged: something of the index cannot be read.
        StoreUnavailable: the disk refuses; some of the pages may be forgotten then.
    """
    pages, blocks, is_thawed = 0, store.key_blocks, dry_run
    for first in blocks[::_BLOCKS_AT_ONCE]:
        part = range(first, min(first + _BLOCKS_AT_ONCE, blocks.stop))
        shards = len(store.meta.shards) if store.meta else 0
        for shard in range(shards):
            found = list(_found(store, shard, part, wanted))
            pages += sum(int(gone.sum()) for *_, gone in found) if shard == 0 else 0
            if found and not is_thawed:  # what is frozen has their keys
                for each in range(shards):
                    thaw(store, each)
                is_thawed = True
            if found and not dry_run:
                _write_over(store, shard, found)
        progress(part.stop - blocks.start)
    if not dry_run:
        forget_versions(store, wanted)
        store.settle()
    return pages


def forget_versions(store: Store, wanted: Wanted) -> None:
    """Forget versions of URLs: the next page of such a URL is new. `Store.settle` wipes them out.

    Raises:
        StoreDamaged, StoreUnavailable: as `forget`.
    """
    versions = store.scan_urls()
    while part := list(itertools.islice(versions, _VERSIONS_AT_ONCE)):
        urls, times = [url_of(version) for _, version in part], [time_of(v) for _, v in part]
        gone = wanted(KeptRows(np.empty((0, 0), np.uint64), [], urls, np.array(times)))
        store.forget_urls([key for (key, _), each in zip(part, gone.tolist(), strict=True) if each])


Found = tuple[RowKeys, KeptRows, Mask]


def _found(store: Store, shard: int, blocks: range, wanted: Wanted) -> Iterator[Found]:
    """Yield each block of keys with its rows, and which of them are to be forgotten, if any."""
    for number in blocks:
        keys = store.read_keys(shard, range(number, number + 1))
        if keys is None or not len(keys.rows):
            continue
        kept = gather_rows(read_rows(store, keys.slots))
        gone = wanted(kept)
        if gone.any():
            yield keys, kept, gone


def _write_over(store: Store, shard: int, found: list[Found]) -> None:
    meta = store.meta
    assert meta is not None, "a store without a flush has no rows"
    shards, stretches = meta.shards, meta.stretches
    rows_of: list[Entry] = []
    keys_of: list[Entry] = []
    sets_of: list[Entry] = []
    for keys, kept, gone in found:
        first = int(keys.slots[0]) // SLOTS_A_KEY_BLOCK * SLOTS_A_KEY_BLOCK
        left = _without(keys, kept, gone, first)
        rows_of += row_entries(left, first)
        keys_of += key_entries(shard, left, first)
        if store.has_shingles:
            sets_of += ((entry_key(SHINGLES, slot), b"") for slot in keys.slots[gone].tolist())
        rows, postings = int(gone.sum()), int(np.bitwise_count(keys.masks[gone]).sum())
        shards = [
            _fewer(each, rows, postings) if i == shard else each for i, each in enumerate(shards)
        ]
        stretches = _fewer_in(stretches, first, shard, rows, postings)
    store.replace([sets_of, rows_of, keys_of], shards, stretches)


def _without(keys: RowKeys, kept: KeptRows, gone: Mask, first: int) -> FlushedRows:
    """Return the rows of a block that begins with slot `first`, those empty that are gone."""
    count, there = int(keys.slots[-1]) + 1 - first, ~gone
    at = keys.slots[there] - first
    left = FlushedRows(
        np.full(count, NO_ROW),
        np.zeros(count, np.uint64),
        np.zeros((count, kept.sketches.shape[1]), np.uint64),
        np.zeros((count, keys.keys.shape[1]), np.uint64),
        np.zeros(count, np.uint64),
        [b""] * count,
        np.full(count, BEFORE_ALL),
        b"",
    )
    stays = kept.take(np.flatnonzero(there))
    left.rows[at], left.keys[at], left.masks[at] = (
        keys.rows[there], keys.keys[there], keys.masks[there],
    )  # fmt: skip
    left.refs[at], left.sketches[at], left.times[at] = stays.refs, stays.sketches, stays.times
    for place, url in zip(at.tolist(), stays.urls, strict=True):
        left.urls[place] = url
    return left


def _fewer(meta: ShardMeta, rows: int, postings: int) -> ShardMeta:
    return msgspec.structs.replace(meta, rows=meta.rows - rows, postings=meta.postings - postings)


def _fewer_in(
    stretches: list[Stretch], slot: int, shard: int, rows: int, postings: int
) -> list[Stretch]:
    """Return the stretches, with fewer rows and postings of a shard in the one that has a slot."""
    place = next(i for i, stretch in enumerate(stretches) if slot < stretch.end)
    shards = list(stretches[place].shards)
    count, posted, newest, last = shards[shard]
    shards[shard] = count - rows, posted - postings, newest, last
    return [*stretches[:place], Stretch(stretches[place].end, shards), *stretches[place + 1 :]]
