"""How much of a page lies in another one, by two sketches (Broder 1997: containment).

Of the shingles A and B of two pages, resemblance J is the share of common ones in both together,
and containment the share of A's that B has. With a and b their numbers,

    containment of A in B = J (a + b) / ((1 + J) a).

A sketch knows its number of shingles by its filled bins. To fill f of N bins takes on average N/N +
N/(N-1) + ... + N/(N-f+1) hashes: that is the estimate. Its standard deviation is .025 of the number
at 640 shingles, .07 at 5,000; a sketch of which all bins are filled, of 7,700 shingles and more,
looks like one of 7,700, so that less of a page seems to lie in it. To that comes the error of
resemblance. Containment is in ten-thousandths and by integers, so every machine has the same.
"""

from __future__ import annotations

import numpy as np

from streamer.kernel import inline_kernel, int64
from streamer.model import SIMILARITY_ONE
from streamer.sketch.resemblance import BINS, DENSE_LEVEL, Words, filled_of, level_of

SIZE_ONE = 1 << 10  # sizes are in parts of a shingle

_DENSE_SIZES = np.cumsum([0, *(SIZE_ONE * BINS // (BINS - filled) for filled in range(BINS))])


@inline_kernel
def size_of(sketch: Words) -> int:
    """Return the estimated number of distinct shingles of a page, times SIZE_ONE.

    A listed sketch has at most 298 of 2,048 bins or more: there three terms of the series do.
    """
    filled = filled_of(sketch)
    if level_of(sketch) == DENSE_LEVEL:
        return int64(_DENSE_SIZES[filled])
    bins = int64(1) << level_of(sketch)
    square = filled * filled
    return SIZE_ONE * filled + SIZE_ONE * square // (2 * bins) + (
        SIZE_ONE * square * filled // (3 * bins * bins)
    )  # fmt: skip


@inline_kernel
def contained_share(resemblance: int, own: int, other: int) -> int:
    """Return the containment of a page of size `own` in one of size `other`.

    Resemblance and containment are in ten-thousandths. Nothing is contained of a page of size 0.
    """
    if own == 0:
        return int64(0)
    share = SIMILARITY_ONE * resemblance * (own + other) // ((SIMILARITY_ONE + resemblance) * own)
    return min(share, int64(SIMILARITY_ONE))
