"""simhash (numpy): one fingerprint of 64 bits over all shingles, by `Simhash(features)`.

The features are the word shingles that the other peers get, and their hash is the default, MD5. A
fingerprint is less than 84 min-hashes: it has no bands, and estimates an angle, not a resemblance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simhash import Simhash

from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence


class SimhashPeer:
    """Simhash with 64 bits."""

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return a fingerprint a text."""
        return [Simhash(shingles_of_text(text)) for text in texts]
