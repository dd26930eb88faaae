"""How two sketches compare: one number in ten-thousandths, whatever the method.

A sketch is uint64[33], laid out as compact.py says for RESEMBLANCE and packers.py for all others.
One of zeros is that of a page with nothing to go by: equal to another such, and to no other. An
index keeps one measure, so a batch takes the same branch everywhere.
"""

from __future__ import annotations

import numpy as np

from streamer.kernel import inline_kernel, int64, kernel, popcount, uint64
from streamer.model import SIMILARITY_ONE
from streamer.sketch.method import Measure, Sketch
from streamer.sketch.packers import HASHES_MAX, SLOT_BITS_LEAST
from streamer.sketch.resemblance import similarity

_SLOTS, _HAMMING, _SAMPLE, _BOTTOM = (
    int(one) for one in (Measure.SLOTS, Measure.HAMMING, Measure.SAMPLE, Measure.BOTTOM)
)
_RESEMBLANCE = int(Measure.RESEMBLANCE)
_HALF = 32  # bits of a hash
_COUNT_MASK = 0xFFFF


@inline_kernel
def _count(sketch: Sketch) -> int:
    """Return how many entries a sketch holds (HAMMING: bits)."""
    return int64(sketch[0] & uint64(_COUNT_MASK))


@inline_kernel
def _entry(sketch: Sketch, place: int, bits: int) -> int:
    """Return the entry of `bits` (16, 32 or 64) at `place`."""
    at = place * bits
    word = sketch[1 + (at >> 6)] >> uint64(at & 63)
    entry: int = word & (uint64(0xFFFFFFFFFFFFFFFF) >> uint64(64 - bits))
    return entry


@kernel
def _slots(a: Sketch, b: Sketch) -> int:
    """Return the share of equal slots, of the longer sketch's, without those equal by chance.

    Slots of 16 bits keep a part of their values, of which one in 2**16 is equal by chance: of n,
    m equal, J = (m/n - c) / (1 - c) with c = 2**-16 (Li and Koenig 2010, b-bit min-wise hashing,
    theorem 1 for sets small beside the universe). That costs 1/(1 - c) of variance, nothing to
    speak of; wider slots need no correction.
    """
    count, longer = min(_count(a), _count(b)), max(_count(a), _count(b))
    if longer == 0:
        return int64(SIMILARITY_ONE)
    bits = int64((a[0] >> uint64(16)) & uint64(_COUNT_MASK))
    if count == 0 or bits != int64((b[0] >> uint64(16)) & uint64(_COUNT_MASK)):
        return int64(0)
    equal = int64(0)
    for i in range(count):
        equal += _entry(a, i, bits) == _entry(b, i, bits)
    if bits != SLOT_BITS_LEAST:
        return SIMILARITY_ONE * equal // longer
    scale = int64(1) << int64(SLOT_BITS_LEAST)
    return max(SIMILARITY_ONE * (scale * equal - longer) // (longer * (scale - 1)), int64(0))


@kernel
def _hamming(a: Sketch, b: Sketch) -> int:
    """Return the share of equal bits; 0 if the numbers of bits differ."""
    if a[0] != b[0]:
        return int64(0)
    bits = int64(a[0])
    if bits == 0:
        return int64(SIMILARITY_ONE)
    differing = int64(0)
    for i in range(1, 1 + ((bits + 63) >> 6)):
        differing += int64(popcount(a[i] ^ b[i]))
    return SIMILARITY_ONE * (bits - differing) // bits


@kernel
def _least_of_union(a: Sketch, b: Sketch, limit: int, bound: int) -> int:
    """Return the Jaccard similarity among the `limit` least hashes of the union, up to `bound`."""
    count_a, count_b = _count(a), _count(b)
    i = j = 0
    union = both = int64(0)
    while union < limit and (i < count_a or j < count_b):
        first = int64(_entry(a, i, _HALF)) if i < count_a else int64(1) << int64(32)
        second = int64(_entry(b, j, _HALF)) if j < count_b else int64(1) << int64(32)
        if min(first, second) > bound:
            break
        union += 1
        both += first == second
        i += first <= second
        j += second <= first
    return SIMILARITY_ONE * both // union if union else int64(0)


@inline_kernel
def _reach(sketch: Sketch) -> int:
    """Return up to which hash a sample is whole: its last one if it was cut."""
    if (sketch[0] >> uint64(16)) & uint64(1):
        return int64(_entry(sketch, _count(sketch) - 1, _HALF))
    return int64(0xFFFFFFFF)


@kernel
def _sample(a: Sketch, b: Sketch) -> int:
    """Return the Jaccard similarity of two samples, as far as both are whole."""
    if a[0] == 0 and b[0] == 0:
        return int64(SIMILARITY_ONE)
    if a[0] == 0 or b[0] == 0:
        return int64(0)
    return _least_of_union(a, b, int64(2 * HASHES_MAX), min(_reach(a), _reach(b)))


@kernel
def _bottom(a: Sketch, b: Sketch) -> int:
    """Return the share of the union's k least hashes that both have (Broder 1997, section 3).

    k is the lesser of the two; a sketch with fewer than its k hashes holds the whole set.
    """
    if a[0] == 0 and b[0] == 0:
        return int64(SIMILARITY_ONE)
    if a[0] == 0 or b[0] == 0:
        return int64(0)
    limit = min(int64(a[0] >> uint64(32)), int64(b[0] >> uint64(32)))
    return _least_of_union(a, b, limit, int64(0xFFFFFFFF))


@kernel
def _weighted(a: Sketch, b: Sketch) -> int:
    """Return how near the weights are if the digests are equal, else 0.

    It is one less the greatest (v - w)**2 / (v**2 + w**2) of a pair of weights v and w, so that
    the rule "all pairs below a" is the threshold 1 - a.
    """
    if a[0] != b[0] or a[1] != b[1] or a[2] != b[2]:
        return int64(0)
    weights_a, weights_b = a.view(np.float64), b.view(np.float64)
    apart = 0.0
    for i in range(3, 3 + int64(a[0])):
        v, w = weights_a[i], weights_b[i]
        squares = v * v + w * w
        if squares > 0.0:  # two zeros are equal
            apart = max(apart, (v - w) ** 2 / squares)
    return max(int64(int(SIMILARITY_ONE * (1.0 - apart))), int64(0))


@kernel
def _other_similarity(measure: int, a: Sketch, b: Sketch) -> int:
    """Return the similarity under any measure but RESEMBLANCE."""
    if measure == _SLOTS:
        return _slots(a, b)
    if measure == _HAMMING:
        return _hamming(a, b)
    if measure == _SAMPLE:
        return _sample(a, b)
    if measure == _BOTTOM:
        return _bottom(a, b)
    return _weighted(a, b)


@inline_kernel
def compare_sketches(measure: int, a: Sketch, b: Sketch) -> int:
    """Return the similarity of two sketches, for kernels.

    Inlined, since one more call would cost the default a third of a comparison of long pages.
    """
    return similarity(a, b) if measure == _RESEMBLANCE else _other_similarity(measure, a, b)


@kernel
def sketch_similarity(measure: int, a: Sketch, b: Sketch) -> int:
    """Return the similarity of two sketches under `measure` (a Measure), in ten-thousandths."""
    return compare_sketches(measure, a, b)


def similarity_of(measure: Measure, a: Sketch, b: Sketch) -> float:
    """Return the similarity of two sketches as a share, for callers in Python."""
    return int(sketch_similarity(int(measure), a, b)) / SIMILARITY_ONE
