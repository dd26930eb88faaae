"""The resemblance sketch: what a candidate is verified with.

One-permutation hashing (Li, Owen, Zhang 2012): the top bits of a shingle's sketch hash choose a
bin, and the least hash in a bin gives it a symbol, one of three, from its low bits. With E bins
where either page is filled, B where both are, M where both are and agree, and chance agreement 1/3,

    resemblance = (M - B/3) / (2/3 * E) = (3*M - B) / (2*E).

The fewer shingles, the more bins fit into the same bytes, because only filled ones are listed
(compact.py): 1,024 bins for a long page, up to 4 million for a short one, where nearly each shingle
has a bin of its own and the estimate is nearly exact. The least hash of a bin is the leftmost one,
so a fine sketch holds every coarser one, and two pages are compared at the coarser of their levels.

Similarities are whole ten-thousandths, rounded down, so that they compare exactly everywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import allocating_kernel, inline_kernel, int64, kernel, popcount, uint64
from streamer.model import SIMILARITY_ONE
from streamer.sketch.compact import (
    BINS,
    DENSE_LEVEL,
    PAYLOAD_WORDS,
    level_of,
    unpack_filled,
)

_LOW_BITS = 0x5555555555555555  # the lower bit of each 2-bit symbol


@kernel
def hash_for_sketch(shingles: npt.NDArray[np.uint64], count: int, mask: int) -> None:
    """Turn shingles[:count] into sketch hashes, independent of all that the band keys use.

    In place: of two arrays that are the same one the compiler takes an element at a time.
    """
    for i in range(count):
        shingles[i] = fmix(shingles[i] ^ uint64(mask))


@kernel
def lower_bins(hashes: npt.NDArray[np.uint64], count: int, bins: npt.NDArray[np.uint64]) -> None:
    """Let sketch hashes compete for uint64[1024] `bins`, which start as EMPTY_BIN."""
    for i in range(count):
        place = hashes[i] >> uint64(64 - DENSE_LEVEL)
        bins[place] = min(bins[place], hashes[i])


@inline_kernel
def _filled(word: int) -> int:
    """Mark the lower bit of each symbol that is not empty."""
    return (word | (word >> uint64(1))) & uint64(_LOW_BITS)


@kernel
def _count_dense(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> tuple[int, int, int]:
    """Return (E, B, M) of two sketches at the dense level, 32 bins an instruction."""
    either = both = equal = int64(0)
    for i in range(1, 1 + PAYLOAD_WORDS):
        filled_a, filled_b = _filled(a[i]), _filled(b[i])
        shared = filled_a & filled_b
        either += int64(popcount(filled_a | filled_b))
        both += int64(popcount(shared))
        equal += int64(popcount(shared & ~_filled(a[i] ^ b[i])))
    return either, both, equal


@allocating_kernel
def _count_listed(
    a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64], level: int
) -> tuple[int, int, int]:
    """Return (E, B, M) of two sketches at `level`, by merging their lists of filled bins."""
    list_a, list_b = np.empty(BINS, np.uint32), np.empty(BINS, np.uint32)
    count_a, count_b = unpack_filled(a, level, list_a), unpack_filled(b, level, list_b)
    i = j = 0
    both = equal = int64(0)
    while i < count_a and j < count_b:
        bin_a, bin_b = list_a[i] >> 2, list_b[j] >> 2
        if bin_a == bin_b:
            both += 1
            equal += list_a[i] == list_b[j]
        i += bin_a <= bin_b
        j += bin_b <= bin_a
    return int64(count_a + count_b - both), both, equal


@inline_kernel
def _are_equal(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> bool:
    """Tell whether two sketches are the same one, as those of exact copies are."""
    differing = uint64(0)
    for i in range(1 + PAYLOAD_WORDS):
        differing |= a[i] ^ b[i]
    return bool(differing == 0)


@kernel
def similarity(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> int:
    """Return the estimated resemblance of two sketches (uint64[33] each) in ten-thousandths."""
    if _are_equal(a, b):
        return SIMILARITY_ONE
    level = min(level_of(a), level_of(b))
    if level_of(a) == DENSE_LEVEL and level_of(b) == DENSE_LEVEL:
        either, both, equal = _count_dense(a, b)
    else:
        either, both, equal = _count_listed(a, b, level)
    if either == 0:
        return SIMILARITY_ONE
    return max(SIMILARITY_ONE * (3 * equal - both) // (2 * either), int64(0))
