"""Rows with postings, on their way into a store and as they must be found there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamer.index.lookup import FlushedRows
from streamer.index.postings import sort_postings
from streamer.index.run_lookup import RunLookup
from streamer.sketch.compact import SKETCH_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamer.index.postings import Keys
    from streamer.index.runs import Store

POSTINGS_A_ROW = 3


def keys_of(rows: Sequence[int]) -> Keys:
    """Return the keys of rows: spread like hashes, each row's own."""
    places = [[POSTINGS_A_ROW * row + i for i in range(POSTINGS_A_ROW)] for row in rows]
    return np.array(places, np.uint64).reshape(-1, POSTINGS_A_ROW) * np.uint64(0x9E3779B97F4A7C15)


def flushed(rows: Sequence[int], state: bytes = b"state") -> FlushedRows:
    """Return what a shard hands out that has kept these rows."""
    numbers = np.array(rows, np.int64)
    keys, posted = sort_postings(
        keys_of(rows).reshape(-1), numbers.repeat(POSTINGS_A_ROW).astype(np.uint32)
    )
    sketches = np.repeat(numbers.astype(np.uint64)[:, None], SKETCH_WORDS, axis=1)
    urls = [b"https://example.org/%d" % row for row in rows]
    refs = numbers.astype(np.uint64) + np.uint64(7)
    marks = keys_of(rows).astype(np.uint32)
    return FlushedRows(numbers, refs, sketches, marks, urls, keys, posted, state)


def flush(store: Store, rows: Sequence[int], owner: bytes = b"") -> None:
    """Flush these rows of a single shard."""
    store.flush({"bands": 14}, [flushed(rows)], owner)


def assert_holds(store: Store, rows: Sequence[int]) -> None:
    """Check that exactly these rows and their postings are there."""
    lookup = RunLookup(store, 0)
    hits = lookup.find(keys_of(range(2000)))
    assert hits.rows.tolist() == [row for row in sorted(rows) for _ in range(POSTINGS_A_ROW)]
    kept = lookup.rows(np.array(rows, np.int64))
    assert kept.refs == [row + 7 for row in rows]
    assert kept.urls == [b"https://example.org/%d" % row for row in rows]
    assert [sketch.tolist() for sketch in kept.sketches] == [[row] * SKETCH_WORDS for row in rows]
