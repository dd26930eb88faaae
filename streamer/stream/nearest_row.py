"""The kept row that decides over a page: all rows of all shards are read, and the best one ranked.

Those that share a key come first, as in the stream, where no others are compared; but a page that
shares none is still told which row is most similar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.codec import StoreMeta
from streamer.index.row_scan import scan_rows
from streamer.index.settings import key_columns
from streamer.index.store import Store
from streamer.sketch.measures import sketch_similarity

Progress = Callable[[int], None]  # rows read
Marks = npt.NDArray[np.uint32]
Sketch = npt.NDArray[np.uint64]


class Target(NamedTuple):
    """What is compared with all rows but the one at `ref`.

    Attributes:
        marks: of the keys, the content key's last; 0 for a key that is not posted.
    """

    marks: Marks
    sketch: Sketch
    ref: int | None


class FoundRow(NamedTuple):
    """A row by its page ref: keys it shares, similarity in ten-thousandths, equal content."""

    shared: int
    similarity: int
    ref: int
    url: bytes
    equal: bool


def nearest_row(
    store: Store, meta: StoreMeta, target: Target, measure: int, progress: Progress
) -> FoundRow | None:
    """Return the row that decides: of those that share a key the most similar, else of all."""
    shared: dict[int, int] = {}
    best: FoundRow | None = None
    read = 0
    for number in reversed(range(len(meta.shards))):  # the first shard last: it has all rows' keys
        own = target.marks[key_columns(number, len(meta.shards), len(target.marks) - 1)]
        for rows, marks in scan_rows(store, number):
            agreeing = (marks == own) & (own != 0)
            for i, count in enumerate(agreeing.sum(axis=1).tolist()):
                ref = rows.refs[i]
                shared[ref] = shared.get(ref, 0) + count
                if number or ref == target.ref:
                    continue
                sketch = np.ascontiguousarray(rows.sketches[i])
                similarity = int(sketch_similarity(measure, target.sketch, sketch))
                equal = bool(agreeing[i, -1])
                one = FoundRow(shared[ref], similarity, ref, rows.urls[i], equal)
                if best is None or _rank(one) < _rank(best):
                    best = one
            read += len(rows.refs)
            progress(read)
    return best


def _rank(found: FoundRow) -> tuple[bool, bool, int, int]:
    return (not found.shared, not found.equal, -found.similarity, found.ref)
