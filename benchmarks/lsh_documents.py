"""Short documents by the million, for the index alone: equal ones for every system, from numbers.

What an index does with a signature does not depend on how long the document was, so these have 64
random words. One in five is a copy of any earlier one that is none: a third of those exact, the
others with one word replaced (resemblance 0.85). Each is a function of its number, as in corpus.py,
so memory stays flat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from benchmarks.corpus import SEED, U64, mixed

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = 64
WORD_BYTES = 4  # written as hexadecimal digits
COPY_ONE_IN = 5
EXACT_ONE_IN = 3  # of the copies


def batches(begin: int, end: int, size: int, seed: int = SEED) -> Iterator[list[bytes]]:
    """Yield the documents [begin, end) in batches; a copy's original may lie before `begin`."""
    for start in range(begin, end, size):
        numbers = np.arange(start, min(end, start + size), dtype=np.uint64)
        words = _words(numbers, np.uint64(seed))
        yield [row.tobytes().hex(" ", WORD_BYTES).encode() for row in words]


def is_copy(numbers: U64) -> npt.NDArray[np.bool_]:
    """Tell which documents are copies: the last of each five."""
    last: npt.NDArray[np.bool_] = numbers % np.uint64(COPY_ONE_IN) == COPY_ONE_IN - 1
    return last


def _words(numbers: U64, seed: np.uint64) -> npt.NDArray[np.uint32]:
    """Return the words of documents, one row each."""
    draws = mixed(numbers + (~seed << np.uint64(40)))
    copies = is_copy(numbers)
    origins = numbers.copy()
    origins[copies] = draws[copies] % numbers[copies]
    origins -= is_copy(origins) & copies  # the document before a copy is none
    first = (origins + (seed << np.uint64(40))) * np.uint64(WORDS)
    words = mixed(np.add.outer(first, np.arange(WORDS, dtype=np.uint64))).astype(np.uint32)
    exact = (draws >> np.uint64(40)) % np.uint64(EXACT_ONE_IN) == 0
    edited = np.flatnonzero(copies & ~exact)
    words[edited, draws[edited] >> np.uint64(58)] ^= np.uint32(0x5A5A5A5A)
    return words
