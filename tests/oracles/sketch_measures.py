"""The similarities of sketches in plain Python, from the values that went into them."""

from collections.abc import Sequence
from fractions import Fraction

ONE = 10_000


def _floor(share: Fraction) -> int:
    return max(int(share * ONE), 0) if share > 0 else 0


def slots(a: Sequence[int], b: Sequence[int], bits: int) -> int:
    """Share of equal slots; of slots of 16 bits without those equal by chance."""
    longer = max(len(a), len(b))
    if not longer:
        return ONE
    mask = (1 << bits) - 1
    equal = sum(x & mask == y & mask for x, y in zip(a, b, strict=False))
    share = Fraction(equal, longer)
    if bits == 16:
        chance = Fraction(1, 1 << 16)
        share = (share - chance) / (1 - chance)
    return _floor(share)


def hamming(a: int, b: int, bits: int) -> int:
    """Share of equal bits."""
    differing = ((a ^ b) & (1 << bits) - 1).bit_count()
    return _floor(Fraction(bits - differing, bits))


def sample(a: set[int], b: set[int], most: int) -> int:
    """Jaccard similarity of the hashes' upper halves, as far as both samples are whole."""
    if not a or not b:
        return ONE if a == b else 0
    reach = 1 << 32
    halves = []
    for one in (a, b):
        ordered = sorted({value >> 32 for value in one})
        if len(ordered) > most:
            reach = min(reach, ordered[most - 1])
        halves.append(set(ordered))
    first, second = ({value for value in one if value <= reach} for one in halves)
    union = first | second
    return _floor(Fraction(len(first & second), len(union))) if union else 0


def bottom(a: set[int], b: set[int], k: int) -> int:
    """Share of the k least of the union that are in both."""
    if not a or not b:
        return ONE if a == b else 0
    first, second = ({value >> 32 for value in one} for one in (a, b))
    least = sorted(first | second)[:k]
    return _floor(Fraction(sum(v in first and v in second for v in least), len(least)))


def weighted(a: tuple[int, Sequence[float]], b: tuple[int, Sequence[float]]) -> int:
    """One less the greatest (v - w)**2 / (v**2 + w**2); 0 unless the digests are equal."""
    if a[0] != b[0] or len(a[1]) != len(b[1]):
        return 0
    apart = [
        (v - w) ** 2 / (v * v + w * w) if v * v + w * w else 0.0
        for v, w in zip(a[1], b[1], strict=True)
    ]
    return max(int(ONE * (1.0 - max(apart, default=0.0))), 0)
