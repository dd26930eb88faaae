"""Eight string hashes of 32 bits, as the "General Purpose Hash Function Algorithms" collect them.

They are here because published tables compare them, not because one would choose them today: short
strings fill only their low bits. All arithmetic is modulo 2**32 on unsigned bytes. Source: Arash
Partow's collection (the C form, which the published values are of).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
        if high:
            value = (value ^ high >> 24) & ~HIGH_NIBBLE
    return value


def elf(data: Iterable[int]) -> int:
    """Return the hash of the ELF object format: the same function as `pjw` at 32 bits."""
    value = 0
    for byte in data:
        value = ((value << 4) + byte) & MASK32
        high = value & HIGH_NIBBLE
        value = (value ^ high >> 24) & ~high
    return value


def bkdr(data: Iterable[int]) -> int:
    """Return Kernighan and Ritchie's hash with the multiplier 131."""
    value = 0
    for byte in data:
        value = (value * 131 + byte) & MASK32
    return value


def sdbm(data: Iterable[int]) -> int:
    """Return the hash of the sdbm database: the multiplier 65599, by shifts."""
    value = 0
    for byte in data:
        value = (byte + (value << 6) + (value << 16) - value) & MASK32
    return value


def djb(data: Iterable[int]) -> int:
    """Return Daniel J. Bernstein's hash: 33 times, from 5381."""
    value = 5381
    for byte in data:
        value = (value * 33 + byte) & MASK32
    return value


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
    "elf": elf,
    "rs": rs,
    "js": js,
    "pjw": pjw,
    "bkdr": bkdr,
    "sdbm": sdbm,
    "djb": djb,
    "ap": ap,
}
