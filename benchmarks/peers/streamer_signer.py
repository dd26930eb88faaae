"""Streamer's own signer as a peer: 14 x 6 min-hashes as band keys, a content key, and the sketch.

Called as the pipeline calls it, a few hundred pages at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import Signatures, Signer

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_PAGES = 256


class StreamerPeer:
    """One signer under the default settings."""

    def __init__(self) -> None:
        self._signer = Signer(SignatureSettings(), bytes(32))

    def sign(self, texts: Sequence[bytes]) -> list[Signatures]:
        """Return the signatures of `texts`, a batch after the other."""
        return [
            self._signer.sign(batch, [0] * len(batch))  # flags 0: plain text, no JSON escapes
            for batch in (texts[i : i + BATCH_PAGES] for i in range(0, len(texts), BATCH_PAGES))
        ]
