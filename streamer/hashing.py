"""MurmurHash3 x64 128 for kernels: bit for bit what the mmh3 package returns.

`mmh3.hash64(data, seed, signed=False)[0]` is the hash of tokens, contents and band keys everywhere;
these functions are its steps, so that a kernel can feed it words as they come, without a copy. The
oracle of each kernel calls mmh3 itself. Source: Austin Appleby, MurmurHash3.cpp (public domain).
"""

from streamer.kernel import inline_kernel
from streamer.machine import uint64

C1 = 0x87C37B91114253D5
C2 = 0x4CF5AD432745937F


@inline_kernel
def rotate_left(word: int, bits: int) -> int:
    """Rotate a 64-bit word to the left."""
    return (uint64(word) << uint64(bits)) | (uint64(word) >> uint64(64 - bits))


@inline_kernel
def fmix(word: int) -> int:
    """Return MurmurHash3's 64-bit finaliser of `word`: a bijection in which each bit moves each."""
    h = uint64(word)
    h ^= h >> uint64(33)
    h *= uint64(0xFF51AFD7ED558CCD)
    h ^= h >> uint64(33)
    h *= uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> uint64(33))


@inline_kernel
def stir_low(word: int) -> int:
    """Return the first half of a block as it goes into the first lane."""
    return rotate_left(uint64(word) * uint64(C1), 31) * uint64(C2)


@inline_kernel
def stir_high(word: int) -> int:
    """Return the second half of a block as it goes into the second lane."""
    return rotate_left(uint64(word) * uint64(C2), 33) * uint64(C1)


@inline_kernel
def absorb(lane1: int, lane2: int, low: int, high: int) -> tuple[int, int]:
    """Return both lanes after one whole block of 16 bytes."""
    h1 = rotate_left(uint64(lane1) ^ stir_low(low), 27) + uint64(lane2)
    h1 = h1 * uint64(5) + uint64(0x52DCE729)
    h2 = rotate_left(uint64(lane2) ^ stir_high(high), 31) + h1
    h2 = h2 * uint64(5) + uint64(0x38495AB5)
    return h1, h2


@inline_kernel
def finish(lane1: int, lane2: int, low: int, high: int, length: int) -> int:
    """Return the hash after a tail of 0 to 15 bytes, zero-padded in `low` and `high`.

    `length` is the length of the whole input in bytes. An empty half of the tail changes nothing,
    because `stir_low(0)` and `stir_high(0)` are 0.
    """
    h1 = uint64(lane1) ^ stir_low(low) ^ uint64(length)
    h2 = uint64(lane2) ^ stir_high(high) ^ uint64(length)
    h1 += h2
    h2 += h1
    return fmix(h1) + fmix(h2)
