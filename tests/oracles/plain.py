"""A signature in plain Python: the definition that the kernels are held against, bit for bit.

Nothing here is fast, and nothing here is called on the way of a page.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import mmh3

from streamer.model import SIMILARITY_ONE
from streamer.sketch.minhash import EMPTY_MINIMUM, FEW_MAX
from streamer.sketch.resemblance import (
    DENSE_LEVEL,
    FINEST_LEVEL,
    LISTED_BITS,
    LISTED_MAX,
    PAYLOAD_WORDS,
)
from streamer.sketch.settings import HashSeeds
from streamer.text.tokens import tokens

_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1


class PlainSignature(NamedTuple):
    """What a NativeSigner says of one page, as Python values."""

    keys: list[int]
    sketch: list[int]
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


def shingle_set(token_hashes: list[int], keys: HashSeeds) -> set[int]:
    """Return the hashes of the shingles."""
    powers = [int(p) for p in keys.shingle_powers]
    windows = (
        token_hashes[i : i + len(powers)] for i in range(len(token_hashes) - len(powers) + 1)
    )
    return {fmix(sum(t * p for t, p in zip(w, powers, strict=True)) & _M64) for w in windows}


def min_hashes(shingles: set[int], keys: HashSeeds, count: int) -> list[int]:
    """Return the min-hashes of a shingle set: `count` bins, filled round by round."""
    minima = [EMPTY_MINIMUM] * count
    for word in shingles:
        _compete(minima, (word >> 32) * count >> 32, word)
    further = of_further_rounds(sketch_hashes(shingles, keys))
    for number, mask in enumerate(keys.round_masks.tolist()):
        waiting = {place for place, value in enumerate(minima) if value == EMPTY_MINIMUM}
        for word in (fmix(h ^ mask) for h in further if waiting):
            place = (word >> 32) * count >> 32 if number < count else number - count
            if place in waiting:
                _compete(minima, place, word)
    return minima


def _compete(minima: list[int], place: int, word: int) -> None:
    minima[place] = min(minima[place], word & _M32)


def of_further_rounds(hashes: list[int]) -> list[int]:
    """Return of sorted sketch hashes all if they are few, else the least one of each bin."""
    bins = {h >> 64 - DENSE_LEVEL: h for h in reversed(hashes)}
    if len(bins) <= LISTED_MAX and len(hashes) <= FEW_MAX:
        return hashes
    return list(bins.values())


def band_keys(shingles: set[int], keys: HashSeeds, bands: int, rows: int) -> list[int]:
    """Return the band keys of a shingle set."""
    minima = min_hashes(shingles, keys, bands * rows)
    parts = [minima[b * rows : (b + 1) * rows] for b in range(bands)]
    return [
        murmur(struct.pack(f"<{rows}I", *part), keys.band_seed + b & _M32)
        for b, part in enumerate(parts)
    ]


def sketch_hashes(shingles: set[int], keys: HashSeeds) -> list[int]:
    """Return the sketch hashes, ascending."""
    return sorted({fmix(s ^ keys.sketch_mask) for s in shingles})


def filled_bins(hashes: list[int], level: int) -> dict[int, int]:
    """Return the symbols of the filled ones of 2**level bins: of the least hash in each."""
    bins: dict[int, int] = {}
    for value in hashes:
        bins.setdefault(value >> 64 - level, 1 + ((value & _M32) * 3 >> 32))
    return bins


def level_for(hashes: list[int]) -> int:
    """Return the finest level whose list of filled bins fits, DENSE_LEVEL if none does."""
    for level in range(FINEST_LEVEL, DENSE_LEVEL, -1):
        if len(filled_bins(hashes, level)) * (level - 5) <= LISTED_BITS:
            return level
    return DENSE_LEVEL


def pack(hashes: list[int]) -> list[int]:
    """Return the sketch of sorted hashes as 64-bit words."""
    level = level_for(hashes)
    bins = filled_bins(hashes, level)
    if level == DENSE_LEVEL:
        payload = sum(symbol << 2 * place for place, symbol in bins.items())
    else:
        low = level - 8
        high = "".join("1" * sum(b >> low == h for b in bins) + "0" for h in range(256))
        rest = "".join(
            f"{(b & (1 << low) - 1) << 2 | s:0{low + 2}b}"[::-1] for b, s in bins.items()
        )
        payload = int((high + rest)[::-1], 2)
    words = [payload >> 64 * i & _M64 for i in range(PAYLOAD_WORDS)]
    return [level | len(bins) << 8, *words]


def estimated_resemblance(a: list[int], b: list[int]) -> int:
    """Return the resemblance of two lists of sketch hashes in ten-thousandths, rounded down."""
    level = min(level_for(a), level_for(b))
    bins_a, bins_b = filled_bins(a, level), filled_bins(b, level)
    either, both = len(bins_a.keys() | bins_b.keys()), bins_a.keys() & bins_b.keys()
    equal = sum(1 for place in both if bins_a[place] == bins_b[place])
    if not either:
        return SIMILARITY_ONE
    return max(SIMILARITY_ONE * (3 * equal - len(both)) // (2 * either), 0)


def content_hash(token_hashes: list[int], keys: HashSeeds) -> int:
    """Return the hash of a text's tokens in order."""
    parts = (fmix(t + i * keys.content_step & _M64) for i, t in enumerate(token_hashes))
    return fmix(keys.content_seed + sum(parts) & _M64)


def sign(text: str, keys: HashSeeds, bands: int, rows: int) -> PlainSignature:
    """Return the signature of visible text."""
    hashes = [murmur(token.encode(), keys.token_seed) for token in tokens(text)]
    shingles = shingle_set(hashes, keys)
    return PlainSignature(
        [*band_keys(shingles, keys, bands, rows), content_hash(hashes, keys)],
        pack(sketch_hashes(shingles, keys)),
        len(shingles),
        len(hashes),
    )
