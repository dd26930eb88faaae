"""What a shard asks of the pages that have left its head, and what it hands out when it flushes.

These are the two seams between the state machine and the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Hits:
    """Postings found for an array of keys.

    Attributes:
        places: int64, the places of the keys that have postings, ascending.
        starts: int64, where each one's list starts in `rows`, and the end.
        rows: int64, ascending in each list.
        flushes: how many the store had had since the look-up was made.
    """

    places: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    flushes: int


def no_hits(flushes: int) -> Hits:
    """Return the hits of keys that have no posting."""
    return Hits(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), flushes)


@dataclass(slots=True)
class KeptRows:
    """Rows as stored: sketches uint64[n, 33], page refs, URLs."""

    sketches: npt.NDArray[np.uint64]
    refs: list[int]
    urls: list[bytes]


class Lookup(Protocol):
    """What a shard asks of the pages that have left its head."""

    @property
    def flushes(self) -> int:
        """Return how many flushes the store has had since the look-up was made."""

    def find(self, keys: Keys, flushes: int) -> Hits:
        """Return the postings of `keys` in the store, which must have so many flushes at least."""

    def rows(self, rows: npt.NDArray[np.int64]) -> KeptRows:
        """Return the rows of these numbers, in that order."""


@dataclass(slots=True)
class FlushedRows:
    """What a flush takes from one shard: kept rows with their postings, and the shard's state.

    `rows` ascend. `keys` are uint64[n, m], and row i is posted under keys[i, j] if bit j of
    masks[i] is set. Arrays may be the head's own, and are good until the shard is told `flushed`.
    """

    rows: npt.NDArray[np.int64]
    refs: npt.NDArray[np.uint64]
    sketches: npt.NDArray[np.uint64]
    keys: Keys
    masks: npt.NDArray[np.uint64]
    urls: list[bytes]
    state: bytes
