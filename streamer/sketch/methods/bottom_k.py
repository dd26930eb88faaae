"""The k least hashes of one function: a sample of fixed size."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from streamer.sketch.from_shingles import class_keys
from streamer.sketch.method import Measure, MethodSignature, PageText
from streamer.sketch.packers import HASHES_MAX, pack_bottom
from streamer.sketch.shingled import ShingledMethod, ShingleParameters


class BottomKParameters(ShingleParameters):
    """The parameters of a bottom-k sketch."""

    k: int = Field(default=64, ge=4, le=HASHES_MAX, description="hashes a page")
    bands: int = Field(default=14, ge=1, le=48, description="keys a page")
    rows: int = Field(default=4, ge=1, le=32, description="classes of hashes a key")


class BottomK(ShingledMethod[BottomKParameters]):
    """Bottom-k sampling: the k least of the union tell the resemblance (Broder 1997)."""

    name = "bottom_k"
    summary = "Keeps the k least shingle hashes; similarity is what the least of both share."
    advice = (
        "For a plain estimate with one hash a shingle; its error is about 0.05 at k = 64. "
        "A text of fewer than k shingles is compared exactly."
    )
    defaults = BottomKParameters
    measure = Measure.BOTTOM
    fixed_threshold = 0.8

    @property
    def bands(self) -> int:
        """Return the number of keys."""
        return self.parameters.bands

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page: keys and sketch of its k least hashes."""
        wanted = self.parameters
        hashes = self._shingler.hashes(page)[: wanted.k]
        classes = hashes % np.uint64(wanted.bands * wanted.rows)
        seed = self._shingler.keys.band_seed
        return MethodSignature(
            class_keys(hashes, classes, wanted.bands, wanted.rows, seed),
            pack_bottom(hashes.tolist(), wanted.k),
        )
