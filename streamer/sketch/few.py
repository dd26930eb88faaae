"""The distinct sketch hashes of a page that has few of them: what a fine sketch is made from.

Most pages have too many, which their 1,024 bins tell after the first block; from then on nothing is
collected. Repeated text has few however long it is, so the set goes on from block to block.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, int64, kernel, uint64
from streamer.sketch.compact import BINS, EMPTY_BIN, LISTED_MAX

FEW_MAX = 2 * LISTED_MAX  # far more than distinct hashes in LISTED_MAX bins, but by chance
SLOTS = 2048


@kernel
def may_be_few(bins: npt.NDArray[np.uint64]) -> bool:
    """Tell whether so few bins are filled that a listed sketch may fit."""
    filled = uint64(0)
    for i in range(BINS):
        filled += uint64(bins[i] != uint64(EMPTY_BIN))
    return filled <= LISTED_MAX


@kernel
def filled_bins(bins: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> int:
    """Write the least hashes of the filled bins to `out`; return their number."""
    count = 0
    for value in bins:
        out[count] = value
        count += value != uint64(EMPTY_BIN)
    return count


@kernel
def add_distinct(
    hashes: npt.NDArray[np.uint64], count: int, slots: npt.NDArray[np.uint64], distinct: int
) -> int:
    """Add hashes[:count] to the set uint64[SLOTS] (EMPTY_BIN: free); return its size.

    Stops when the size passes FEW_MAX.
    """
    for i in range(count):
        slot = int64(hashes[i] & uint64(SLOTS - 1))
        while slots[slot] != uint64(EMPTY_BIN) and slots[slot] != hashes[i]:
            slot = (slot + 1) & (SLOTS - 1)
        if slots[slot] == uint64(EMPTY_BIN):
            slots[slot] = hashes[i]
            distinct += 1
            if distinct > FEW_MAX:
                break
    return distinct


@allocating_kernel
def sorted_members(slots: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> int:
    """Write the members of the set to uint64[FEW_MAX] `out`, ascending; return their number.

    A counting sort by the top eight bits, then an insertion sort that hardly has to move anything.
    """
    starts = np.zeros(257, np.int64)
    for value in slots:
        if value != uint64(EMPTY_BIN):
            starts[int64(value >> uint64(56)) + 1] += 1
    for i in range(256):
        starts[i + 1] += starts[i]
    count: int = starts[256]
    for value in slots:
        if value != uint64(EMPTY_BIN):
            place = int64(value >> uint64(56))
            out[starts[place]] = value
            starts[place] += 1
    for i in range(1, count):
        value = out[i]
        j = i
        while j > 0 and out[j - 1] > value:
            out[j] = out[j - 1]
            j -= 1
        out[j] = value
    return count
