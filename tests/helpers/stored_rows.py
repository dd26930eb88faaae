"""Rows with postings, on their way into a store and as they must be found there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamer.index.postings import PARTS
from streamer.index.stored_lookup import StoredLookup
from streamer.index.types import FlushedRows
from streamer.sketch.resemblance import SKETCH_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamer.index.codec import FlushMeta
    from streamer.index.postings import Keys, Postings
    from streamer.index.store import Store

POSTINGS_A_ROW = 3


def keys_of(rows: Sequence[int]) -> Keys:
    """Return the keys of rows: spread like hashes, each row's own."""
    places = [[POSTINGS_A_ROW * row + i for i in range(POSTINGS_A_ROW)] for row in rows]
    return np.array(places, np.uint64).reshape(-1, POSTINGS_A_ROW) * np.uint64(0x9E3779B97F4A7C15)


def flushed(rows: Sequence[int], state: bytes = b"state") -> FlushedRows:
    """Return what a shard hands out that has kept these rows."""
    numbers = np.array(rows, np.int64)
    keys, masks = keys_of(rows), np.full(len(rows), (1 << POSTINGS_A_ROW) - 1, np.uint64)
    sketches = np.repeat(numbers.astype(np.uint64)[:, None], SKETCH_WORDS, axis=1)
    urls = [b"https://example.org/%d" % row for row in rows]
    refs = numbers.astype(np.uint64) + np.uint64(7)
    return FlushedRows(numbers, refs, sketches, keys, masks, urls, state)


def flush(store: Store, rows: Sequence[int], owner: bytes = b"") -> Postings:
    """Flush these rows of a single shard; return their postings."""
    [postings] = store.flush({"bands": 14}, [flushed(rows)], owner)
    return postings


def stored_key(key: int) -> int:
    """Return what the postings of a store have of a key: its top 40 bits."""
    return key >> 24


def stored_postings(store: Store, shard: int, flush: FlushMeta) -> list[tuple[int, int]]:
    """Return the postings of a flush: what it has of the key, and the row."""
    found: list[tuple[int, int]] = []
    for part in range(PARTS):
        postings = store.postings(shard, flush, part)
        rows = (postings.words & np.uint64(0xFFFFFFFF)).tolist()
        found += zip(postings.known_keys().tolist(), rows, strict=True)
    return found


def assert_holds(store: Store, rows: Sequence[int]) -> None:
    """Check that exactly these rows and their postings are there."""
    lookup = StoredLookup(store, 0)
    hits = lookup.find(keys_of(range(2000)))
    assert hits.rows.tolist() == [row for row in sorted(rows) for _ in range(POSTINGS_A_ROW)]
    kept = lookup.rows(np.array(rows, np.int64))
    assert kept.refs == [row + 7 for row in rows]
    assert kept.urls == [b"https://example.org/%d" % row for row in rows]
    assert [sketch.tolist() for sketch in kept.sketches] == [[row] * SKETCH_WORDS for row in rows]
