"""From the shingle hashes of one text to min-hashes, keys and sketch, for methods in Python.

The kernels are the native signer's; here they work on the whole set at once. All functions take
uint64 hashes that are distinct and ascending, and give the same whatever text they came from.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.kernel import uint64
from streamer.sketch.compact import (
    BINS,
    DENSE_LEVEL,
    EMPTY_BIN,
    LISTED_MAX,
    pack_dense,
    pack_listed,
)
from streamer.sketch.few import FEW_MAX
from streamer.sketch.method import ABSENT_KEY, Sketch, empty_sketch
from streamer.sketch.minhash import EMPTY_MINIMUM, fill_band_keys, fill_empty, lower_minima
from streamer.sketch.resemblance import hash_for_sketch, lower_bins
from streamer.sketch.secret import HashKeys

Hashes = npt.NDArray[np.uint64]
Minima = npt.NDArray[np.uint32]


def mixed(values: Hashes, mask: int = 0) -> Hashes:
    """Return MurmurHash3's finaliser of each value XOR `mask`: a bijection."""
    result = values ^ np.uint64(mask)
    hash_for_sketch(result, len(result), uint64(0))
    return result


def min_hashes(hashes: Hashes, keys: HashKeys) -> Minima:
    """Return the min-hashes of a set: uint32[hashes of `keys`]."""
    minima = np.full(len(keys.round_masks) // 2, EMPTY_MINIMUM, np.uint32)
    lower_minima(hashes, len(hashes), minima)
    further = _of_further_rounds(np.sort(mixed(hashes, keys.sketch_mask)))
    fill_empty(further, len(further), keys.round_masks, minima)
    return minima


def _of_further_rounds(hashes: Hashes) -> Hashes:
    """Return of ascending sketch hashes all if they are few, else the least one of each bin."""
    _, firsts = np.unique(hashes >> np.uint64(64 - DENSE_LEVEL), return_index=True)
    few = len(firsts) <= LISTED_MAX and len(hashes) <= FEW_MAX
    return hashes if few else hashes[firsts]


def block_hashes(minima: Minima, rows: int, seed: int) -> list[int]:
    """Return one 64-bit hash for each `rows` minima; the block's number is in its seed."""
    result = np.empty(len(minima) // rows, np.uint64)
    fill_band_keys(minima, rows, uint64(seed), result)
    return [int(value) for value in result]


def resemblance_sketch(hashes: Hashes, mask: int) -> Sketch:
    """Return the one-permutation sketch of compact.py, under the mask of the secret."""
    masked = np.sort(mixed(hashes, mask))
    sketch = empty_sketch()
    if not pack_listed(masked, len(masked), sketch):
        bins = np.full(BINS, EMPTY_BIN, np.uint64)
        lower_bins(masked, len(masked), bins)
        pack_dense(bins, sketch)
    return sketch


def class_keys(values: Hashes, classes: Hashes, bands: int, rows: int, seed: int) -> list[int]:
    """Return keys of one permutation: the least value of each class, `rows` classes a key.

    `classes` has the class of each value, below bands x rows. Two sets have the same least value
    in a class with about the probability of their resemblance, as with min-hashes, for one hash a
    shingle. A key whose classes are all empty is ABSENT_KEY.
    """
    minima = np.full(bands * rows, EMPTY_MINIMUM, np.uint32)
    found, firsts = np.unique(classes, return_index=True)  # the first one of a class is its least
    minima[found.astype(np.int64)] = values[firsts] >> np.uint64(32)
    keys = block_hashes(minima, rows, seed)
    empty = (minima.reshape(bands, rows) == EMPTY_MINIMUM).all(axis=1).tolist()
    return [ABSENT_KEY if none else key for key, none in zip(keys, empty, strict=True)]
