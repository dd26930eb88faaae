"""The fast way for short ASCII tokens, which are most: a window of text, eight bytes at once.

A window is folded, and two bitmaps tell where tokens end and where other bytes than ASCII are. Then
tokens are found from bit to bit, and hashed together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import finish
from streamer.kernel import inline_kernel, int64, kernel, load_u64, trailing_zeros, uint8, uint64

WINDOW_WORDS = 512  # of text that is classified at a time: it stays in the first-level cache
MARGIN = 16  # words behind what is classified: two are read at any place, and whole blocks of bits
SHORT = 16  # an ASCII token of fewer bytes is hashed at once
LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(SHORT)], np.uint64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(SHORT)], np.uint64)

_GATHER = 0x0102040810204080  # times a word: brings the lowest bit of each byte to the top byte
_ONES = 0x0101010101010101  # eight bytes worked on at once, in one word ("SWAR")
_HIGHS = 0x8080808080808080


@inline_kernel
def _between(word: int, first: int, last: int) -> int:
    """Mark (0x80) the bytes of `word` in [first, last]; only where each byte is below 0x80."""
    above = uint64(word) + uint64(_ONES) * uint64(0x80 - first)
    beyond = uint64(word) + uint64(_ONES) * uint64(0x7F - last)
    return above & ~beyond & uint64(_HIGHS)


@inline_kernel
def _bits(highs: int) -> int:
    """Return the highest bits of a word's eight bytes as a number, where the others are 0."""
    return ((highs >> uint64(7)) * uint64(_GATHER)) >> uint64(56)


@kernel
def classify(
    text: npt.NDArray[np.uint8],
    place: int,
    end: int,
    folded: npt.NDArray[np.uint64],
    stops: npt.NDArray[np.uint8],
    others: npt.NDArray[np.uint8],
) -> int:
    """Fold and classify text[place:end], as much as there is room for; return where that ends.

    A bit of `stops` is set where no ASCII character of a token is, one of `others` where no ASCII
    is, and both behind the end of the text.
    """
    words = min((end - place + 7) >> 3, folded.shape[0] - MARGIN)
    for i in range(words):
        word = uint64(load_u64(text, place + 8 * i))
        plain = word & ~uint64(_HIGHS)
        lower = plain | (_between(plain, 0x41, 0x5A) >> uint64(2))  # A..Z
        inside = (
            _between(lower, 0x61, 0x7A) | _between(plain, 0x30, 0x39) | _between(plain, 0x5F, 0x5F)
        )
        folded[i] = lower
        stops[i] = _bits((~inside | word) & uint64(_HIGHS))
        others[i] = _bits(word & uint64(_HIGHS))
    for i in range(words, words + MARGIN):
        stops[i] = others[i] = uint8(0xFF)
    if place + 8 * words < end:
        return int(place + 8 * words)
    if words:
        behind = uint8(0xFF00 >> (8 * words - (end - place)))
        stops[words - 1] |= behind
        others[words - 1] |= behind
    return end


@kernel
def hash_ascii(  # noqa: PLR0913 - a kernel takes its arrays one by one
    at: int,
    size_max: int,
    seed: int,
    folded: npt.NDArray[np.uint8],
    stops: npt.NDArray[np.uint64],
    others: npt.NDArray[np.uint64],
    halves: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint64],
    first: int,
) -> tuple[int, int]:
    """Hash the short ASCII tokens from `at` on into out[first:]; return (next place, tokens).

    Stops before a token that is long, that meets another byte than ASCII (behind which it may go
    on), or that has no end in what is classified. The hashes are computed in a loop of their own,
    eight at once: a hash takes long, but hardly longer than its words alone take to be found.
    """
    count = 0
    start = at
    block = at >> 6
    stop = stops[block] & (uint64(0xFFFFFFFFFFFFFFFF) << uint64(at & 63))
    going = True
    while going:
        while stop == 0:
            block += 1
            stop = stops[block]
        bit = trailing_zeros(stop)
        size = 64 * block + int64(bit) - start
        going = size < SHORT and (others[block] >> bit) & uint64(1) == 0 and count < size_max
        if going:
            halves[0, count] = load_u64(folded, start) & LOW_BYTES[size]
            halves[1, count] = load_u64(folded, start + 8) & _HIGH_BYTES[size]
            halves[2, count] = size
            count += size > 0
            start += size + 1
            stop &= stop - uint64(1)
    for i in range(count):
        out[first + i] = finish(
            uint64(seed), uint64(seed), halves[0, i], halves[1, i], halves[2, i]
        )
    return start, count


@inline_kernel
def run_size(stops: npt.NDArray[np.uint64], at: int) -> int:
    """Return how many ASCII characters of a token begin at `at`, at most 8."""
    block, bit = at >> 6, uint64(at & 63)
    following = stops[block] >> bit | stops[block + 1] << uint64(1) << (uint64(63) - bit)
    return min(trailing_zeros(following), uint64(8))
