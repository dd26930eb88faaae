"""datatrove (numpy): the signature step of its min-hash pipeline, 14 buckets of 6 hashes.

`get_shingles` and `get_signature` of `MinhashDedupSignature` are what its `run` calls for each
document; writing and sorting files is left out. The text is simplified by its defaults, and hashed
by xxHash with 64 bits. Its own tokenizer for English is spaCy's, which takes longer; words between
spaces are given in its place, by the interface that the step takes a tokenizer through.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
from datatrove.utils.word_tokenizers import WordTokenizer

from benchmarks.peers.peer import BANDS, ROWS, SHINGLE_WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence


class SpacedWords(WordTokenizer):  # type: ignore[misc] # the library is untyped
    """What spaces separate; the step asks for words only."""

    def word_tokenize(self, text: str) -> list[str]:
        """Return the words."""
        return text.split()

    def sent_tokenize(self, text: str) -> list[str]:
        """Return the text as one sentence."""
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Return where that begins and ends."""
        return [(0, len(text))]


class DatatrovePeer:
    """The step, with an output folder that it writes nothing into."""

    def __init__(self) -> None:
        config = MinhashConfig(n_grams=SHINGLE_WIDTH, num_buckets=BANDS, hashes_per_bucket=ROWS)
        self._step = MinhashDedupSignature(tempfile.gettempdir(), config, language=SpacedWords())

    def sign(self, texts: Sequence[bytes]) -> list[object]:
        """Return the hashes of all buckets a text."""
        step = self._step
        return [step.get_signature(step.get_shingles(text.decode())) for text in texts]
