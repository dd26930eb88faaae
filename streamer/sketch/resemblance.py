"""The resemblance sketch: what a candidate is verified with.

One-permutation hashing (Li, Owen, Zhang 2012): the top bits of a shingle's sketch hash choose a
bin, and the least hash in a bin gives it a symbol, one of three, from its low bits. With E bins
where either page is filled, B where both are, M where both are and agree, and chance agreement 1/3,

    resemblance = (M - B/3) / (2/3 * E) = (3*M - B) / (2*E).

The fewer shingles, the more bins fit into the same bytes, because only filled ones are listed:
1,024 bins for a long page, up to 4 million for a short one, where nearly each shingle
has a bin of its own and the estimate is nearly exact. The least hash of a bin is the leftmost one,
so a fine sketch holds every coarser one, and two pages are compared at the coarser of their levels.

Similarities are whole ten-thousandths, rounded down, so that they compare exactly everywhere.

A sketch has 264 bytes, whatever the number of shingles. Word 0 is level | filled << 8. The other 32
words are the payload, bits counted from the lowest:

    level 10      2 bits a bin for all 1,024 bins: 0 empty, else the symbol 1, 2 or 3
    levels 11-22  the filled bins of 2**level in order, each as 8 high bits (in unary: for each of
                  the 256 values a one a bin, then a zero), and after these level - 8 low bits and
                  the symbol

A page takes the finest level that fits: 1,792 bits for filled * (level - 5). The split into unary
high and plain low bits is Elias and Fano's.
"""

# On documentation pages at resemblance .8 this sketch (264 bytes) has F1 .994 and rmse .008; 128
# min-hashes of 32 bits .980 and .022 in 512 bytes, 256 min-hashes of 4 bits .988 and .015 in 128.
# Short pages need fine levels: templates, mails and soft errors are close to the threshold.

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import int64, popcount, trailing_zeros, uint32, uint64
from streamer.model import SIMILARITY_ONE

Words = npt.NDArray[np.uint64]
Bins = npt.NDArray[np.uint32]

DENSE_LEVEL, FINEST_LEVEL = 10, 22
BINS = 1 << DENSE_LEVEL
PAYLOAD_WORDS = 32
SKETCH_WORDS = 1 + PAYLOAD_WORDS
SKETCH_BYTES = 8 * SKETCH_WORDS
EMPTY_BIN = 0xFFFFFFFFFFFFFFFF

_HIGH_BITS = 8
_HIGH_VALUES = 1 << _HIGH_BITS
_WORD_BITS = 64
_PAYLOAD_BITS = _WORD_BITS * PAYLOAD_WORDS
LISTED_BITS = _PAYLOAD_BITS - _HIGH_VALUES
LISTED_MAX = LISTED_BITS // 6  # filled bins that fit at level 11, the coarsest listed one
_FIELD_MAX = 16  # bits of a field, at most: it is in two words at most


@inline_kernel
def level_of(sketch: Words) -> int:
    """Return the level of a sketch; 2**level is its number of bins."""
    return int64(sketch[0] & uint64(0xFF))


@inline_kernel
def count_filled_bins(sketch: Words) -> int:
    """Return how many bins of a sketch are filled."""
    return int64(sketch[0] >> uint64(8))


@inline_kernel
def symbol_of(value: int) -> int:
    """Return the symbol (1 to 3) of a bin whose least hash is `value`: of its low 32 bits."""
    return uint64(1) + ((value & uint64(0xFFFFFFFF)) * uint64(3) >> uint64(32))


@inline_kernel
def _join(symbols: int) -> int:
    """Return eight bytes of two bits each as 16 bits."""
    pairs = (symbols | (symbols >> uint64(6))) & uint64(0x000F000F000F000F)
    fours = (pairs | (pairs >> uint64(12))) & uint64(0x000000FF000000FF)
    return (fours | (fours >> uint64(24))) & uint64(0xFFFF)


@allocating_kernel
def pack_dense(bins: Words, sketch: Words) -> None:
    """Write uint64[1024] least hashes (EMPTY_BIN: none) as a sketch of the dense level."""
    symbols = np.empty(BINS, np.uint8)  # a byte each at first: so several are made at once
    filled = uint64(0)
    for i in range(BINS):
        some = bins[i] != uint64(EMPTY_BIN)
        symbols[i] = symbol_of(bins[i]) if some else uint64(0)
        filled += uint64(some)
    eights = symbols.view(np.uint64)
    for i in range(PAYLOAD_WORDS):
        sketch[1 + i] = (
            _join(eights[4 * i])
            | (_join(eights[4 * i + 1]) << uint64(16))
            | (_join(eights[4 * i + 2]) << uint64(32))
            | (_join(eights[4 * i + 3]) << uint64(48))
        )
    sketch[0] = uint64(DENSE_LEVEL) | (filled << uint64(8))


@kernel
def _count_filled(hashes: Words, count: int, level: int) -> int:
    """Return how many bins of 2**level the sorted hashes fill."""
    filled = 0
    last = uint64(EMPTY_BIN)
    for i in range(count):
        place = hashes[i] >> uint64(64 - level)
        filled += place != last
        last = place
    return filled


@inline_kernel
def _put(words: Words, place: int, value: int) -> None:
    """Set the payload bits from `place` on to `value`; they are zero and it has 16 bits at most."""
    word, shift = 1 + (place >> 6), uint64(place & 63)
    words[word] |= uint64(value) << shift
    if shift > 64 - _FIELD_MAX and word < PAYLOAD_WORDS:
        words[word + 1] |= uint64(value) >> (uint64(64) - shift)


@inline_kernel
def _get(words: Words, place: int, width: int) -> int:
    """Return `width` (at most 16) payload bits from `place` on.

    Without a branch, which could not be foreseen: whether a field ends in the next word.
    """
    word, shift = 1 + (place >> 6), uint64(place & 63)
    beyond = words[min(word + 1, PAYLOAD_WORDS)] << uint64(1) << (uint64(63) - shift)
    field: int = (words[word] >> shift | beyond) & ((uint64(1) << uint64(width)) - uint64(1))
    return field


@kernel
def pack_listed(hashes: Words, count: int, sketch: Words) -> bool:
    """Write sorted hashes as the finest listed sketch that fits; return whether one did."""
    level = FINEST_LEVEL
    filled = _count_filled(hashes, count, level)
    while filled * (level - 5) > LISTED_BITS:
        level -= 1
        if level == DENSE_LEVEL:
            return False
        filled = _count_filled(hashes, count, level)
    sketch[:] = uint64(0)
    sketch[0] = uint64(level) | (uint64(filled) << uint64(8))
    low_bits = level - _HIGH_BITS
    unary, plain = 0, _HIGH_VALUES + filled
    high = uint64(0)
    last = uint64(EMPTY_BIN)
    for i in range(count):
        place = hashes[i] >> uint64(64 - level)
        if place == last:
            continue
        last = place
        unary += int64((place >> uint64(low_bits)) - high)  # a zero for each value skipped
        high = place >> uint64(low_bits)
        _put(sketch, unary, uint64(1))
        unary += 1
        low = place & ((uint64(1) << uint64(low_bits)) - uint64(1))
        _put(sketch, plain, (low << uint64(2)) | symbol_of(hashes[i]))
        plain += low_bits + 2
    return True


@kernel
def unpack_filled(sketch: Words, level: int, out: Bins) -> int:
    """List the filled bins at `level` (no finer than the sketch) as bin << 2 | symbol, ascending.

    `out` has room for 1,024. Of several filled bins that fall into one, the leftmost holds the
    least hash. Returns their number.
    """
    own = level_of(sketch)
    count = 0
    if own == DENSE_LEVEL:
        for i in range(BINS):
            symbol = (sketch[1 + (i >> 5)] >> uint64(2 * (i & 31))) & uint64(3)
            if symbol:
                out[count] = uint32((uint64(i) << uint64(2)) | symbol)
                count += 1
        return count
    filled = count_filled_bins(sketch)
    low_bits = own - _HIGH_BITS
    plain = unary_end = _HIGH_VALUES + filled
    listed, last = int64(0), uint64(EMPTY_BIN)
    for start in range(0, unary_end, _WORD_BITS):
        ones = sketch[1 + start // _WORD_BITS]
        if unary_end - start < _WORD_BITS:
            ones &= (uint64(1) << uint64(unary_end - start)) - uint64(1)
        while ones:  # before each there are as many zeros as its high bits say
            high = uint64(start + int64(trailing_zeros(ones)) - listed)
            ones &= ones - uint64(1)
            listed += 1
            entry = _get(sketch, plain, low_bits + 2)
            plain += low_bits + 2
            place = ((high << uint64(low_bits)) | (entry >> uint64(2))) >> uint64(own - level)
            if place != last:
                out[count] = uint32((place << uint64(2)) | (entry & uint64(3)))
                count += 1
                last = place
    return count


_LOW_BITS = 0x5555555555555555  # the lower bit of each 2-bit symbol


@kernel
def hash_for_sketch(shingles: Words, count: int, mask: int) -> None:
    """Turn shingles[:count] into sketch hashes, independent of all that the band keys use.

    In place: of two arrays that are the same one the compiler takes an element at a time.
    """
    for i in range(count):
        shingles[i] = fmix(shingles[i] ^ uint64(mask))


@kernel
def lower_bins(hashes: Words, count: int, bins: Words) -> None:
    """Let sketch hashes compete for uint64[1024] `bins`, which start as EMPTY_BIN."""
    for i in range(count):
        place = hashes[i] >> uint64(64 - DENSE_LEVEL)
        bins[place] = min(bins[place], hashes[i])


@inline_kernel
def _fill(word: int) -> int:
    """Mark the lower bit of each symbol that is not empty."""
    return (word | (word >> uint64(1))) & uint64(_LOW_BITS)


@kernel
def _count_dense(a: Words, b: Words) -> tuple[int, int, int]:
    """Return (E, B, M) of two sketches at the dense level, 32 bins an instruction."""
    either = both = equal = int64(0)
    for i in range(1, 1 + PAYLOAD_WORDS):
        filled_a, filled_b = _fill(a[i]), _fill(b[i])
        shared = filled_a & filled_b
        either += int64(popcount(filled_a | filled_b))
        both += int64(popcount(shared))
        equal += int64(popcount(shared & ~_fill(a[i] ^ b[i])))
    return either, both, equal


@allocating_kernel
def _count_listed(a: Words, b: Words, level: int) -> tuple[int, int, int]:
    """Return (E, B, M) of two sketches at `level`, by merging their lists of filled bins."""
    list_a, list_b = np.empty(BINS, np.uint32), np.empty(BINS, np.uint32)
    count_a, count_b = unpack_filled(a, level, list_a), unpack_filled(b, level, list_b)
    i = j = 0
    both = equal = int64(0)
    while i < count_a and j < count_b:
        bin_a, bin_b = list_a[i] >> 2, list_b[j] >> 2
        if bin_a == bin_b:
            both += 1
            equal += list_a[i] == list_b[j]
        i += bin_a <= bin_b
        j += bin_b <= bin_a
    return int64(count_a + count_b - both), both, equal


@inline_kernel
def _are_equal(a: Words, b: Words) -> bool:
    """Return whether two sketches are the same one, as of exact copies."""
    differing = uint64(0)
    for i in range(SKETCH_WORDS):
        differing |= a[i] ^ b[i]
    return bool(differing == 0)


@kernel
def similarity(a: Words, b: Words) -> int:
    """Return the estimated resemblance of two sketches (uint64[33] each) in ten-thousandths."""
    if _are_equal(a, b):
        return SIMILARITY_ONE
    if level_of(a) == DENSE_LEVEL and level_of(b) == DENSE_LEVEL:
        either, both, equal = _count_dense(a, b)
    else:
        either, both, equal = _count_listed(a, b, min(level_of(a), level_of(b)))
    if either == 0:
        return SIMILARITY_ONE
    return max(SIMILARITY_ONE * (3 * equal - both) // (2 * either), int64(0))
