"""What shapes a signature, and its fingerprint: two pages compare only under the same.

The native method is described by its three numbers alone. Of any other (scheme.py makes these
settings) all parameters are written out, so that a default that changes later is not mistaken for
the old one.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata

from pydantic import BaseModel, ConfigDict, Field

from streamer.sketch.compact import BINS
from streamer.sketch.method import Measure
from streamer.text.canonical import VERSION as CANONICAL_VERSION

SKETCH_VERSION = 2  # of the hashes' definitions in this package
METHODS_VERSION = 3  # of the definitions in sketch/methods/
NATIVE = "minhash"
MIN_SHINGLES = 5  # distinct ones; fewer say little about a page


class SignatureSettings(BaseModel):
    """The parameters of signatures; the defaults find 98.6 % of pairs at resemblance 0.8.

    Of a method that is not the native one, `options` are the parameters that were given, and
    `parameters` all of them with their values (of a file its fingerprint); `canonical` are the
    options of canonical form that are not the defaults. All are `name=value`, ascending.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    shingle_width: int = Field(default=5, ge=1, le=32, description="tokens a shingle")
    bands: int = Field(default=14, ge=1, le=64, description="band keys a page")
    rows: int = Field(default=6, ge=1, le=32, description="min-hashes a band")
    method: str = Field(default=NATIVE, description="method that makes the keys")
    accept: str = Field(default="", description="method that makes the sketch; empty: the same")
    options: tuple[str, ...] = Field(default=(), description="what makes the methods")
    parameters: tuple[str, ...] = Field(default=(), description="what tells them apart")
    canonical: tuple[str, ...] = Field(default=(), description="canonical form")
    measure: Measure = Field(default=Measure.RESEMBLANCE, description="how sketches compare")
    threshold: float = Field(default=0.8, description="of duplicates, unless the user says")
    min_shingles: int = Field(
        default=MIN_SHINGLES, description="of pages to compare, unless the user says"
    )

    @property
    def hashes(self) -> int:
        """Return the number of min-hashes: bands x rows."""
        return self.bands * self.rows

    @property
    def is_native(self) -> bool:
        """Tell whether the native signer computes these signatures."""
        return self.method == NATIVE and not (self.accept or self.canonical)

    def identity(self) -> dict[str, str | int]:
        """Return what two indexes must have in common, by name."""
        numbers = {"bands": self.bands, "rows": self.rows, "shingle_width": self.shingle_width}
        if self.is_native:
            return dict(numbers)
        result: dict[str, str | int] = {"method": self.method, "accept": self.accept}
        result |= numbers if self.method == NATIVE else {"bands": self.bands}
        for kind, pairs in (("option", self.parameters), ("canonical", self.canonical)):
            for pair in pairs:
                name, _, value = pair.partition("=")
                result[f"{kind}.{name}"] = value
        return result

    def fingerprint(self, key_id: str) -> str:
        """Return 16 hexadecimal digits over everything that changes a signature."""
        parts = {
            **self.identity(),
            "bins": BINS,
            "canonical": CANONICAL_VERSION,
            "key": key_id,
            "sketch": SKETCH_VERSION,
            "unicode": unicodedata.unidata_version,
        }
        if not self.is_native:
            parts["methods"] = METHODS_VERSION
        text = json.dumps(parts, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
