"""Lance (Rust, by `pip install pylance`): a table on disk whose texts have an index `MINHASHLSH`.

The library is in no lock, since it takes 0.2 GB, and its index is experimental: without it the peer
is absent. It signs within its own calls, so that its times have the signing in them, which those of
others have not; and it stores the texts.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCE_LOG", "error")  # else a line on each query

import lance
import pyarrow as pa
from lance.query import MinHashQuery

from benchmarks.peers.peer import BANDS, HASHES, SHINGLE_WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMN = "text"


class LanceIndex:
    """A table with an index of 14 bands of 6, over 84 min-hashes of 16 bits.

    One query a document, as the library has it. A batch is inserted in one commit and then indexed,
    since a commit takes as long as some queries: a document is not compared with those of its own
    batch. What shares a band counts as a duplicate, however the index estimates it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "lance")
        self._table: Any = None

    def sign(self, texts: Sequence[bytes]) -> list[str]:
        """Return the texts: the index signs them itself."""
        return [text.decode() for text in texts]

    def judge(self, batches: Sequence[list[str]]) -> int:
        """Look up all texts of a batch, then insert those that are new; return the duplicates."""
        duplicates = 0
        for batch in batches:
            new = [text for text in batch if not self._has_alike(text)]
            duplicates += len(batch) - len(new)
            if new:
                self._insert(new)
        return duplicates

    def _has_alike(self, text: str) -> bool:
        if self._table is None:
            return False
        query = MinHashQuery(text, COLUMN)
        found = self._table.to_table(
            nearest=query, limit=1, columns=[], with_row_id=True, fast_search=True
        )
        return bool(found.num_rows)

    def _insert(self, texts: list[str]) -> None:
        rows = pa.table({COLUMN: texts})
        if self._table is None:
            self._table = lance.write_dataset(rows, self._path)
            self._table.create_scalar_index(
                COLUMN, "MINHASHLSH",
                num_hashes=HASHES, num_bands=BANDS, shingle_size=SHINGLE_WIDTH,
            )  # fmt: skip
        else:
            self._table.insert(rows)
            self._table.optimize.optimize_indices()
        self._table = lance.dataset(self._path)

    def settle(self) -> None:
        """Remove the versions of the index before this one."""
        if self._table is not None:
            self._table.cleanup_old_versions(older_than=timedelta(0))
