"""datasketch's `MinHashLSH`, in memory: `query`, and `insert` where that finds nothing.

14 bands of 6 (`params`) over `MinHash` with 84 permutations. What shares a band counts as a
duplicate: no candidate is verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasketch import MinHash, MinHashLSH

from benchmarks.peers.peer import BANDS, HASHES, ROWS
from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class DatasketchIndex:
    """An empty index; it needs no folder."""

    def __init__(self, _folder: Path) -> None:
        self._index = MinHashLSH(num_perm=HASHES, params=(BANDS, ROWS))
        self._documents = 0

    def sign(self, texts: Sequence[bytes]) -> list[MinHash]:
        """Return a min-hash a text."""
        encoded = ([shingle.encode() for shingle in shingles_of_text(text)] for text in texts)
        return list(MinHash.generator(encoded, num_perm=HASHES))

    def judge(self, signed: list[MinHash]) -> int:
        """Look up and insert, one document after the other."""
        index, duplicates = self._index, 0
        for number, sketch in enumerate(signed, self._documents):
            if index.query(sketch):
                duplicates += 1
            else:
                index.insert(number, sketch)
        self._documents += len(signed)
        return duplicates

    def settle(self) -> None:
        """Do nothing: there is no disk."""
