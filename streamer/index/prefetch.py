"""Look-ups ahead of the judgement: most of what a page needs from disk is read by other threads.

Runs change at flushes only. What was found before a flush is thrown away after it, and found again
by the shard itself: so it does not matter whether, when, or in which order anything is prefetched.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.lookup import Hits, KeptRows, Keys, Lookup

ROWS_AHEAD_MAX = 4096  # of one batch, about a MiB; crowded buckets can lead to many more

RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for `keys` in the runs of one `version`; `numbers` of its rows ascend."""

    version: int
    keys: Keys
    hits: Hits
    numbers: RowNumbers
    rows: KeptRows | None


class PrefetchedLookup:
    """A shard's look-ups, of which some have been done already."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._lock = threading.Lock()  # the runs, and their look-up, are used by several threads
        self._version = 0
        self._found: Found | None = None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other threads out while the runs change; forget what was found in the old ones."""
        with self._lock:
            yield
            self._version += 1

    def ahead(self, keys: Keys) -> Found:
        """Find the postings and rows of `keys` now; may be called in any thread."""
        with self._lock:
            hits = self._lookup.find(keys)
            numbers = np.unique(hits.rows)
            few = len(numbers) <= ROWS_AHEAD_MAX
            rows = self._lookup.rows(numbers) if few else None
            return Found(self._version, keys, hits, numbers, rows)

    def expect(self, found: Found | None) -> None:
        """Use `found` for the look-up that comes next, if it still holds."""
        self._found = found

    def find(self, keys: Keys) -> Hits:
        """Return the postings of `keys`."""
        found = self._found
        if (
            found is not None
            and found.version == self._version
            and np.array_equal(found.keys, keys)
        ):
            return found.hits
        self._found = None
        with self._lock:
            return self._lookup.find(keys)

    def rows(self, rows: RowNumbers) -> KeptRows:
        """Return the rows of these numbers, in that order; some of those just found."""
        found = self._found
        if found is None or found.rows is None:
            with self._lock:
                return self._lookup.rows(rows)
        places = np.searchsorted(found.numbers, rows)
        listed = places.tolist()
        return KeptRows(
            found.rows.sketches[places],
            [found.rows.refs[i] for i in listed],
            [found.rows.urls[i] for i in listed],
        )
