"""Min-hashes and band keys: pages that resemble each other share a band key.

Broder's min-hash: under a random permutation, two sets have the same minimum with probability equal
to their resemblance. The signature is cut into bands x rows; with resemblance s, two pages share at
least one band key with probability 1 - (1 - s**rows)**bands (Leskovec, Rajaraman, Ullman, ch. 3.4).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish
from streamer.kernel import kernel, uint32, uint64

EMPTY_MINIMUM = 0xFFFFFFFF


@kernel
def lower_minima(
    shingles: npt.NDArray[np.uint64],
    count: int,
    multipliers: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.uint32],
    minima: npt.NDArray[np.uint32],
) -> None:
    """Lower minima[j] to the least multipliers[j]*x + offsets[j] mod 2**32 of the shingles.

    x is the upper half of a shingle's hash. Four shingles at a time: each pass over the minima
    costs loads and stores, which four share.
    """
    hashes = multipliers.shape[0]
    whole = count - count % 4
    for i in range(0, whole, 4):
        x0 = uint32(shingles[i] >> uint64(32))
        x1 = uint32(shingles[i + 1] >> uint64(32))
        x2 = uint32(shingles[i + 2] >> uint64(32))
        x3 = uint32(shingles[i + 3] >> uint64(32))
        for j in range(hashes):
            a, c = multipliers[j], offsets[j]
            first = min(uint32(a * x0 + c), uint32(a * x1 + c))
            second = min(uint32(a * x2 + c), uint32(a * x3 + c))
            minima[j] = min(minima[j], first, second)
    for i in range(whole, count):
        x0 = uint32(shingles[i] >> uint64(32))
        for j in range(hashes):
            minima[j] = min(minima[j], uint32(multipliers[j] * x0 + offsets[j]))


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


@kernel
def absorb_content(
    tokens: npt.NDArray[np.uint64], first: int, count: int, state: npt.NDArray[np.uint64]
) -> None:
    """Feed tokens[first:count] to the hash; state = lane, lane, odd token, tokens so far."""
    if first < count and state[3] & uint64(1):
        state[0], state[1] = absorb(state[0], state[1], state[2], tokens[first])
        state[3] += uint64(1)
        first += 1
    lane1, lane2 = state[0], state[1]
    pairs = (count - first) // 2
    for i in range(first, first + 2 * pairs, 2):
        lane1, lane2 = absorb(lane1, lane2, tokens[i], tokens[i + 1])
    state[0], state[1] = lane1, lane2
    if first + 2 * pairs < count:
        state[2] = tokens[count - 1]
    state[3] += uint64(max(count - first, 0))


@kernel
def content_hash(state: npt.NDArray[np.uint64]) -> int:
    """Return mmh3.hash64(all token hashes as little-endian uint64, seed)[0]."""
    tail = state[2] if state[3] & uint64(1) else uint64(0)
    return finish(state[0], state[1], tail, uint64(0), state[3] * uint64(8))
