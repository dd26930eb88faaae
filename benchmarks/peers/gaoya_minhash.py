"""gaoya (Rust): 84 min-hashes of 32 bits over word 5-grams, tokenized and hashed in native code.

`MinHashStringIndex` is made as documented, with 14 bands of 6, the word analyzer, lower-casing and
`ngram_range=(5, 5)`. Its `insert_document` signs and inserts in one; the signing alone is
`tokenize_and_minhash` of the index within. Of its widths 32 bits is the default, and the fastest
that is as wide as ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaoya.minhash import MinHashStringIndex

from benchmarks.peers.peer import BANDS, ROWS, SHINGLE_WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

HASH_BITS = 32
THRESHOLD = 0.8


class GaoyaPeer:
    """One index, which stays empty."""

    def __init__(self) -> None:
        self._index = MinHashStringIndex(
            hash_size=HASH_BITS,
            jaccard_threshold=THRESHOLD,
            num_bands=BANDS,
            band_size=ROWS,
            analyzer="word",
            lowercase=True,
            ngram_range=(SHINGLE_WIDTH, SHINGLE_WIDTH),
        ).minhash_index

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return a list of min-hashes a text."""
        return [self._index.tokenize_and_minhash(text.decode()) for text in texts]
