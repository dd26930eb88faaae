"""The hash functions that a method can be told to use, all of one shape: (data, seed) -> integer.

Seed 0 gives each function as published. Another seed goes in where the function takes one: mmh3 as
its 32-bit seed, CRC32 and Rabin's fingerprint as their start value. The others have no seed, so the
hash of the data is mixed with it behind the function: that makes any number of different functions,
yet two texts with equal hashes have equal ones under every seed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping

import mmh3

from streamer.errors import SettingsError
from streamer.sketch.classic_hashes import CLASSIC_HASHES, MASK32
from streamer.sketch.rabin import rabin64

MASK64 = (1 << 64) - 1
DEFAULT_HASH = "mmh3"

HashFunction = Callable[[bytes, int], int]


def hash64(data: bytes, seed: int, name: str = DEFAULT_HASH) -> int:
    """Return any of HASHES as an unsigned 64-bit integer: wider ones lose their high bits.

    A hash of 32 bits stays worth 32 bits: it is spread one to one, so that no bits stay empty.

    Raises:
        SettingsError: there is no hash of this name.
    """
    function = HASHES.get(name)
    if function is None:
        raise SettingsError(f"there is no hash {name!r}; choose one of {', '.join(HASHES)}")
    value = function(data, seed)
    return mix64(value) if name in NARROW else value & MASK64


def mix64(word: int) -> int:
    """Return MurmurHash3's 64-bit finaliser of `word`: a bijection in which each bit moves each."""
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & MASK64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & MASK64
    return word ^ word >> 33


def _seed32(seed: int) -> int:
    """Return a seed of 32 bits, itself if it fits; mmh3 takes no more."""
    return seed if seed <= MASK32 else mix64(seed) & MASK32


def _mmh3_64(data: bytes, seed: int) -> int:
    return mmh3.hash64(data, _seed32(seed), signed=False)[0]


def _mmh3_32(data: bytes, seed: int) -> int:
    return mmh3.hash(data, _seed32(seed), signed=False)


def _mmh3_128(data: bytes, seed: int) -> int:
    return mmh3.hash128(data, _seed32(seed), signed=False)


def _crc32(data: bytes, seed: int) -> int:
    return zlib.crc32(data, _seed32(seed))


def _rabin(data: bytes, seed: int) -> int:
    return rabin64(data, (seed << 1 | 1) & MASK64)  # seed 0: one bit before the data


def _md5(data: bytes, seed: int) -> int:
    digest = hashlib.md5(data, usedforsecurity=False).digest()
    return _reseeded(int.from_bytes(digest, "big"), seed, 128)


def _sha1(data: bytes, seed: int) -> int:
    digest = hashlib.sha1(data, usedforsecurity=False).digest()
    return _reseeded(int.from_bytes(digest, "big"), seed, 160)


def _reseeded(value: int, seed: int, bits: int) -> int:
    """Mix a hash with a seed, 64 bits at a time; seed 0 leaves it as it is."""
    if seed == 0:
        return value
    mixed = 0
    for shift in range(0, bits, 64):
        mixed |= mix64(mix64(seed + shift & MASK64) ^ (value >> shift & MASK64)) << shift
    return mixed & ((1 << bits) - 1)


def _seeded(function: Callable[[Iterable[int]], int]) -> HashFunction:
    """Return a classic hash of 32 bits with a seed."""
    return lambda data, seed: _reseeded(function(data), seed, 32)


HASHES: Mapping[str, HashFunction] = {
    "mmh3": _mmh3_64,
    "mmh3-32": _mmh3_32,
    "mmh3-128": _mmh3_128,
    "rabin": _rabin,
    "crc32": _crc32,
    "md5": _md5,
    "sha1": _sha1,
    **{name: _seeded(function) for name, function in CLASSIC_HASHES.items()},
}
NARROW = frozenset({"mmh3-32", "crc32", *CLASSIC_HASHES})  # 32 bits
