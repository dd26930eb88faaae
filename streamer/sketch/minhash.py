"""From token hashes to what a signature is made of: shingles, content key, minima, sketch hashes.

Broder's min-hash: under a random permutation, two sets have the same minimum with probability equal
to their resemblance. k permutations cost k hashes a shingle; here one hash is enough for most pages
(Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, 2017). It throws each shingle into one of k
bins, and a bin's minimum is a min-hash. While bins are empty, which they are of short pages, there
are further rounds with further hashes, in which only these bins take part. The round in which a bin
is filled, and by which shingle, depends on the union of two sets as a permutation does, so that a
bin of both agrees with probability equal to their resemblance, whatever their size.

The signature is cut into bands x rows; with resemblance s, two pages share at least one band key
with probability 1 - (1 - s**rows)**bands (Leskovec, Rajaraman, Ullman, ch. 3.4).

A fine sketch is made from the distinct sketch hashes of a page that has few of them. Most pages
have too many, which their 1,024 bins show after the first block; from then on nothing is collected.
Repeated text has few however long it is, so the set goes on from block to block.
"""

# The default is 14 bands of 6 rows: a pair at .8 shares a key with probability .986, at .85 .999.
# The content key is needed in addition: pages too short to compare have no other.

# The share of equal bins varies less than with permutations, so short pages are found more often:
# of 3,000 pairs of resemblance .8, .993 at 100 and 200 shingles and .986 at 640; the formula gives
# .987 and .986.

import numpy as np
import numpy.typing as npt

from streamer.hashing import absorb, finish, fmix
from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import int64, uint32, uint64
from streamer.sketch.resemblance import BINS, EMPTY_BIN, LISTED_MAX, Words

Minima = npt.NDArray[np.uint32]


@kernel
def hash_shingles(tokens: Words, count: int, powers: Words, out: Words) -> int:
    """Hash the shingles of tokens[:count] into `out`; return their number, count - w + 1 or 0.

    shingle_i = fmix(t_i * B**(w-1) + ... + t_(i+w-1) * B**0 mod 2**64), B odd and secret: the
    Rabin-Karp form, which needs no join of the tokens. Order counts, and so do repeats within a
    shingle; a repeated shingle does not count twice, because all that follows takes minima.
    """
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


@kernel
def sum_content(tokens: Words, first: int, count: int, before: int, step: int) -> int:
    """Return what tokens[first:count] add to the sum, `before` tokens being in front of them.

    content = fmix(seed + sum of fmix(token_i + i * step)) mod 2**64, `step` odd and secret. A sum
    has no chain from one token to the next, as MurmurHash3 of all tokens would have: the compiler
    takes eight tokens at once. What a token adds depends on its place, so order counts, and so do
    repeats.
    """
    total = uint64(0)
    for i in range(first, count):
        place = uint64(before) + uint64(i - first)
        total += fmix(tokens[i] + place * uint64(step))
    return total


@kernel
def content_hash(total: int, seed: int) -> int:
    """Return the hash of a text whose tokens add up to `total`."""
    return fmix(uint64(seed) + uint64(total))


EMPTY_MINIMUM = 0xFFFFFFFF


@inline_kernel
def _bin_of(word: int, bins: int) -> int:
    """Return the upper half of `word`, scaled to [0, bins)."""
    return int64(((uint64(word) >> uint64(32)) * uint64(bins)) >> uint64(32))


@kernel
def lower_minima(shingles: Words, count: int, minima: Minima) -> None:
    """Let shingles[:count] compete for `minima`, which start as EMPTY_MINIMUM: the first round.

    The upper half of a shingle's hash chooses its bin, the lower half competes there.
    """
    bins = minima.shape[0]
    for i in range(count):
        place = _bin_of(shingles[i], bins)
        minima[place] = min(minima[place], uint32(shingles[i]))


@kernel
def has_empty(minima: Minima) -> bool:
    """Return whether a min-hash has no value yet."""
    empty = False
    for i in range(minima.shape[0]):
        empty |= minima[i] == uint32(EMPTY_MINIMUM)
    return empty


@allocating_kernel
def fill_empty(shingles: Words, count: int, masks: Words, minima: Minima) -> None:
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
def fill_band_keys(minima: Minima, rows: int, seed: int, keys: Words) -> None:
    """Hash each band's `rows` minima to keys[band].

    keys[band] = mmh3.hash64(the rows as little-endian uint32, seed + band mod 2**32)[0]: the band's
    number is in the seed, so that equal rows in different bands do not meet.
    """
    length = uint64(4 * rows)
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
            keys[band] = finish(lane1, lane2, low, word, length)
        elif rows % 4 == 0:
            keys[band] = finish(lane1, lane2, uint64(0), uint64(0), length)
        else:
            tail = low if rows % 4 == 2 else word
            keys[band] = finish(lane1, lane2, tail, uint64(0), length)


FEW_MAX = 2 * LISTED_MAX  # far more than distinct hashes in LISTED_MAX bins, but by chance
SLOTS = 2048


@kernel
def may_be_few(bins: Words) -> bool:
    """Return whether so few bins are filled that a listed sketch may fit."""
    filled = uint64(0)
    for i in range(BINS):
        filled += uint64(bins[i] != uint64(EMPTY_BIN))
    return filled <= LISTED_MAX


@kernel
def write_filled_bins(bins: Words, out: Words) -> int:
    """Write the least hashes of the filled bins to `out`; return their number."""
    count = 0
    for value in bins:
        out[count] = value
        count += value != uint64(EMPTY_BIN)
    return count


@kernel
def add_distinct(hashes: Words, count: int, slots: Words, distinct: int) -> int:
    """Add hashes[:count] to the set uint64[SLOTS] (EMPTY_BIN: free); return its size.

    Stops when the size passes FEW_MAX.
    """
    for i in range(count):
        slot = int64(hashes[i] & uint64(SLOTS - 1))
        while slots[slot] != uint64(EMPTY_BIN) and slots[slot] != hashes[i]:
            slot = (slot + 1) & (SLOTS - 1)
        if slots[slot] == uint64(EMPTY_BIN):
            slots[slot] = hashes[i]
            distinct += 1
            if distinct > FEW_MAX:
                break
    return distinct


@allocating_kernel
def write_sorted_members(slots: Words, out: Words) -> int:
    """Write the members of the set to uint64[FEW_MAX] `out`, ascending; return their number.

    A counting sort by the top eight bits, then an insertion sort that hardly has to move anything.
    """
    starts = np.zeros(257, np.int64)
    for value in slots:
        if value != uint64(EMPTY_BIN):
            starts[int64(value >> uint64(56)) + 1] += 1
    for i in range(256):
        starts[i + 1] += starts[i]
    count: int = starts[256]
    for value in slots:
        if value != uint64(EMPTY_BIN):
            place = int64(value >> uint64(56))
            out[starts[place]] = value
            starts[place] += 1
    for i in range(1, count):
        value = out[i]
        j = i
        while j > 0 and out[j - 1] > value:
            out[j] = out[j - 1]
            j -= 1
        out[j] = value
    return count
