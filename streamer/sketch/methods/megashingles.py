"""Megashingles: a hash for each pair of supershingles, so that one equal key is enough."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import combinations

import mmh3

from streamer.sketch.method import MethodSignature, PageText
from streamer.sketch.methods.supershingles import Supershingles


class Megashingles(Supershingles):
    """The 15 pairs of 6 supershingles (Fetterly, Manasse, Najork 2003)."""

    name = "megashingles"
    summary = "One key for each of the 15 pairs of 6 supershingles; any equal pair is a duplicate."
    advice = (
        "Decides as `supershingles` does, and looks at no other candidates: "
        "where buckets are large, that is less work for more than twice the keys."
    )

    @property
    def bands(self) -> int:
        """Return the number of pairs."""
        return self.parameters.blocks * (self.parameters.blocks - 1) // 2

    def sign(self, page: PageText) -> MethodSignature:
        """Return the megashingles of a page; its sketch holds the supershingles themselves."""
        blocks, sketch = super().sign(page)
        return MethodSignature(megashingles_of(blocks, self._shingler.keys.band_seed), sketch)


def megashingles_of(blocks: Sequence[int], seed: int) -> list[int]:
    """Return a 64-bit hash of each pair of supershingles; which pair it is goes into the hash."""
    return [
        mmh3.hash64(struct.pack("<QQI", *pair, number), seed, signed=False)[0]
        for number, pair in enumerate(combinations(blocks, 2))
    ]
