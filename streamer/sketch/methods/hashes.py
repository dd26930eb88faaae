"""The hash functions that a method can use, all of one shape: (data, seed) -> integer.

Seed 0 gives each function as published. Another seed goes in where the function takes one: mmh3 as
its 32-bit seed, CRC32 and Rabin's fingerprint as their start value. The others have no seed, so the
hash of the data is mixed with it after the function: that makes any number of different functions,
yet two texts with equal hashes have equal ones under every seed.

Eight string hashes of 32 bits, as the "General Purpose Hash Function Algorithms" collect them.

They are here because published tables compare them, not because one would choose them today: short
strings fill only their low bits. All arithmetic is modulo 2**32 on unsigned bytes. Source: Arash
Partow's collection (the C form, which the published values are of).

A key leads to candidates and may be of any hash, also a weak one of the older literature. What
decides is the digest: 256 bits of keyed BLAKE2b, so that two equal ones are of the same string.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

import mmh3
from pydantic import AfterValidator

from streamer.model import SIMILARITY_ONE

MASK32 = (1 << 32) - 1
HIGH_NIBBLE = 0xF0000000


def rs(data: Iterable[int]) -> int:
    """Return Robert Sedgewick's hash: the multiplier changes with each byte."""
    value, factor = 0, 63689
    for byte in data:
        value = (value * factor + byte) & MASK32
        factor = factor * 378551 & MASK32
    return value


def js(data: Iterable[int]) -> int:
    """Return Justin Sobel's hash, by shifts in both directions."""
    value = 1315423911
    for byte in data:
        value ^= ((value << 5) + byte + (value >> 2)) & MASK32
    return value


def pjw(data: Iterable[int]) -> int:
    """Return Peter J. Weinberger's hash: 28 bits, the highest four folded back 24 bits down."""
    value = 0
    for byte in data:
        value = ((value << 4) + byte) & MASK32
        high = value & HIGH_NIBBLE
        value = (value ^ high >> 24) & ~high
    return value


def _make_multiplying(factor: int, start: int = 0) -> Callable[[Iterable[int]], int]:
    """Return the hash that multiplies by a factor before each byte is added."""

    def function(data: Iterable[int]) -> int:
        value = start
        for byte in data:
            value = (value * factor + byte) & MASK32
        return value

    return function


def ap(data: Iterable[int]) -> int:
    """Return Arash Partow's hash: two mixing steps in turn."""
    value = 0xAAAAAAAA
    for place, byte in enumerate(data):
        if place & 1:
            value ^= ~((value << 11) + (byte ^ value >> 5)) & MASK32
        else:
            value ^= (value << 7 & MASK32) ^ (byte * (value >> 3) & MASK32)
    return value


CLASSIC_HASHES: Mapping[str, Callable[[Iterable[int]], int]] = {
    "elf": pjw,  # of the ELF object format: the same function at 32 bits
    "rs": rs,
    "js": js,
    "pjw": pjw,
    "bkdr": _make_multiplying(131),  # Kernighan and Ritchie
    "sdbm": _make_multiplying(65599),  # of the sdbm database, which shifts and subtracts
    "djb": _make_multiplying(33, 5381),  # Daniel J. Bernstein
    "ap": ap,
}


# x**64 + x**4 + x**3 + x + 1, irreducible over GF(2); tests prove it. The x**64 is implicit.
POLYNOMIAL = 0x1B
DEGREE = 64
_TOP = 1 << DEGREE


def _table() -> tuple[int, ...]:
    """Return byte -> byte * x**64 modulo the polynomial: what a byte shifted out comes back as."""
    result = []
    for byte in range(256):
        value = byte << (DEGREE - 8)
        for _ in range(8):
            value <<= 1
            if value & _TOP:
                value ^= _TOP | POLYNOMIAL
        result.append(value)
    return tuple(result)


_BACK = _table()


def rabin64(data: bytes, start: int = 1) -> int:
    """Return Rabin's fingerprint of `data` after the coefficients of `start` (64 bits).

    The bits are the coefficients of a polynomial over GF(2), and the fingerprint is its remainder
    modulo an irreducible one. Two texts of n bits collide with probability at most n / 2**63 or so
    for a polynomial drawn at random. Ours is fixed, so no such promise holds against someone who
    knows it. Source: Rabin 1981; Broder 1993, Some applications of Rabin's fingerprinting method.

    A start of 1 is a one bit before the text, without which leading zero bytes would not count.
    """
    value = start
    for byte in data:
        value = (value << 8 & _TOP - 1 | byte) ^ _BACK[value >> (DEGREE - 8)]
    return value


MASK64 = (1 << 64) - 1
DEFAULT_HASH = "mmh3"

HashFunction = Callable[[bytes, int], int]


def hash64(data: bytes, seed: int, name: str = DEFAULT_HASH) -> int:
    """Return any of HASHES as an unsigned 64-bit integer: wider ones lose their high bits.

    A hash of 32 bits stays worth 32 bits: it is spread one to one, so that no bits stay empty.
    """
    value = HASHES[name](data, seed)
    return mix64(value) if name in NARROW else value & MASK64


def mix64(word: int) -> int:
    """Return MurmurHash3's 64-bit finaliser of `word`: a bijection in which each bit moves each."""
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & MASK64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & MASK64
    return word ^ word >> 33


def _seed32(seed: int) -> int:
    """Return a seed of 32 bits, itself if it fits; mmh3 takes no more."""
    return seed if seed <= MASK32 else mix64(seed) & MASK32


def _digest(name: str) -> HashFunction:
    """Return a cryptographic hash of the standard library with a seed."""
    bits = 8 * hashlib.new(name, usedforsecurity=False).digest_size

    def function(data: bytes, seed: int) -> int:
        digest = hashlib.new(name, data, usedforsecurity=False).digest()
        return _reseed(int.from_bytes(digest, "big"), seed, bits)

    return function


def _reseed(value: int, seed: int, bits: int) -> int:
    """Mix a hash with a seed, 64 bits at a time; seed 0 leaves it as it is."""
    if seed == 0:
        return value
    mixed = 0
    for shift in range(0, bits, 64):
        mixed |= mix64(mix64(seed + shift & MASK64) ^ (value >> shift & MASK64)) << shift
    return mixed & ((1 << bits) - 1)


def _seed(function: Callable[[Iterable[int]], int]) -> HashFunction:
    """Return a classic hash of 32 bits with a seed."""
    return lambda data, seed: _reseed(function(data), seed, 32)


HASHES: Mapping[str, HashFunction] = {
    "mmh3": lambda data, seed: mmh3.hash64(data, _seed32(seed), signed=False)[0],
    "mmh3-32": lambda data, seed: mmh3.hash(data, _seed32(seed), signed=False),
    "mmh3-128": lambda data, seed: mmh3.hash128(data, _seed32(seed), signed=False),
    "rabin": lambda data, seed: rabin64(data, (seed << 1 | 1) & MASK64),
    "crc32": lambda data, seed: zlib.crc32(data, _seed32(seed)),
    "md5": _digest("md5"),
    "sha1": _digest("sha1"),
    **{name: _seed(function) for name, function in CLASSIC_HASHES.items()},
}
NARROW = frozenset({"mmh3-32", "crc32", *CLASSIC_HASHES})  # 32 bits


DIGEST_SLOTS = 4  # of 64 bits


def _check_hash(name: str) -> str:
    if name not in HASHES:
        raise ValueError(f"there is no hash {name!r}; there are {', '.join(HASHES)}")
    return name


HashName = Annotated[str, AfterValidator(_check_hash)]


def seed_of(secret: bytes, purpose: str) -> int:
    """Return a seed of 64 bits for one purpose, independent of those for others."""
    digest = hashlib.blake2b(purpose.encode(), key=secret, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def digest_of(text: str, secret: bytes, purpose: str) -> int:
    """Return 256 bits of a string, under the secret and for one purpose."""
    person = hashlib.blake2b(purpose.encode(), digest_size=16).digest()
    keyed = hashlib.blake2b(text.encode(errors="surrogatepass"), key=secret, person=person)
    return int.from_bytes(keyed.digest()[:32], "little")


def slots_of(digest: int, count: int = DIGEST_SLOTS) -> list[int]:
    """Return the lowest `count` parts of 64 bits of a digest, lowest first."""
    return [digest >> 64 * place & 0xFFFFFFFFFFFFFFFF for place in range(count)]


def share_of(part: int, whole: int) -> float:
    """Return part / whole as sketches compare: in whole ten-thousandths, rounded down."""
    return SIMILARITY_ONE * part // whole / SIMILARITY_ONE
