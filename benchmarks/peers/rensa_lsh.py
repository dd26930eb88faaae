"""rensa's `RMinHashLSH`, in memory: `query`, and `insert` where that finds nothing.

14 bands of 6 over R-MinHash with 84 slots. What shares a band counts as a duplicate: no candidate
is verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rensa import RMinHash, RMinHashLSH

from benchmarks.peers.memory_index import MemoryIndex
from benchmarks.peers.peer import BANDS, HASHES
from benchmarks.peers.rensa_minhash import SEED
from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

THRESHOLD = 0.8  # `query` does not use it


class RensaIndex(MemoryIndex):
    """An empty index; it needs no folder."""

    def __init__(self, _folder: Path) -> None:
        super().__init__(RMinHashLSH(threshold=THRESHOLD, num_perm=HASHES, num_bands=BANDS))

    def sign(self, texts: Sequence[bytes]) -> list[RMinHash]:
        """Return a sketch a text."""
        return list(
            RMinHash.from_token_sets(map(shingles_of_text, texts), num_perm=HASHES, seed=SEED)
        )
