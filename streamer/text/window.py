"""A window of text, eight bytes at once: folded, classified, and cut into runs.

A run is a stretch of bytes of which each is a letter, digit or underscore of ASCII or no ASCII at
all. Where it ends a token ends, whatever its other characters are. Bitmaps, one bit a byte, tell
where runs are and where other bytes than ASCII; where the first one changes, a run begins or ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import (
    allocating_kernel,
    inline_kernel,
    int64,
    kernel,
    load_u64,
    popcount,
    trailing_zeros,
    uint8,
    uint64,
)

WINDOW_WORDS = 512  # of text that is classified at a time: it stays in the first-level cache
MARGIN = 16  # words behind what is classified: two are read at any place, and whole blocks of bits
EDGES = 8 * WINDOW_WORDS + 64  # room for the places where runs begin and end

_EDGES_FEW = 24  # of a block of 64 bytes: so many are written whether there are as many or not
_GATHER = 0x0102040810204080  # times a word: brings the lowest bit of each byte to the top byte
_ONES = 0x0101010101010101  # eight bytes worked on at once, in one word ("SWAR")
_HIGHS = 0x8080808080808080


class Window(NamedTuple):
    """What is known of a window of text; made by `new_window`.

    Attributes:
        folded, folded_bytes: the text with ASCII in lower case, as uint64 and as uint8.
        inside, inside_words: uint8 and uint64, a bit for each byte that is of a run.
        others: uint8, a bit for each byte that is no ASCII.
        edges: uint16, edges[2 * i] is the first byte of run i, edges[2 * i + 1] the one behind.
    """

    folded: npt.NDArray[np.uint64]
    folded_bytes: npt.NDArray[np.uint8]
    inside: npt.NDArray[np.uint8]
    inside_words: npt.NDArray[np.uint64]
    others: npt.NDArray[np.uint8]
    edges: npt.NDArray[np.uint16]


@allocating_kernel
def new_window() -> Window:
    """Return room for a window."""
    folded = np.empty(WINDOW_WORDS + MARGIN, np.uint64)
    inside = np.empty(WINDOW_WORDS + MARGIN, np.uint8)
    others = np.empty(WINDOW_WORDS + MARGIN, np.uint8)
    return Window(
        folded,
        folded.view(np.uint8),
        inside,
        inside.view(np.uint64),
        others,
        np.empty(EDGES, np.uint16),
    )


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
def classify(text: npt.NDArray[np.uint8], place: int, end: int, window: Window) -> int:
    """Fold and classify text[place:end], as much as there is room for; return where that ends.

    Behind the end no bit is set. Where other bytes than ASCII are, `folded` has nothing of use.
    """
    folded, inside, others = window.folded, window.inside, window.others
    words = min((end - place + 7) >> 3, folded.shape[0] - MARGIN)
    for i in range(words):
        word = uint64(load_u64(text, place + 8 * i))
        plain = word & ~uint64(_HIGHS)
        lower = plain | (_between(plain, 0x41, 0x5A) >> uint64(2))  # A..Z
        token = (
            _between(lower, 0x61, 0x7A) | _between(plain, 0x30, 0x39) | _between(plain, 0x5F, 0x5F)
        )
        folded[i] = lower
        inside[i] = _bits((token | word) & uint64(_HIGHS))
        others[i] = _bits(word & uint64(_HIGHS))
    for i in range(words, words + MARGIN):
        inside[i] = others[i] = uint8(0)
    if place + 8 * words < end:
        return int(place + 8 * words)
    if words:
        here = uint8(0xFF >> (8 * words - (end - place)))
        inside[words - 1] &= here
        others[words - 1] &= here
    return end


@kernel
def find_edges(window: Window, size: int) -> int:
    """Write where runs begin and end in the first `size` bytes; return the number of runs.

    Bits are told one by one without a branch for each (Langdale, Lemire: Parsing Gigabytes of JSON
    per Second, 2019): a number of them is always written, and only so many count as there are.
    """
    inside, edges = window.inside_words, window.edges
    count = 0
    before = uint64(0)
    for block in range((size + 64) >> 6):  # one bit behind the last byte: where the last run ends
        runs = inside[block]
        changes = runs ^ ((runs << uint64(1)) | before)
        before = runs >> uint64(63)
        found = int64(popcount(changes))
        for i in range(_EDGES_FEW):
            edges[count + i] = uint64(64 * block) + trailing_zeros(changes)
            changes &= changes - uint64(1)
        for i in range(_EDGES_FEW, found):
            edges[count + i] = uint64(64 * block) + trailing_zeros(changes)
            changes &= changes - uint64(1)
        count += found
    return count >> 1


@inline_kernel
def bits_from(bitmap: npt.NDArray[np.uint8], at: int) -> int:
    """Return the bits of a bitmap from byte `at` of the window on: 57 of them, the rest unknown."""
    return uint64(load_u64(bitmap, at >> 3)) >> uint64(at & 7)


@inline_kernel
def ascii_size(window: Window, at: int) -> int:
    """Return how many ASCII characters of a token begin at `at`, at most 8."""
    following = bits_from(window.inside, at) & ~bits_from(window.others, at)
    return min(trailing_zeros(~following), uint64(8))
