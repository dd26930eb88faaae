"""What shapes a signature, and its fingerprint: two pages compare only under the same."""

from __future__ import annotations

import hashlib
import json
import unicodedata

from pydantic import BaseModel, ConfigDict, Field

from streamer.sketch.compact import BINS
from streamer.text.canonical import VERSION as CANONICAL_VERSION

SKETCH_VERSION = 1  # of the hashes' definitions in this package


class SignatureSettings(BaseModel):
    """The parameters of signatures; the defaults find 98.6 % of pairs at resemblance 0.8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shingle_width: int = Field(default=5, ge=1, le=32, description="tokens a shingle")
    bands: int = Field(default=14, ge=1, le=64, description="band keys a page")
    rows: int = Field(default=6, ge=1, le=32, description="min-hashes a band")

    @property
    def hashes(self) -> int:
        """Return the number of min-hashes: bands x rows."""
        return self.bands * self.rows

    def fingerprint(self, key_id: str) -> str:
        """Return 16 hexadecimal digits over everything that changes a signature."""
        parts = {
            "bands": self.bands,
            "bins": BINS,
            "canonical": CANONICAL_VERSION,
            "key": key_id,
            "rows": self.rows,
            "shingle_width": self.shingle_width,
            "sketch": SKETCH_VERSION,
            "unicode": unicodedata.unidata_version,
        }
        text = json.dumps(parts, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
