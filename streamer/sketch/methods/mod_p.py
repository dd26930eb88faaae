"""Only the hashes divisible by p: a sample whose size grows with the text."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from streamer.sketch.from_shingles import class_keys
from streamer.sketch.method import Measure, MethodSignature, PageText
from streamer.sketch.packers import pack_sample
from streamer.sketch.shingled import ShingledMethod, ShingleParameters


class ModPParameters(ShingleParameters):
    """The parameters of mod-p sampling."""

    p: int = Field(default=25, ge=1, le=1000, description="one hash in p is kept")
    bands: int = Field(default=14, ge=1, le=48, description="keys a page")
    rows: int = Field(default=2, ge=1, le=32, description="classes of kept hashes a key")


class ModP(ShingledMethod[ModPParameters]):
    """Sampling by divisibility (Manber 1994; Broder et al. 1997 with p = 25)."""

    name = "mod_p"
    summary = "Keeps the shingle hashes that p divides; similarity is the samples' resemblance."
    advice = (
        "For long texts of unlike lengths, since the longer one keeps more; of more than 64 kept "
        "hashes the least count. A few hundred words keep a dozen: lower p for these."
    )
    defaults = ModPParameters
    measure = Measure.SAMPLE
    fixed_threshold = 0.8

    @property
    def bands(self) -> int:
        """Return the number of keys."""
        return self.parameters.bands

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page; one of which nothing is kept keeps its least hash."""
        wanted = self.parameters
        hashes = self._shingler.hashes(page)
        kept = hashes[hashes % np.uint64(wanted.p) == 0]
        if not len(kept):
            kept = hashes[:1]
        classes = kept // np.uint64(wanted.p) % np.uint64(wanted.bands * wanted.rows)
        seed = self._shingler.keys.band_seed
        return MethodSignature(
            class_keys(kept, classes, wanted.bands, wanted.rows, seed),
            pack_sample(kept.tolist()),
        )
