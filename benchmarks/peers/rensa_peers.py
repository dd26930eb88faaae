"""rensa (Rust): R-MinHash and C-MinHash over all shingles, by the fastest of its full-set ways.

For R-MinHash that is `digest_matrix_from_token_sets`, its documented way for bulk work, with 16
documents a call: of more, the shingles of all pages are alive at once, which takes a fifth longer;
one `update` a document takes a tenth longer. C-MinHash is given one `update` a document. The
library's "rho" way samples token positions and signs no full set, so it does not compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rensa import CMinHash, RMinHash, RMinHashLSH

from benchmarks.peers.peer import BANDS, HASHES, MemoryIndex
from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEED = 42
BATCH_PAGES = 16
THRESHOLD = 0.8  # `query` does not use it


class RMinHashPeer:
    """R-MinHash with 84 slots."""

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return a matrix of digests a batch."""
        return [
            RMinHash.digest_matrix_from_token_sets(
                list(map(shingles_of_text, texts[start : start + BATCH_PAGES])),
                num_perm=HASHES,
                seed=SEED,
            )
            for start in range(0, len(texts), BATCH_PAGES)
        ]


class CMinHashPeer:
    """C-MinHash with 84 slots."""

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return a sketch a text."""
        sketches: list[object] = []
        for text in texts:
            sketch = CMinHash(num_perm=HASHES, seed=SEED)
            sketch.update(shingles_of_text(text))
            sketches.append(sketch)
        return sketches


class RensaIndex(MemoryIndex):
    """An empty `RMinHashLSH` of 14 bands of 6 over R-MinHash with 84 slots; it needs no folder.

    What shares a band counts as a duplicate: no candidate is verified.
    """

    def __init__(self, _folder: Path) -> None:
        super().__init__(RMinHashLSH(threshold=THRESHOLD, num_perm=HASHES, num_bands=BANDS))

    def sign(self, texts: Sequence[bytes]) -> list[RMinHash]:
        """Return a sketch a text."""
        return list(
            RMinHash.from_token_sets(map(shingles_of_text, texts), num_perm=HASHES, seed=SEED)
        )
