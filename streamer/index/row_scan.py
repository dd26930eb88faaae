"""All kept rows of a shard, one flush after the other: for what no key leads to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.store import Store
from streamer.index.stored_rows import StoredRows
from streamer.index.types import KeptRows

ROWS_A_PART = 4096


class ScannedRows(NamedTuple):
    """Some rows, and the marks of their keys at this shard, uint32[n, keys]; 0: not posted."""

    rows: KeptRows
    marks: npt.NDArray[np.uint32]


def scan_rows(store: Store, shard: int) -> Iterator[ScannedRows]:
    """Yield the rows of a shard as of the store's meta record, a few thousand at a time."""
    reader = StoredRows(store, shard)
    for flush in store.meta.shards[shard].flushes if store.meta else []:
        numbers = store.row_numbers(shard, flush)
        for start in range(0, len(numbers), ROWS_A_PART):
            part = numbers[start : start + ROWS_A_PART]
            yield ScannedRows(reader.rows(part), reader.marks(part, flush.keys))
