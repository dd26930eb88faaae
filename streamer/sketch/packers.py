"""From values to a sketch: the layouts of all sketches but that of RESEMBLANCE.

A sketch is uint64[33]. Word 0 says what the 32 words of payload hold:

    SLOTS           count | bits << 16; 128 slots of 16 bits, 64 of 32 or 32 of 64, lowest first
    HAMMING         number of bits, 2,048 at most
    SAMPLE, BOTTOM  count | cut << 16 | k << 32; hashes of 32 bits, ascending, 64 at most
    WEIGHTED        weights; the digest in words 1 and 2, a float64 in each word behind them

measures.py compares them; a change here changes what an index holds (METHODS_VERSION).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from streamer.sketch.compact import PAYLOAD_WORDS
from streamer.sketch.method import Sketch, empty_sketch

SLOT_BITS_LEAST = 16
SLOTS_MAX = 64 * PAYLOAD_WORDS // SLOT_BITS_LEAST
BITS_MAX = 64 * PAYLOAD_WORDS
HASHES_MAX = 2 * PAYLOAD_WORDS  # of 32 bits
WEIGHTS_MAX = PAYLOAD_WORDS - 2


def pack_slots(values: Sequence[int]) -> Sketch:
    """Return a SLOTS sketch of at most 128 values, of each as many low bits as there is room for.

    Raises:
        ValueError: there are more.
    """
    count = len(values)
    if count > SLOTS_MAX:
        raise ValueError(f"a sketch has {SLOTS_MAX} slots at most, not {count}")
    bits = 64 if count <= PAYLOAD_WORDS else 32 if count <= 2 * PAYLOAD_WORDS else SLOT_BITS_LEAST
    result = empty_sketch()
    if count:
        slots = np.fromiter((value & (1 << bits) - 1 for value in values), np.uint64, count)
        result[1:].view(f"<u{bits // 8}")[:count] = slots
        result[0] = count | bits << 16
    return result


def pack_bits(value: int, bits: int) -> Sketch:
    """Return a HAMMING sketch of the `bits` (2,048 at most) low bits of `value`.

    Raises:
        ValueError: there are more.
    """
    if not 0 < bits <= BITS_MAX:
        raise ValueError(f"a sketch has 1 to {BITS_MAX} bits, not {bits}")
    result = empty_sketch()
    payload = (value & (1 << bits) - 1).to_bytes(8 * PAYLOAD_WORDS, "little")
    result[1:] = np.frombuffer(payload, "<u8")
    result[0] = bits
    return result


def _pack_hashes(hashes: Iterable[int], limit: int) -> tuple[Sketch, bool]:
    """Return a sketch of the `limit` least hashes' upper halves, and whether there are more."""
    ordered = sorted({value >> 32 for value in hashes})
    result = empty_sketch()
    kept = ordered[:limit]
    result[1:].view("<u4")[: len(kept)] = kept
    result[0] = len(kept)
    return result, len(ordered) > limit


def pack_sample(hashes: Iterable[int]) -> Sketch:
    """Return a SAMPLE sketch of 64-bit hashes; of more than 64, the least ones are kept."""
    result, cut = _pack_hashes(hashes, HASHES_MAX)
    result[0] |= np.uint64(int(cut) << 16)
    return result


def pack_bottom(hashes: Iterable[int], k: int) -> Sketch:
    """Return a BOTTOM sketch of the k (64 at most) least of 64-bit hashes.

    Raises:
        ValueError: k is out of range.
    """
    if not 0 < k <= HASHES_MAX:
        raise ValueError(f"k is 1 to {HASHES_MAX}, not {k}")
    result, _ = _pack_hashes(hashes, k)
    if result[0]:
        result[0] |= np.uint64(k << 32)
    return result


def pack_weighted(digest128: int, weights: Sequence[float] = ()) -> Sketch:
    """Return a WEIGHTED sketch of a 128-bit digest and at most 30 weights.

    Raises:
        ValueError: there are more weights.
    """
    if len(weights) > WEIGHTS_MAX:
        raise ValueError(f"a sketch has {WEIGHTS_MAX} weights at most, not {len(weights)}")
    result = empty_sketch()
    result[0] = len(weights)
    result[1], result[2] = digest128 & (1 << 64) - 1, digest128 >> 64
    result[3 : 3 + len(weights)].view(np.float64)[:] = weights
    return result
