"""Queries about a page that is not added: the verdict that it would get, and its nearest pages.

They go to a shard that is idle. Nothing changes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.batch import key_masks
from streamer.index.log_time import LogTime
from streamer.index.memtable import FLUSHED, KEPT
from streamer.index.messages import Keys, Pages, Verdicts
from streamer.index.ports import BEFORE_ALL
from streamer.index.shard import Shard
from streamer.sketch.hash_sets import UNKNOWN, set_similarity
from streamer.sketch.method import Sketch, sketch_similarity


class NearRow(NamedTuple):
    """A kept page that shares so many keys with another; `similarity` is in ten-thousandths."""

    similarity: int
    ref: int
    url: bytes
    shared: int


def verdict_on(shard: Shard, page: Pages) -> Verdicts:
    """Return the verdict that one page would get if it came next."""
    batch, compared = shard.batch_of(page, LogTime(shard.time.state()))
    memtable, count = shard.memtable, shard.memtable.count
    batch.judge(memtable, shard.next_row, shard.lookup)
    try:
        changes = None if compared is None else compared.settle(batch.rows)
        return batch.verdicts(memtable, changes)
    finally:
        memtable.remove_last(memtable.count - count)


def nearest(shard: Shard, page: Pages, limit: int | None = None) -> list[NearRow]:
    """Return the kept pages that share a key with one page, the most similar first.

    Of equals those that share most keys come first, then the earliest.
    """
    if shard.settings is None:
        return []  # it has no rows
    _, shingles_min = shard.settings.least_of(page.urls, page.main)
    masks, _ = key_masks(page, shingles_min)
    found = {row.ref: row for row in _find_stored(shard, page, masks)}
    found |= {row.ref: row for row in _find_in_memtable(shard, page, masks)}
    ordered = sorted(found.values(), key=lambda row: (-row.similarity, -row.shared, row.ref))
    return ordered[:limit]


def _has(masks: Keys, keys: int) -> npt.NDArray[np.bool_]:
    """Return bool[n, keys], which keys each mask has."""
    return (masks[:, None] >> np.arange(keys, dtype=np.uint64) & np.uint64(1)).astype(np.bool_)


def _find_stored(shard: Shard, page: Pages, masks: Keys) -> Iterator[NearRow]:
    hits = shard.lookup.find(page.keys, shard.released_flushes)
    wanted = np.repeat(_has(masks, page.keys.shape[1])[0, hits.key_places], np.diff(hits.starts))
    rows, shared = np.unique(hits.rows[wanted], return_counts=True)
    kept = shard.forgetting.hide(shard.lookup.rows(rows), rows)
    left = np.flatnonzero(shard.horizon.has(kept.times, rows) & (kept.times > BEFORE_ALL))
    kept = kept.take(left)
    sets = shard.lookup.shingles(rows[left]) if page.shingles else [b""] * len(left)
    columns = zip(kept.refs, kept.urls, kept.sketches, sets, shared[left].tolist(), strict=True)
    for ref, url, sketch, own, count in columns:
        yield NearRow(_similarity(shard, page, np.ascontiguousarray(sketch), own), ref, url, count)


def _find_in_memtable(shard: Shard, page: Pages, masks: Keys) -> Iterator[NearRow]:
    memtable, count = shard.memtable, shard.memtable.count
    # What a flush has begun to write is in the memtable until look-ups have it.
    is_written = shard.lookup.flushes >= shard.flushes_begun
    states, newest = memtable.states[:count], KEPT if is_written else FLUSHED
    posted = _has(memtable.masks[:count] & masks, page.keys.shape[1])
    shared = ((memtable.keys[:count] == page.keys) & posted).sum(axis=1)
    answers = shard.horizon.has(memtable.times[:count], memtable.rows[:count])
    is_kept = answers & (states >= KEPT) & (states <= newest)
    for entry in np.flatnonzero(is_kept & (shared > 0)).tolist():
        own = memtable.shingles[entry] if page.shingles else b""
        similarity = _similarity(shard, page, memtable.sketches[entry], own)
        ref, url = int(memtable.refs[entry]), memtable.urls[entry]
        yield NearRow(similarity, ref, url, int(shared[entry]))


def _similarity(shard: Shard, page: Pages, sketch: Sketch, shingles: bytes) -> int:
    """Return a page's similarity to a kept one, by their sets of shingles where these are there."""
    if page.shingles and (exact := set_similarity(page.shingles[0], shingles)) != UNKNOWN:
        return exact
    assert shard.settings is not None, "a shard without settings has no rows"
    return int(sketch_similarity(int(shard.settings.measure), page.sketches[0], sketch))
