"""Sets of a page's shingle hashes: what decides where two sketches leave the decision in doubt.

A sketch estimates resemblance; the sets give it. Of each distinct shingle a set has the upper 32
bits of its sketch hash. Two that differ have the same 32 bits with probability 2**-32, so of two
pages of n and m shingles n * m / 2**32 too many are found in common: one in 4,300 pairs of pages of
1,000 shingles has one. That moves resemblance by 1 / (n + m), and a decision only where it is that
near to the threshold.

Sets as bytes: how many hashes, u32, and the gaps between them in order, less one, each as a Rice
code: of a gap the bits from `low_bits` on as so many zeros and a one, then `low_bits` bits. With
2**low_bits next below the mean gap that takes 1.5 bits more than its logarithm: 3 bytes a shingle
of a page with 600, and 2.2 of one with 60,000. No bytes at all stand for a set that is not known:
that of a page with more than SET_MAX distinct shingles, or with none. There the sketches decide.
"""

# The margin is three standard deviations, .048 on both sides for long pages at .8. The variance is
# an integer, so every machine has the same pages in doubt. The kernel stops where it needs sets,
# receives the resemblance, and continues: only candidates' sets are read.

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import int64, load_u64, store_u64, trailing_zeros, uint32, uint64
from streamer.model import SIMILARITY_ONE
from streamer.sketch.method import Sketch, sketch_similarity
from streamer.sketch.resemblance import BINS, count_filled_bins, level_of
from streamer.text.scan import Bytes

SET_MAX = 1 << 16  # distinct shingles: some 400 kB of text, whose set has 140 kB
SET_BYTES_MAX = 4 + 5 * SET_MAX  # as written: far more than are needed
DEVIATIONS = 3  # of an estimate from the threshold, within which the sets decide
UNKNOWN = -1  # the similarity of sets of which one is not known
HASH_BITS = 32

_PADDING = bytes(8)  # a kernel takes eight bytes at a time
_DIGIT_BITS = 8
_ZEROS_MAX = 32  # of a code that are written at once
_ZEROS_SEEN = 56  # of a code that are read at once, from any bit of a byte on

Hashes = npt.NDArray[np.uint32]


class Collected(NamedTuple):
    """The hashes of a page while it is signed.

    Attributes:
        hashes: uint32[2 * SET_MAX], in any order and more than once; none if no set is asked for.
        held: int64[1], how many they are; UNKNOWN once more than SET_MAX differ.
    """

    hashes: Hashes
    held: npt.NDArray[np.int64]


@allocating_kernel
def _sort(hashes: Hashes, count: int) -> None:
    """Sort hashes[:count] by their bytes, the lowest first: linear whatever they are."""
    one, other = hashes[:count], np.empty(count, np.uint32)
    places = np.empty(1 << _DIGIT_BITS, np.int64)
    for shift in range(0, HASH_BITS, _DIGIT_BITS):
        places[:] = 0
        for i in range(count):
            places[(one[i] >> uint32(shift)) & uint32(0xFF)] += 1
        before = 0
        for digit in range(places.shape[0]):
            here = places[digit]
            places[digit] = before
            before += here
        for i in range(count):
            digit = int64((one[i] >> uint32(shift)) & uint32(0xFF))
            other[places[digit]] = one[i]
            places[digit] += 1
        one, other = other, one


@allocating_kernel
def sort_distinct(hashes: Hashes, count: int) -> int:
    """Sort hashes[:count], each once; return how many are left."""
    _sort(hashes, count)
    left = 0
    for i in range(count):
        if left == 0 or hashes[i] != hashes[left - 1]:
            hashes[left] = hashes[i]
            left += 1
    return left


@allocating_kernel
def collect(sketch_hashes: Sketch, count: int, collected: Collected) -> None:
    """Add sketch_hashes[:count] to those of the page."""
    hashes, held = collected.hashes, collected.held[0]
    for i in range(count if held >= 0 else 0):
        if held == hashes.shape[0]:
            held = sort_distinct(hashes, held)
            if held > SET_MAX:
                held = UNKNOWN
                break
        hashes[held] = uint32(sketch_hashes[i] >> uint64(HASH_BITS))
        held += 1
    collected.held[0] = held


@inline_kernel
def _low_bits(count: int) -> int:
    """Return how many bits of a gap are written as they are, in a set of so many."""
    low_bits = HASH_BITS
    while (1 << (HASH_BITS - low_bits)) < count:
        low_bits -= 1
    return low_bits


@kernel
def pack_into(hashes: Hashes, count: int, out: Bytes, at: int) -> int:
    """Write hashes[:count], ascending and distinct, to out[at:]; return where they end.

    From low to high, eight bytes at a time; `out` has eight bytes more than are needed.
    """
    low_bits = _low_bits(count)
    low_mask = (uint64(1) << uint64(low_bits)) - uint64(1)
    store_u64(out, at, uint64(count))
    at += 4
    word, fill, following = uint64(0), 0, uint64(0)
    for i in range(count):
        gap = uint64(hashes[i]) - following
        following = uint64(hashes[i]) + uint64(1)
        zeros = int64(gap >> uint64(low_bits))
        while zeros >= _ZEROS_MAX:
            store_u64(out, at, word)
            at, word, zeros = at + _ZEROS_MAX // 8, uint64(0), zeros - _ZEROS_MAX
            store_u64(out, at, word)
        word |= uint64(1) << uint64(fill + zeros)
        fill += zeros + 1
        store_u64(out, at, word)
        at, word, fill = at + (fill >> 3), word >> uint64(fill & ~7), fill & 7
        word |= (gap & low_mask) << uint64(fill)
        fill += low_bits
        store_u64(out, at, word)
        at, word, fill = at + (fill >> 3), word >> uint64(fill & ~7), fill & 7
    store_u64(out, at, word)
    return at + (fill > 0)


@allocating_kernel
def _unpack(data: Bytes) -> Hashes:
    """Return the hashes of a set; `data` is its bytes and _PADDING."""
    count = int64(load_u64(data, 0) & uint64(0xFFFFFFFF))
    out = np.empty(count, np.uint32)
    low_bits = _low_bits(count)
    low_mask = (uint64(1) << uint64(low_bits)) - uint64(1)
    seen_mask = (uint64(1) << uint64(_ZEROS_SEEN)) - uint64(1)
    at, following = int64(32), uint64(0)
    for i in range(count):
        high = int64(0)
        word = load_u64(data, at >> 3) >> uint64(at & 7)
        while word & seen_mask == 0:
            high, at = high + _ZEROS_SEEN, at + _ZEROS_SEEN
            word = load_u64(data, at >> 3) >> uint64(at & 7)
        zeros = int64(trailing_zeros(word))
        high, at = high + zeros, at + zeros + 1
        low = load_u64(data, at >> 3) >> uint64(at & 7) & low_mask
        at += low_bits
        following += (uint64(high) << uint64(low_bits)) | low
        out[i] = uint32(following)
        following += uint64(1)
    return out


@allocating_kernel
def _similarity(a: Bytes, b: Bytes) -> int:
    """Return the resemblance of two sets in ten-thousandths, rounded down."""
    one, other = _unpack(a), _unpack(b)
    i = j = both = int64(0)
    while i < one.shape[0] and j < other.shape[0]:
        first, second = one[i], other[j]
        both += first == second
        i += first <= second
        j += second <= first
    return SIMILARITY_ONE * both // int64(one.shape[0] + other.shape[0] - both)


def _pad(data: bytes) -> Bytes:
    return np.frombuffer(data + _PADDING, np.uint8)


def set_similarity(a: bytes, b: bytes) -> int:
    """Return the resemblance of two sets in ten-thousandths; UNKNOWN where one is not known."""
    return int(_similarity(_pad(a), _pad(b))) if a and b else UNKNOWN


def pack_set(hashes: Sketch) -> bytes:
    """Return a set of 64-bit hashes as bytes: none where it is empty or too large."""
    own = np.unique((hashes >> np.uint64(HASH_BITS)).astype(np.uint32))
    if not 0 < len(own) <= SET_MAX:
        return b""
    out = np.empty(5 * len(own) + 16, np.uint8)
    return out[: pack_into(own, len(own), out, 0)].tobytes()


def unpack_set(data: bytes) -> Hashes:
    """Return the hashes of a set that is known: uint32, ascending."""
    found: Hashes = _unpack(_pad(data))
    return found


@inline_kernel
def in_doubt(score: int, a: Sketch, b: Sketch, least: int) -> bool:
    """Return whether an estimate is within three standard deviations of the threshold `least`.

    All are in ten-thousandths. The estimate is that of resemblance.py: of N bins, E are filled by
    either page. Their least shingles are a sample of all, without repeats, so the share of common
    ones has the variance J(1 - J)/E, times the part of the shingles that is not in the sample. In
    the other (1 - J)E bins both pages have one where several fell, and those agree by chance in a
    third of all cases: that adds half their number, over E**2. With Poisson's numbers in the bins
    both parts are below E/(2N - E), so

        variance <= (1 - J)(J + 1/2) / (2N - E), and it is that where all bins are filled.

    E is at most what both have filled. One ten-thousandth is that of rounding.
    """
    bins = int64(1) << min(level_of(a), level_of(b))
    either = min(count_filled_bins(a) + count_filled_bins(b), bins)
    apart = max(abs(score - least) - 1, 0)
    variance = (SIMILARITY_ONE - least) * (2 * least + SIMILARITY_ONE)  # times what is below
    return bool(2 * (2 * bins - either) * apart * apart <= DEVIATIONS * DEVIATIONS * variance)


@kernel
def _in_doubt(score: int, a: Sketch, b: Sketch, least: int) -> bool:
    return in_doubt(score, a, b, least)


def widest_doubt(least: int) -> int:
    """Return how far an estimate that is in doubt may be from the threshold, in ten-thousandths."""
    variance = (SIMILARITY_ONE - least) * (2 * least + SIMILARITY_ONE)
    return math.isqrt(DEVIATIONS * DEVIATIONS * variance // (2 * BINS)) + 2


Sets = Callable[[], tuple[bytes, bytes]]


def decide_similarity(
    measure: int, a: Sketch, b: Sketch, least: int, sets: Sets | None
) -> tuple[int, bool]:
    """Return the similarity that decides at the threshold `least`, and whether it is exact.

    Both are in ten-thousandths. `sets` is called where the sketches leave it in doubt; None where
    there are none.
    """
    score = int(sketch_similarity(measure, a, b))
    if sets is not None and _in_doubt(score, a, b, least):
        exact = set_similarity(*sets())
        if exact != UNKNOWN:
            return exact, True
    return score, False
