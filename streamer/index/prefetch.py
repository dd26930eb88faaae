"""Look-ups ahead of the judgement: most of what a page needs from disk is read by other threads.

The store grows at flushes only. What was found before a flush still holds after it, while the shard
has the flushed entries in its head as well; later it is thrown away, and found again by the shard
itself. So it does not matter whether, when, or in which order anything is prefetched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.types import Hits, KeptRows, Keys, Lookup

ROWS_AHEAD_MAX = 4096  # of one batch, about a MiB; crowded buckets can lead to many more

RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for `keys` in the store; `numbers` of its rows ascend."""

    keys: Keys
    hits: Hits
    numbers: RowNumbers
    rows: KeptRows | None


class PrefetchedLookup:
    """A shard's look-ups, of which some have been done already; `lookup` is for any thread."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._found: Found | None = None

    @property
    def flushes(self) -> int:
        """Return how many flushes the store has had since the look-up was made."""
        return self._lookup.flushes

    def ahead(self, keys: Keys) -> Found:
        """Find the postings and rows of `keys` now; may be called in any thread."""
        hits = self._lookup.find(keys, 0)
        numbers = np.unique(hits.rows)
        rows = self._lookup.rows(numbers) if len(numbers) <= ROWS_AHEAD_MAX else None
        return Found(keys, hits, numbers, rows)

    def expect(self, found: Found | None) -> None:
        """Use `found` for the look-up that comes next, if it still holds."""
        self._found = found

    def find(self, keys: Keys, flushes: int = 0) -> Hits:
        """Return the postings of `keys` in the store, which must have so many flushes at least."""
        found = self._found
        if found is not None and found.hits.flushes >= flushes and np.array_equal(found.keys, keys):
            return found.hits
        self._found = None
        return self._lookup.find(keys, flushes)

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order; some of those just found."""
        found = self._found
        if found is None or found.rows is None:
            return self._lookup.rows(rows)
        places = np.searchsorted(found.numbers, rows)
        listed = places.tolist()
        return KeptRows(
            found.rows.sketches[places],
            [found.rows.refs[i] for i in listed],
            [found.rows.urls[i] for i in listed],
        )
