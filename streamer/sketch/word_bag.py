"""Bags of words in native code: each word of a text with how many times it came before.

The method `words` (methods/minwise.py) takes a bag as a set: of `a rose is a rose` it hashes
`a 0`, `rose 0`, `is 0`, `a 1`, `rose 1`. The strings are never joined. The token kernel leaves each
word's hash as it was before its last step, so the number goes into it after the word. How often a
word came is counted under its 64-bit hash. Two words of one page with the same hash would count as
one, which happens to one page in 10**14 of 600 words.

The table of words has a fixed number of slots, and most pages need few: clearing a table for the
largest page would take longer than signing a small one. A page that needs more is signed again with
a table twice as large (signer.py), so memory follows the distinct words of the largest page.
"""

# 24 bands of 8 rows: unrelated pages of one language share a fifth to a third of their words, so 6
# rows would fill buckets with them.

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, uint32, uint64
from streamer.sketch.resemblance import Words
from streamer.text.tokens import Token, close, push

NO_ROOM = -1
BAG_SLOTS = 4096  # a power of two: pages of 3,072 distinct words, some 50 kB of text
_SPACE, _ZERO = 0x20, 0x30


class Bag(NamedTuple):
    """The words of a page and how often each came; made by `new_bag`.

    Attributes:
        words: uint64[slots], hashes of words, by linear probing.
        counts: uint32[slots], how often the word of each slot came; 0: it is free.
        held: int64[1], how many slots are taken.
    """

    words: Words
    counts: npt.NDArray[np.uint32]
    held: npt.NDArray[np.int64]


def new_bag(slots: int) -> Bag:
    """Return an empty bag of a power of two slots, of which three quarters are used; or of none."""
    return Bag(np.empty(slots, np.uint64), np.zeros(slots, np.uint32), np.zeros(1, np.int64))


@kernel
def empty_bag(bag: Bag) -> None:
    """Remove all words."""
    bag.counts[:] = uint32(0)
    bag.held[0] = 0


@inline_kernel
def _slot_of(word: int, bag: Bag) -> int:
    """Return the slot of a word: where it is, or the free one where it belongs."""
    last = uint64(bag.counts.shape[0] - 1)
    slot = int64(word & last)
    while bag.counts[slot] != 0 and bag.words[slot] != word:
        slot = int64(uint64(slot + 1) & last)
    return slot


@inline_kernel
def _hash_numbered(token: Token, before: int) -> int:
    """Return the hash of a token with a space and a decimal number after it."""
    power = uint64(1)
    while before >= uint64(10) * power:
        power *= uint64(10)
    digit = before if power == uint64(1) else before // power  # a division takes long
    token = push(token, uint64(_SPACE) | ((uint64(_ZERO) + digit) << uint64(8)), uint64(2))
    while power > uint64(1):
        before %= power
        power //= uint64(10)
        token = push(token, uint64(_ZERO) + before // power, uint64(1))
    return close(token)


@kernel
def number_words(tokens: Words, ends: Words, count: int, bag: Bag, out: Words) -> int:
    """Hash tokens[:count] with their numbers into `out`; return `count`, or NO_ROOM in the bag.

    `ends` has the fields of `Token` for each (tokens.py). In place of the tokens come hashes of
    these hashes, which sets of words are made of.
    """
    room = bag.counts.shape[0] * 3 // 4
    for i in range(count):
        word, end = tokens[i], ends[i]
        slot = _slot_of(word, bag)
        before = uint64(bag.counts[slot])
        if before == uint64(0):
            if bag.held[0] == room:
                return NO_ROOM
            bag.held[0] += 1
            bag.words[slot] = word
        bag.counts[slot] += uint32(1)
        out[i] = _hash_numbered(Token(end[0], end[1], end[2], end[3], end[4]), before)
        tokens[i] = fmix(out[i])
    return count
