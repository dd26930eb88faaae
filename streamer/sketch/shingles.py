"""Token hashes to shingle hashes: w consecutive tokens, hashed by a keyed polynomial.

shingle_i = fmix(t_i * B**(w-1) + ... + t_(i+w-1) * B**0 mod 2**64), B odd and secret: the
Rabin-Karp form, which needs no join of the tokens. Order counts, and so do repeats within a
shingle; a repeated shingle does not count twice, because all that follows takes minima.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import kernel


@kernel
def hash_shingles(
    tokens: npt.NDArray[np.uint64],
    count: int,
    powers: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
) -> int:
    """Hash the shingles of tokens[:count] into `out`; return their number, count - w + 1 or 0."""
    width = powers.shape[0]
    shingles: int = max(count - width + 1, 0)
    for i in range(shingles):
        out[i] = tokens[i] * powers[0]
    # Terms in the outer loop, so that the inner one takes several shingles at once.
    for j in range(1, width):
        power = powers[j]
        for i in range(shingles):
            out[i] += tokens[i + j] * power
    for i in range(shingles):
        out[i] = fmix(out[i])
    return shingles


@kernel
def count_distinct(
    shingles: npt.NDArray[np.uint64], count: int, seen: npt.NDArray[np.uint64], distinct: int
) -> int:
    """Add the distinct ones of shingles[:count] to seen[:distinct]; stop when `seen` is full.

    Only the question "as many as seen.shape[0]?" is ever asked, and ordinary text answers it after
    that many steps.
    """
    enough = seen.shape[0]
    for i in range(count):
        if distinct == enough:
            break
        known = False
        for j in range(distinct):
            known = known or seen[j] == shingles[i]
        if not known:
            seen[distinct] = shingles[i]
            distinct += 1
    return distinct
