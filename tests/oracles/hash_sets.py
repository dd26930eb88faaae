"""Sets of shingles and what they decide, in plain Python."""

from fractions import Fraction

import numpy as np

from streamer.model import SIMILARITY_ONE
from streamer.sketch.hash_sets import unpack_set

_LEVEL_MASK = 0xFF


def resemblance(one: bytes, other: bytes) -> Fraction:
    """Return the resemblance of two sets that are known."""
    a, b = (set(unpack_set(each).tolist()) for each in (one, other))
    return Fraction(len(a & b), len(a | b))


def is_doubtful(score: int, one: np.ndarray, other: np.ndarray, least: int) -> bool:
    """Return whether an estimate is within three of its standard deviations of the threshold.

    The variance is (1 - J)(J + 1/2) / (2N - E) at most, with E of N bins filled by either.
    """
    words = int(one[0]), int(other[0])
    bins = 2 ** min(word & _LEVEL_MASK for word in words)
    either = min(bins, sum(word >> 8 for word in words))
    threshold = Fraction(least, SIMILARITY_ONE)
    variance = (1 - threshold) * (threshold + Fraction(1, 2)) / (2 * bins - either)
    apart = abs(Fraction(score, SIMILARITY_ONE) - threshold) - Fraction(1, SIMILARITY_ONE)
    return bool(apart <= 0 or apart * apart <= 9 * variance)


def decided(
    score: int, sketches: tuple[np.ndarray, np.ndarray], sets: tuple[bytes, bytes], least: int
) -> tuple[int, bool]:
    """Return the similarity that decides, in ten-thousandths, and whether it is exact."""
    if not all(sets) or not is_doubtful(score, *sketches, least):
        return score, False
    return int(resemblance(*sets) * SIMILARITY_ONE), True
