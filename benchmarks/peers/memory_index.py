"""What both peers' indexes in memory share: `query`, and `insert` where that finds nothing."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryIndex:
    """An index with `query` and `insert`, empty at first."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - a peer's own
        self._index = index
        self._documents = 0

    def judge(self, batches: Sequence[list[Any]]) -> int:
        """Look up and insert, one document after the other; return the duplicates."""
        index, duplicates = self._index, 0
        for number, sketch in enumerate(chain.from_iterable(batches), self._documents):
            if index.query(sketch):
                duplicates += 1
            else:
                index.insert(number, sketch)
        self._documents += sum(map(len, batches))
        return duplicates

    def settle(self) -> None:
        """Do nothing: there is no disk."""
