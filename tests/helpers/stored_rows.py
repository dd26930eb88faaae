"""Rows with postings, on their way into a store and as they must be found there."""

from collections.abc import Sequence

import numpy as np

from streamer.index.codec import PendingForget, ShardState, pack_state
from streamer.index.ports import NO_HORIZON, FlushedRows, Horizon
from streamer.index.postings import Keys
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import FlushedBlocks, Store

POSTINGS_A_ROW = 3


def keys_of(rows: Sequence[int]) -> Keys:
    """Return the keys of rows: spread like hashes, each row's own."""
    places = [[POSTINGS_A_ROW * row + i for i in range(POSTINGS_A_ROW)] for row in rows]
    return np.array(places, np.uint64).reshape(-1, POSTINGS_A_ROW) * np.uint64(0x9E3779B97F4A7C15)


def state_before(next_row: int) -> bytes:
    """Return the state of a shard at rest whose next row has this number."""
    state = ShardState(None, {}, 0, 0, next_row, 0, NO_HORIZON, (0, 0, 0), PendingForget(), {})
    return pack_state(state)


def flushed(rows: Sequence[int], state: bytes = b"", horizon: Horizon = NO_HORIZON) -> FlushedRows:
    """Return what a shard hands out that has kept these rows; row n is of n seconds after 1970."""
    numbers = np.array(rows, np.int64)
    keys, masks = keys_of(rows), np.full(len(rows), (1 << POSTINGS_A_ROW) - 1, np.uint64)
    sketches = np.repeat(numbers.astype(np.uint64)[:, None], SKETCH_WORDS, axis=1)
    urls = [b"https://example.org/%d" % row for row in rows]
    refs = numbers.astype(np.uint64) + np.uint64(7)
    state = state or state_before(int(numbers.max(initial=-1)) + 1)
    return FlushedRows(numbers, refs, sketches, keys, masks, urls, numbers * 1000, state, horizon)


def flush(
    store: Store, rows: Sequence[int], owner: bytes = b"", horizon: Horizon = NO_HORIZON
) -> FlushedBlocks:
    """Flush these rows; return what is new."""
    return store.flush({"bands": 14}, flushed(rows, horizon=horizon), owner)


def stored_postings(store: Store) -> list[tuple[int, int]]:
    """Return all postings: keys and rows."""
    return [
        (key, row)
        for part in store.keys(1024)
        for row, keys, mask in zip(
            part.rows.tolist(), part.keys.tolist(), part.masks.tolist(), strict=True
        )
        for bit, key in enumerate(keys)
        if mask >> bit & 1
    ]


def assert_holds(store: Store, rows: Sequence[int]) -> None:
    """Check that exactly these rows and their postings are there."""
    lookup = StoredLookup(store)
    first = min(rows, default=0)
    hits = lookup.find(keys_of(range(max(0, first - 1000), first + 2000)))
    assert hits.rows.tolist() == [row for row in sorted(rows) for _ in range(POSTINGS_A_ROW)]
    kept = lookup.rows(np.array(rows, np.int64))
    assert kept.refs == [row + 7 for row in rows]
    assert kept.urls == [b"https://example.org/%d" % row for row in rows]
    assert kept.times.tolist() == [1000 * row for row in rows]
    assert [sketch.tolist() for sketch in kept.sketches] == [[row] * SKETCH_WORDS for row in rows]
