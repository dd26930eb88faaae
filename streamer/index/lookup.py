"""What a shard asks of the pages that have left its head, and what it hands out when it flushes.

These are the two seams between the pure state machine and the store.
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


def key_marks(keys: Keys, posted: Keys) -> npt.NDArray[np.uint32]:
    """Return the low halves of keys[n, m] as uint32; 0 where bit m of posted[n] is not set."""
    bits = posted[:, None] >> np.arange(keys.shape[1], dtype=np.uint64) & np.uint64(1)
    return (keys.astype(np.uint32) * bits.astype(np.uint32)).astype(np.uint32)


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

    `rows` ascend; `posting_keys` are in the order of rows, so that `posting_rows` ascend.
    `marks` are uint32[n, keys], as `key_marks` makes them.
    """

    rows: npt.NDArray[np.int64]
    refs: npt.NDArray[np.uint64]
    sketches: npt.NDArray[np.uint64]
    marks: npt.NDArray[np.uint32]
    urls: list[bytes]
    posting_keys: Keys
    posting_rows: npt.NDArray[np.uint32]
    state: bytes
