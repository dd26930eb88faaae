"""The resemblance sketch: what a candidate is verified with.

One-permutation hashing (Li, Owen, Zhang 2012): one hash a shingle chooses a bin and competes to be
the bin's minimum. Kept are 2 bits a bin: 0 empty, else 1 + (minimum mod 3). 1,024 bins make 256
bytes. With E bins where either page is non-empty, B where both are, M where both are and agree, and
chance agreement 1/3,

    resemblance = (M - B/3) / (2/3 * E) = (3*M - B) / (2*E).

Similarities are whole ten-thousandths, rounded down, so that they compare exactly everywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import inline_kernel, int64, kernel, popcount, uint8, uint64
from streamer.model import SIMILARITY_ONE

BINS = 1024
BIN_SHIFT = 54  # the bin is the top 10 bits of the sketch hash, the competing value all the others
SKETCH_BYTES = BINS // 4
SKETCH_WORDS = SKETCH_BYTES // 8
EMPTY_BIN = 0xFFFFFFFFFFFFFFFF

_LOW_BITS = 0x5555555555555555  # the lower bit of each 2-bit symbol


@kernel
def lower_bins(
    shingles: npt.NDArray[np.uint64], count: int, mask: int, bins: npt.NDArray[np.uint64]
) -> None:
    """Let the shingles compete in uint64[1024] `bins`, which start as EMPTY_BIN."""
    for i in range(count):
        value = fmix(shingles[i] ^ uint64(mask))
        place = value >> uint64(BIN_SHIFT)
        bins[place] = min(bins[place], value)


@kernel
def pack_bins(bins: npt.NDArray[np.uint64], sketch: npt.NDArray[np.uint8]) -> None:
    """Write the bins as 2-bit symbols: bin i is bits 2*(i%4) and up of sketch[i//4].

    The minimum's residue is that of its low 54 bits. An empty bin differs from all others in that
    its top bits need not name it; all ones in the last bin is no shingle's hash but by 2**-64.
    """
    for i in range(SKETCH_BYTES):
        packed = uint64(0)
        for j in range(4):
            value = bins[4 * i + j]
            if value != uint64(EMPTY_BIN):
                low = value & ((uint64(1) << uint64(BIN_SHIFT)) - uint64(1))
                packed |= (uint64(1) + low % uint64(3)) << uint64(2 * j)
        sketch[i] = uint8(packed)


@inline_kernel
def _filled(word: int) -> int:
    """Mark the lower bit of each symbol that is not empty."""
    return (word | (word >> uint64(1))) & uint64(_LOW_BITS)


@kernel
def similarity(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> int:
    """Return the estimated resemblance of two sketches (uint64[32] each) in ten-thousandths."""
    either = both = equal = int64(0)
    for i in range(SKETCH_WORDS):
        filled_a, filled_b = _filled(a[i]), _filled(b[i])
        shared = filled_a & filled_b
        either += int64(popcount(filled_a | filled_b))
        both += int64(popcount(shared))
        equal += int64(popcount(shared & ~_filled(a[i] ^ b[i])))
    if either == 0:
        return SIMILARITY_ONE
    return max(SIMILARITY_ONE * (3 * equal - both) // (2 * either), int64(0))
