"""Megashingles: a hash for each pair of supershingles, so that one equal key is enough."""

from __future__ import annotations

import struct
from itertools import combinations

import mmh3

from streamer.sketch.method import Measure, Method, MethodSignature, PageText
from streamer.sketch.methods.supershingles import SupershingleParameters, supershingles_of
from streamer.sketch.packers import pack_slots
from streamer.sketch.shingled import Shingler


class MegashingleParameters(SupershingleParameters):
    """The parameters of megashingles: those of supershingles."""


class Megashingles(Method[MegashingleParameters]):
    """The 15 pairs of 6 supershingles (Fetterly, Manasse, Najork 2003)."""

    name = "megashingles"
    summary = "One key for each of the 15 pairs of 6 supershingles; any equal pair is a duplicate."
    advice = (
        "Decides as `supershingles` does, and looks at no other candidates: "
        "where buckets are large, that is less work for more than twice the keys."
    )
    defaults = MegashingleParameters
    measure = Measure.SLOTS
    fixed_threshold = 1 / 3

    def __init__(self, parameters: MegashingleParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._shingler = Shingler(parameters, secret, parameters.blocks * parameters.block_size)

    @property
    def bands(self) -> int:
        """Return the number of pairs."""
        return self.parameters.blocks * (self.parameters.blocks - 1) // 2

    def sign(self, page: PageText) -> MethodSignature:
        """Return the megashingles of a page; its sketch holds the supershingles themselves."""
        blocks = supershingles_of(page, self._shingler, self.parameters)
        return MethodSignature(
            megashingles_of(blocks, self._shingler.keys.band_seed), pack_slots(blocks)
        )


def megashingles_of(blocks: list[int], seed: int) -> list[int]:
    """Return a 64-bit hash of each pair of supershingles; which pair it is goes into the hash."""
    return [
        mmh3.hash64(struct.pack("<QQI", *pair, number), seed, signed=False)[0]
        for number, pair in enumerate(combinations(blocks, 2))
    ]
