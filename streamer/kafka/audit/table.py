"""What is known of each page, in columns: one place a record of the pages' topic.

About 25 bytes a page and 4 more a shard. Offsets below the first one that the topic still has count
as well, since the verdicts name them; the system gives memory only to columns that are written.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from streamer.model import SEQUENCE_BITS, SEQUENCE_MASK, page_ref

RECORD = 1  # the record is in the topic
DEAD = 2  # it has a dead letter
VERDICT = 4  # it has a verdict
UNIQUE = 8  # ... which says unique
ARRIVED = 16  # it is in the log of shard 0
JUDGED = 32  # a fold of the logs gives its verdict
OWED = 64  # ... from a record that is committed: it must be published

Places = npt.NDArray[np.int64]


class PageTable:
    """Columns over all records below the `ends` of the partitions.

    `flags` as above; `digests` of the first verdict; `representatives` and `arrivals` (by shard)
    hold a place plus 1 and a rank plus 1, and 0 for none.
    """

    def __init__(self, ends: Mapping[int, int], shards: int) -> None:
        partitions = max(ends, default=-1) + 1
        self._ends = np.array([ends.get(i, 0) for i in range(partitions)] + [0], np.int64)
        self._bases = np.cumsum(self._ends) - self._ends
        total = int(self._ends.sum())
        self.flags = np.zeros(total, np.uint8)
        self.digests = np.zeros(total, np.uint64)
        self.representatives = np.zeros(total, np.int64)
        self.arrivals = [np.zeros(total, np.uint32) for _ in range(shards)]

    def place(self, partition: int, offset: int) -> int:
        """Return the place of a record, or -1 if there cannot be one."""
        known = 0 <= partition < len(self._ends) - 1 and 0 <= offset < self._ends[partition]
        return int(self._bases[partition]) + offset if known else -1

    def places(self, refs: npt.NDArray[np.uint64]) -> Places:
        """Return the places of page refs, -1 where there cannot be a record."""
        partitions = (refs >> np.uint64(SEQUENCE_BITS)).astype(np.int64)
        offsets = (refs & np.uint64(SEQUENCE_MASK)).astype(np.int64)
        partitions = np.minimum(partitions, len(self._ends) - 1)
        found = np.where(offsets < self._ends[partitions], self._bases[partitions] + offsets, -1)
        return found.astype(np.int64)

    def ref(self, place: int) -> int:
        """Return the page ref of the record at a place."""
        partition = int(np.searchsorted(self._bases[:-1], place, "right")) - 1
        return page_ref(partition, place - int(self._bases[partition]))

    def mark(self, places: Places, flag: int) -> None:
        """Set a flag of the pages at `places`; those of -1 are passed over."""
        self.flags[places[places >= 0]] |= np.uint8(flag)


def page_name(ref: int) -> str:
    """Return how a page is named in examples."""
    return f"partition {ref >> SEQUENCE_BITS}, offset {ref & SEQUENCE_MASK}"
