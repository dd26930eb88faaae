"""What is in memory of the keys of runs: which may be there, and which have several postings.

Both are made of a run's sorted keys a part at a time, when it is written or when an index is
opened, and are never older than the run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.index.filter import KeyFilter
from streamer.index.postings import Keys


class RunKeys:
    """A filter of a run's keys, and those with more than one posting; `postings` is its size.

    Attributes:
        filter: of all keys.
        crowded_keys: the keys with several postings, ascending.
    """

    def __init__(self, postings: int) -> None:
        self.filter = KeyFilter(postings)
        self.crowded_keys = np.empty(0, np.uint64)
        self._last = np.empty(0, np.uint64)

    @classmethod
    def of(cls, filled: KeyFilter, crowded_keys: Keys) -> RunKeys:
        """Return what is known of a run all of whose keys are in."""
        keys = cls(0)
        keys.filter, keys.crowded_keys = filled, crowded_keys
        return keys

    def add(self, keys: Keys) -> None:
        """Add the keys that come next, in order."""
        self.filter.add(keys)
        joined = np.concatenate((self._last, keys))
        crowded = np.unique(joined[1:][joined[1:] == joined[:-1]])
        if len(crowded):
            self.crowded_keys = np.unique(np.concatenate((self.crowded_keys, crowded)))
        self._last = joined[-1:].copy()

    def crowded(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Tell which keys have more than one posting in the run."""
        known = self.crowded_keys
        at = np.searchsorted(known, keys)
        at[at == len(known)] = 0
        return known[at] == keys if len(known) else np.zeros(len(keys), np.bool_)
