"""Min-hashes alone: bands of them find candidates, and the share of equal ones decides."""

from __future__ import annotations

from pydantic import Field, model_validator

from streamer.sketch.from_shingles import block_hashes, min_hashes
from streamer.sketch.method import Measure, MethodSignature, PageText
from streamer.sketch.packers import SLOTS_MAX, pack_slots
from streamer.sketch.shingled import ShingledMethod, ShingleParameters


class BandingParameters(ShingleParameters):
    """The parameters of banded min-hashes."""

    bands: int = Field(default=14, ge=1, le=48, description="keys a page")
    rows: int = Field(default=6, ge=1, le=64, description="min-hashes a key")

    @model_validator(mode="after")
    def _in_bounds(self) -> BandingParameters:
        if self.bands * self.rows > SLOTS_MAX:
            raise ValueError(f"bands x rows is {SLOTS_MAX} at most, which a sketch holds")
        return self


class Banding(ShingledMethod[BandingParameters]):
    """Locality-sensitive hashing of min-hashes (Indyk and Motwani 1998), b bands of r rows."""

    name = "banding"
    summary = "84 min-hashes: 14 bands of 6 find candidates, the share of equal ones decides."
    advice = (
        "The textbook form, for comparisons with other systems; its error is about 0.04. "
        "Found are pairs of resemblance s with probability 1-(1-s^rows)^bands."
    )
    defaults = BandingParameters
    measure = Measure.SLOTS
    fixed_threshold = 0.8

    @property
    def permutations(self) -> int:
        """Return the number of min-hashes."""
        return self.parameters.bands * self.parameters.rows

    @property
    def bands(self) -> int:
        """Return the number of bands."""
        return self.parameters.bands

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page; of many min-hashes its sketch keeps 16 or 32 bits."""
        keys = self._shingler.keys
        minima = min_hashes(self._shingler.hashes(page), keys)
        return MethodSignature(
            block_hashes(minima, self.parameters.rows, keys.band_seed),
            pack_slots(minima.tolist()),
        )
