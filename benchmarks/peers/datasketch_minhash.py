"""datasketch (numpy): MinHash with 84 permutations over the encoded shingles.

`generator` is the documented way for many sets: `update_batch` on a copy of one prepared min-hash,
which saves setting up the permutations for each page. The shingles' hash is the default, SHA-1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datasketch import MinHash

from benchmarks.peers.peer import HASHES
from benchmarks.peers.shingles import shingles_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence


class MinHashPeer:
    """MinHash with 84 permutations."""

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return a min-hash a text."""
        encoded = ([shingle.encode() for shingle in shingles_of_text(text)] for text in texts)
        return list(MinHash.generator(encoded, num_perm=HASHES))
