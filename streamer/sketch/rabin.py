"""Rabin's fingerprint: the remainder of a text, read as a polynomial over GF(2).

The bits of the data are coefficients, and the fingerprint is the remainder modulo an irreducible
polynomial of degree 64: it is linear, can be rolled along a text, and two texts of n bits collide
with probability at most n / 2**63 or so for a polynomial drawn at random. Ours is fixed, so no such
promise holds against someone who knows it. Source: Rabin 1981; Broder 1993, Some applications of
Rabin's fingerprinting method.
"""

from __future__ import annotations

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
    """Return the fingerprint of `data` behind the coefficients of `start` (64 bits).

    A start of 1 is a one bit before the text, without which leading zero bytes would not count.
    """
    value = start
    for byte in data:
        value = (value << 8 & _TOP - 1 | byte) ^ _BACK[value >> (DEGREE - 8)]
    return value
