"""A blocked Bloom filter over keys: most pages are new, which it tells without the disk.

A key sets 8 bits in one block of 512, so a look costs one cache line (Putze, Sanders, Singler
2007). Keys must be hashes. At 12 bits a key about 0.5 % of unknown keys pass. It can be rebuilt
from the keys at any time, so it is never part of the truth: losing it costs time only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import inline_kernel, kernel, uint64

BLOCK_WORDS = 8
BITS_A_KEY = 12
_PROBES = 8
_SALT = 0x9FB21C651E98DF25  # the filter's bits are independent of the table's and the buckets'


@inline_kernel
def _block(key: int, words: npt.NDArray[np.uint64]) -> tuple[int, int]:
    """Return (first word of the key's block, the bits of its probes: six apiece).

    Keys are hashes, so their top bits spread over the blocks as they are; and the sorted keys of a
    run are then added from one end of the filter to the other.
    """
    blocks = uint64(words.shape[0] // BLOCK_WORDS)
    first = ((key >> uint64(32)) * blocks >> uint64(32)) * uint64(BLOCK_WORDS)
    return first, fmix(key ^ uint64(_SALT))


@inline_kernel
def contains(words: npt.NDArray[np.uint64], key: int) -> bool:
    """Tell whether `key` may have been added: one bit in each word of its block."""
    first, bits = _block(key, words)
    for i in range(_PROBES):
        if not words[first + uint64(i)] >> (bits >> uint64(16 + 6 * i) & uint64(63)) & uint64(1):
            return False
    return True


@kernel
def add_keys(words: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64]) -> None:
    """Add `keys` to the filter."""
    for key in keys:
        first, bits = _block(key, words)
        for i in range(_PROBES):
            words[first + uint64(i)] |= uint64(1) << (bits >> uint64(16 + 6 * i) & uint64(63))


@kernel
def passing(
    words: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], out: npt.NDArray[np.int64]
) -> int:
    """Write the places of the keys that may have been added to `out`; return their number."""
    found = 0
    for i in range(keys.shape[0]):
        if contains(words, keys[i]):
            out[found] = i
            found += 1
    return found


def filter_words(keys: int) -> npt.NDArray[np.uint64]:
    """Return the words of an empty filter for so many keys."""
    blocks = max(1, -(-keys * BITS_A_KEY // (64 * BLOCK_WORDS)))
    return np.zeros(blocks * BLOCK_WORDS, np.uint64)


@kernel
def mark_passing(
    words: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], out: npt.NDArray[np.bool_]
) -> None:
    """Set out[i] where keys[i] may have been added; leave it where it is set already."""
    for i in range(keys.shape[0]):
        if not out[i]:
            out[i] = contains(words, keys[i])


class KeyFilter:
    """A filter for so many keys; with more, more unknown keys pass."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.words = filter_words(capacity)

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        """Add `keys`."""
        add_keys(self.words, keys)
        self.count += len(keys)

    def places(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the places of the keys that may have been added, ascending."""
        out = np.empty(len(keys), np.int64)
        return out[: passing(self.words, keys, out)]


class GrowingFilter:
    """A filter for any number of keys: where one is full, one for twice as many joins it.

    So nothing is ever built anew (Almeida et al. 2007); a look costs a cache line for each part.
    """

    def __init__(self, capacity: int) -> None:
        self.parts = [KeyFilter(capacity)]

    @classmethod
    def of(cls, parts: list[KeyFilter]) -> GrowingFilter:
        """Return the filter that these are the parts of."""
        grown = cls(0)
        grown.parts = parts
        return grown

    @property
    def count(self) -> int:
        """Return how many keys were added."""
        return sum(part.count for part in self.parts)

    @property
    def capacity(self) -> int:
        """Return how many keys its parts were made for."""
        return sum(part.capacity for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its parts."""
        return sum(part.words.nbytes for part in self.parts)

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        """Add `keys`, all to one part."""
        newest = self.parts[-1]
        if newest.count and newest.count + len(keys) > newest.capacity:
            newest = KeyFilter(max(2 * newest.capacity, len(keys)))
            self.parts.append(newest)
        newest.add(keys)

    def places(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the places of the keys that may have been added, ascending."""
        passed = np.zeros(len(keys), np.bool_)
        for part in list(self.parts):
            mark_passing(part.words, keys, passed)
        return np.flatnonzero(passed)
