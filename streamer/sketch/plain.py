"""A signature in plain Python: the definition that the kernels are held against, bit for bit.

Nothing here is fast, and nothing here is called on the way of a page.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import mmh3

from streamer.model import SIMILARITY_ONE
from streamer.sketch.minhash import EMPTY_MINIMUM
from streamer.sketch.resemblance import BIN_SHIFT, BINS
from streamer.sketch.secret import HashKeys
from streamer.text.tokens import tokens

_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1


class PlainSignature(NamedTuple):
    """What a Signer says of one page, as Python values."""

    keys: list[int]
    sketch: bytes
    shingles: int
    tokens: int


def murmur(data: bytes, seed: int) -> int:
    """Return the first half of MurmurHash3 x64 128."""
    return mmh3.hash64(data, seed, signed=False)[0]


def fmix(word: int) -> int:
    """Return MurmurHash3's 64-bit finaliser."""
    word ^= word >> 33
    word = word * 0xFF51AFD7ED558CCD & _M64
    word ^= word >> 33
    word = word * 0xC4CEB9FE1A85EC53 & _M64
    return word ^ word >> 33


def shingle_set(token_hashes: list[int], keys: HashKeys) -> set[int]:
    """Return the hashes of the shingles."""
    powers = [int(p) for p in keys.shingle_powers]
    windows = (
        token_hashes[i : i + len(powers)] for i in range(len(token_hashes) - len(powers) + 1)
    )
    return {fmix(sum(t * p for t, p in zip(w, powers, strict=True)) & _M64) for w in windows}


def band_keys(shingles: set[int], keys: HashKeys, bands: int, rows: int) -> list[int]:
    """Return the band keys of a shingle set."""
    minima = [
        min(((a * (s >> 32) + c) & _M32 for s in shingles), default=EMPTY_MINIMUM)
        for a, c in zip(keys.multipliers.tolist(), keys.offsets.tolist(), strict=True)
    ]
    parts = [minima[b * rows : (b + 1) * rows] for b in range(bands)]
    return [
        murmur(struct.pack(f"<{rows}I", *part), keys.band_seed + b & _M32)
        for b, part in enumerate(parts)
    ]


def sketch(shingles: set[int], keys: HashKeys) -> list[int]:
    """Return the 1,024 symbols of the resemblance sketch."""
    least: dict[int, int] = {}
    for value in (fmix(s ^ keys.sketch_mask) for s in shingles):
        place = value >> BIN_SHIFT
        least[place] = min(value, least.get(place, value))
    low = (1 << BIN_SHIFT) - 1
    return [1 + (least[i] & low) % 3 if i in least else 0 for i in range(BINS)]


def pack(symbols: list[int]) -> bytes:
    """Pack symbols of 2 bits, the first in the lowest bits."""
    quads = zip(*(symbols[i::4] for i in range(4)), strict=True)
    return bytes(a | b << 2 | c << 4 | d << 6 for a, b, c, d in quads)


def estimated_resemblance(a: list[int], b: list[int]) -> int:
    """Return the resemblance of two sketches in ten-thousandths, rounded down."""
    either = sum(1 for x, y in zip(a, b, strict=True) if x or y)
    both = sum(1 for x, y in zip(a, b, strict=True) if x and y)
    equal = sum(1 for x, y in zip(a, b, strict=True) if x and x == y)
    if not either:
        return SIMILARITY_ONE
    return max(SIMILARITY_ONE * (3 * equal - both) // (2 * either), 0)


def sign(text: str, keys: HashKeys, bands: int, rows: int) -> PlainSignature:
    """Return the signature of visible text."""
    hashes = [murmur(token.encode(), keys.token_seed) for token in tokens(text)]
    shingles = shingle_set(hashes, keys)
    content = murmur(struct.pack(f"<{len(hashes)}Q", *hashes), keys.content_seed)
    return PlainSignature(
        [*band_keys(shingles, keys, bands, rows), content],
        pack(sketch(shingles, keys)),
        len(shingles),
        len(hashes),
    )
