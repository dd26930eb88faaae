"""Signatures in memory, by row: which rows share band keys with one, and how alike they are.

Keys and sketches lie in numpy arrays, a row a text; a dictionary leads from each band key to its
rows. A row that is removed is given to the next signature. What a row stands for is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamer.model import SIMILARITY_ONE
from streamer.sketch.compact import SKETCH_WORDS
from streamer.sketch.resemblance import similarity

ROWS_FIRST = 1024

Keys = npt.NDArray[np.uint32 | np.uint64]
Sketches = npt.NDArray[np.uint64]


class SignatureTable:
    """Rows of `bands` keys, of the unsigned type `key_type`, and a sketch each."""

    def __init__(self, bands: int, key_type: type[np.uint32 | np.uint64]) -> None:
        self._keys: Keys = np.zeros((ROWS_FIRST, bands), key_type)
        self._sketches: Sketches = np.zeros((ROWS_FIRST, SKETCH_WORDS), np.uint64)
        self._buckets: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._end = 0  # rows from here on were never used

    def new_row(self) -> int:
        """Return a row that is in no bucket: the one removed last, else the next."""
        if self._free:
            return self._free.pop()
        if self._end == len(self._keys):
            self._keys = np.concatenate((self._keys, np.zeros_like(self._keys)))
            self._sketches = np.concatenate((self._sketches, np.zeros_like(self._sketches)))
        self._end += 1
        return self._end - 1

    def put(self, rows: Sequence[int], keys: npt.NDArray[np.uint64], sketches: Sketches) -> None:
        """Write signatures into distinct rows that are in no bucket; keys keep their low bits."""
        self._keys[rows] = keys.astype(self._keys.dtype)
        self._sketches[rows] = sketches
        buckets = self._buckets
        for row, row_keys in zip(rows, self._keys[rows].tolist(), strict=True):
            for key in row_keys:
                if key in buckets:
                    buckets[key].append(row)
                else:
                    buckets[key] = [row]

    def unlink(self, row: int) -> None:
        """Take a row out of its buckets, to be put again."""
        for key in self._keys[row].tolist():
            bucket = self._buckets[key]
            bucket.remove(row)
            if not bucket:
                del self._buckets[key]

    def remove(self, row: int) -> None:
        """Take a row out of its buckets and set it free."""
        self.unlink(row)
        self._free.append(row)

    def similar_to_row(
        self, row: int, min_jaccard: float, sensitivity: int, after: int = -1
    ) -> list[tuple[int, float]]:
        """Return the other rows behind `after` that are like `row`, as `similar` does."""
        keys, sketch = self._keys[row], self._sketches[row]
        found = self.similar(keys, sketch, min_jaccard, sensitivity, after)
        return [(other, value) for other, value in found if other != row]

    def similar(
        self,
        keys: Keys,
        sketch: Sketches,
        min_jaccard: float,
        sensitivity: int,
        after: int = -1,
    ) -> list[tuple[int, float]]:
        """Return (row, estimated resemblance) of the rows behind `after` that are like a signature.

        They share at least `sensitivity` keys and have at least the resemblance `min_jaccard`. The
        most similar come first, equal ones by row.
        """
        shared = Counter(
            row
            for key in keys.astype(self._keys.dtype).tolist()
            for row in self._buckets.get(key, ())
            if row > after
        )
        estimated = (
            (row, similarity(sketch, self._sketches[row]) / SIMILARITY_ONE)
            for row, count in shared.items()
            if count >= sensitivity
        )
        found = [(row, value) for row, value in estimated if value >= min_jaccard]
        return sorted(found, key=lambda one: (-one[1], one[0]))
