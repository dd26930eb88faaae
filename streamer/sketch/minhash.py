"""Min-hashes and band keys: pages that resemble each other share a band key.

Broder's min-hash: under a random permutation, two sets have the same minimum with probability equal
to their resemblance. k permutations cost k hashes a shingle; here one hash is enough for most pages
(Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, 2017). It throws each shingle into one of k
bins, and a bin's minimum is a min-hash. While bins are empty, which they are of short pages, there
are further rounds with further hashes, in which only these bins take part. The round in which a bin
is filled, and by which shingle, depends on the union of two sets as a permutation does, so that a
bin of both agrees with probability equal to their resemblance, whatever their size.

The signature is cut into bands x rows; with resemblance s, two pages share at least one band key
with probability 1 - (1 - s**rows)**bands (Leskovec, Rajaraman, Ullman, ch. 3.4).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish, fmix
from streamer.kernel import allocating_kernel, inline_kernel, int64, kernel, uint32, uint64

EMPTY_MINIMUM = 0xFFFFFFFF


@inline_kernel
def _bin_of(word: int, bins: int) -> int:
    """Return the upper half of `word`, scaled to [0, bins)."""
    return int64(((uint64(word) >> uint64(32)) * uint64(bins)) >> uint64(32))


@kernel
def lower_minima(
    shingles: npt.NDArray[np.uint64], count: int, minima: npt.NDArray[np.uint32]
) -> None:
    """Let shingles[:count] compete for `minima`, which start as EMPTY_MINIMUM: the first round.

    The upper half of a shingle's hash tells its bin, the lower half competes there.
    """
    bins = minima.shape[0]
    for i in range(count):
        place = _bin_of(shingles[i], bins)
        minima[place] = min(minima[place], uint32(shingles[i]))


@kernel
def has_empty(minima: npt.NDArray[np.uint32]) -> bool:
    """Tell whether a min-hash has no value yet."""
    empty = False
    for i in range(minima.shape[0]):
        empty |= minima[i] == uint32(EMPTY_MINIMUM)
    return empty


@allocating_kernel
def fill_empty(
    shingles: npt.NDArray[np.uint64],
    count: int,
    masks: npt.NDArray[np.uint64],
    minima: npt.NDArray[np.uint32],
) -> None:
    """Fill what is still empty of `minima` from shingles[:count], a round after the other.

    Round r hashes a shingle as fmix(shingle ^ masks[r]). There are two rounds a bin at most: in
    those of the second half all shingles fall into the same bin, each time into the next one, so
    that one shingle is enough to fill all. No shingle leaves all as it is.
    """
    bins = minima.shape[0]
    waiting = np.empty(bins, np.bool_)
    for number in range(masks.shape[0] if count else 0):
        empty = 0
        for place in range(bins):
            waiting[place] = minima[place] == uint32(EMPTY_MINIMUM)
            empty += waiting[place]
        if not empty:
            break
        for i in range(count):
            word = fmix(shingles[i] ^ masks[number])
            place = _bin_of(word, bins) if number < bins else number - bins
            if waiting[place]:
                minima[place] = min(minima[place], uint32(word))


@kernel
def fill_band_keys(
    minima: npt.NDArray[np.uint32], rows: int, seed: int, keys: npt.NDArray[np.uint64]
) -> None:
    """Hash each band's `rows` minima to keys[band].

    keys[band] = mmh3.hash64(the rows as little-endian uint32, seed + band mod 2**32)[0]: the band's
    number is in the seed, so that equal rows in different bands do not meet.
    """
    for band in range(keys.shape[0]):
        lane1 = lane2 = uint64(uint32(uint64(seed) + uint64(band)))
        word = low = uint64(0)
        for row in range(rows):
            value = uint64(minima[band * rows + row])
            if row % 2 == 0:
                word = value
                continue
            word |= value << uint64(32)
            if row % 4 == 1:
                low = word
            else:
                lane1, lane2 = absorb(lane1, lane2, low, word)
            word = uint64(0)
        if rows % 4 == 3:
            keys[band] = finish(lane1, lane2, low, word, uint64(4 * rows))
        elif rows % 4 == 0:
            keys[band] = finish(lane1, lane2, uint64(0), uint64(0), uint64(4 * rows))
        else:
            keys[band] = finish(
                lane1, lane2, low if rows % 4 == 2 else word, uint64(0), uint64(4 * rows)
            )
