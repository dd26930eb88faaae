"""Entries of a head that leave it for the store, and those that stay for longer than the head does.

Kept entries go into the next flush as rows, undecided ones as a part of the shard's state.
"""

from __future__ import annotations

import itertools

import numpy as np

from streamer.index.head import Head
from streamer.index.lookup import FlushedRows
from streamer.index.place import FLUSHED, KEPT, UNDECIDED
from streamer.index.snapshot import Undecided
from streamer.sketch.compact import SKETCH_WORDS


def take_kept(head: Head, state: bytes) -> FlushedRows:
    """Mark the kept entries as flushed, and return them, with the state of their shard."""
    is_kept = head.states[: head.count] == KEPT
    kept = slice(head.count) if is_kept.all() else np.flatnonzero(is_kept)
    head.states[kept] = FLUSHED
    return FlushedRows(
        head.rows[kept],
        head.refs[kept],
        head.sketches[kept],
        head.keys[kept],
        head.masks[kept],
        list(itertools.compress(head.urls, is_kept.tolist())),
        state,
    )


def undecided_entries(head: Head, first: int = 0) -> dict[int, int]:
    """Return the undecided entries from the first on, by the refs of their pages."""
    entries = first + np.flatnonzero(head.states[first : head.count] == UNDECIDED)
    return dict(zip(head.refs[entries].tolist(), entries.tolist(), strict=True))


def pack_undecided(head: Head) -> Undecided:
    """Return the undecided entries as bytes."""
    left = np.flatnonzero(head.states[: head.count] == UNDECIDED)
    return Undecided(
        head.rows[left].tobytes(),
        head.refs[left].tolist(),
        head.keys[left].tobytes(),
        head.masks[left].tobytes(),
        head.sketches[left].tobytes(),
        [head.urls[i] for i in left.tolist()],
    )


def restore_undecided(head: Head, packed: Undecided) -> None:
    """Enter the undecided entries that were packed into an empty head."""
    count = len(packed.refs)
    head.reserve(count)
    head.rows[:count] = np.frombuffer(packed.rows, np.int64)
    head.keys[:count] = np.frombuffer(packed.keys, np.uint64).reshape(count, head.own_keys)
    head.masks[:count] = np.frombuffer(packed.masks, np.uint64)
    head.sketches[:count] = np.frombuffer(packed.sketches, np.uint64).reshape(count, SKETCH_WORDS)
    head.states[:count] = UNDECIDED
    head.refs[:count] = packed.refs
    head.urls, head.count = packed.urls, count
    head.retain(np.arange(count))
