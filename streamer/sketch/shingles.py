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
    # Terms in the outer loop, so that the inner one takes several shingles at once; two terms a
    # pass, since each pass reads and writes all of `out`.
    pairs = (width - 1) // 2
    for pair in range(pairs):
        j = 1 + 2 * pair
        first, second = powers[j], powers[j + 1]
        for i in range(shingles):
            out[i] += tokens[i + j] * first + tokens[i + j + 1] * second
    if 1 + 2 * pairs < width:
        for i in range(shingles):
            out[i] += tokens[i + width - 1] * powers[width - 1]
    for i in range(shingles):
        out[i] = fmix(out[i])
    return shingles
