"""datasketch's `MinHashLSH`, in memory: `query`, and `insert` where that finds nothing.

14 bands of 6 (`params`) over `MinHash` with 84 permutations. What shares a band counts as a
duplicate: no candidate is verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasketch import MinHash, MinHashLSH

from benchmarks.peers.memory_index import MemoryIndex
from benchmarks.peers.peer import BANDS, HASHES, ROWS
from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class DatasketchIndex(MemoryIndex):
    """An empty index; it needs no folder."""

    def __init__(self, _folder: Path) -> None:
        super().__init__(MinHashLSH(num_perm=HASHES, params=(BANDS, ROWS)))

    def sign(self, texts: Sequence[bytes]) -> list[MinHash]:
        """Return a min-hash a text."""
        encoded = ([shingle.encode() for shingle in shingles_of_text(text)] for text in texts)
        return list(MinHash.generator(encoded, num_perm=HASHES))
