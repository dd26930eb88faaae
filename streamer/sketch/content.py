"""The hash of a text's tokens in order: pages of equal content find each other under it.

content = fmix(seed + sum of fmix(token_i + i * step)) mod 2**64, `step` odd and secret. A sum has
no chain from one token to the next, as MurmurHash3 of all tokens would have: the compiler takes
eight tokens at once. What a token adds depends on its place, so order counts, and so do repeats.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import kernel, uint64


@kernel
def sum_content(
    tokens: npt.NDArray[np.uint64], first: int, count: int, before: int, step: int
) -> int:
    """Return what tokens[first:count] add to the sum, `before` tokens being in front of them."""
    total = uint64(0)
    for i in range(first, count):
        place = uint64(before) + uint64(i - first)
        total += fmix(tokens[i] + place * uint64(step))
    return total


@kernel
def content_hash(total: int, seed: int) -> int:
    """Return the hash of a text whose tokens add up to `total`."""
    return fmix(uint64(seed) + uint64(total))
