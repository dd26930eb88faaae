"""rensa (Rust): R-MinHash and C-MinHash over all shingles, by the documented `update`.

`update` takes the shingles as strings. The bulk constructor `from_token_sets` was measured too: it
is slower here, since the shingles of all pages are alive at once. The library's "rho" way samples
token positions and signs no full set, so it does not compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rensa import CMinHash, RMinHash

from benchmarks.peers.peer import HASHES
from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 42


class RMinHashPeer:
    """R-MinHash with 84 slots."""

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return a sketch a text."""
        sketches: list[object] = []
        for text in texts:
            sketch = RMinHash(num_perm=HASHES, seed=SEED)
            sketch.update(shingles_of_text(text))
            sketches.append(sketch)
        return sketches


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
