"""Banded min-hashes and the one-permutation sketch: the default, which the native signer computes.

This is the same signature in Python, bit for bit, for texts whose words are brought to another
canonical form and for pairings with another method.
"""

from __future__ import annotations

import mmh3
import numpy as np
from pydantic import Field

from streamer.sketch.from_shingles import block_hashes, min_hashes, resemblance_sketch
from streamer.sketch.method import Measure, Method, MethodSignature, PageText, Parameters
from streamer.sketch.secret import derive_keys
from streamer.sketch.shingles import hash_shingles


class MinHashParameters(Parameters):
    """The parameters of the native signature."""

    shingle_width: int = Field(default=5, ge=1, le=32, description="words a shingle")
    bands: int = Field(default=14, ge=1, le=48, description="keys a page")
    rows: int = Field(default=6, ge=1, le=32, description="min-hashes a key")


class MinHash(Method[MinHashParameters]):
    """Keys from bands of min-hashes (Broder 1997); verified by the sketch of resemblance.py."""

    name = "minhash"
    summary = "Bands of min-hashes find candidates, a one-permutation sketch verifies them."
    advice = (
        "The default: for pages of any length and language, and the only one in native code. "
        "Take another method to compare with it, or where texts are a few words long."
    )
    defaults = MinHashParameters
    measure = Measure.RESEMBLANCE
    fixed_threshold = 0.8

    def __init__(self, parameters: MinHashParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        hashes = parameters.bands * parameters.rows
        self._keys = derive_keys(secret, parameters.shingle_width, hashes)

    @property
    def bands(self) -> int:
        """Return the number of bands."""
        return self.parameters.bands

    def sign(self, page: PageText) -> MethodSignature:
        """Return what the native signer returns of these words."""
        keys = self._keys
        seed = keys.token_seed
        tokens = np.array(
            [mmh3.hash64(word.encode(), seed, signed=False)[0] for word in page.words], np.uint64
        )
        shingles = np.empty_like(tokens)
        count = hash_shingles(tokens, len(tokens), keys.shingle_powers, shingles)
        distinct = np.unique(shingles[:count])
        return MethodSignature(
            block_hashes(min_hashes(distinct, keys), self.parameters.rows, keys.band_seed),
            resemblance_sketch(distinct, keys.sketch_mask),
        )
