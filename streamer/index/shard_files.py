"""The files of one shard that grow at each flush: one of rows, and one of postings.

Both are written at the same time, by a thread each.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.block_file import BlockFile
from streamer.index.codec import FlushMeta
from streamer.index.lookup import FlushedRows
from streamer.index.postings import Postings, pack_postings, sort_postings
from streamer.index.row_blocks import pack_rows


class Brought(NamedTuple):
    """What a flush brings of one shard that has rows, and how long its blocks are.

    Attributes:
        rows: int64, the numbers of the rows, ascending.
        block_lengths: int64, of the blocks in the row file.
        part_lengths: int64, of those in the postings file.
    """

    shard: int
    flush: FlushMeta
    rows: npt.NDArray[np.int64]
    block_lengths: npt.NDArray[np.int64]
    part_lengths: npt.NDArray[np.int64]
    postings: Postings


class ShardFiles:
    """The row file and the postings file of shard `number`, as the store knows them by `flushes`.

    Raises:
        StoreUnavailable: as BlockFile.
    """

    def __init__(
        self, folder: Path, number: int, flushes: Sequence[FlushMeta], *, writable: bool
    ) -> None:
        sizes = sum(each.size for each in flushes), sum(each.postings_size for each in flushes)
        self._number = number
        self.rows = BlockFile(folder / f"rows-{number}", sizes[0], writable=writable)
        self.postings = BlockFile(folder / f"postings-{number}", sizes[1], writable=writable)

    def bring(self, seq: int, rows: FlushedRows) -> Brought:
        """Write what a flush brings, to the disk; it counts when `take` is called.

        Raises:
            StoreUnavailable: the disk refuses.
        """
        blocks = pack_rows(rows.refs, rows.sketches, rows.keys, rows.masks, rows.urls)
        with ThreadPoolExecutor(1, "postings") as beside:
            written = beside.submit(self._write_postings, rows)
            block_lengths = self.rows.append(blocks)
        postings, part_lengths = written.result()
        flush = self._meta(seq, rows, int(block_lengths.sum()), int(part_lengths.sum()))
        return Brought(self._number, flush, rows.rows, block_lengths, part_lengths, postings)

    def _write_postings(self, rows: FlushedRows) -> tuple[Postings, npt.NDArray[np.int64]]:
        postings = sort_postings(rows.keys, rows.masks, rows.rows)
        return postings, self.postings.append(pack_postings(postings))

    def _meta(self, seq: int, rows: FlushedRows, size: int, postings_size: int) -> FlushMeta:
        first, last, count = int(rows.rows[0]), int(rows.rows[-1]), len(rows.rows)
        return FlushMeta(
            seq,
            first,
            last,
            count,
            keys=rows.keys.shape[1],
            postings=int(np.bitwise_count(rows.masks).sum()),
            size=size,
            postings_start=self.postings.size,
            postings_size=postings_size,
            dense=last - first + 1 == count,
        )

    def take(self, flush: FlushMeta) -> None:
        """Let what was brought count: the store has it."""
        self.rows.size += flush.size
        self.postings.size += flush.postings_size

    def close(self) -> None:
        """Release the files."""
        self.rows.close()
        self.postings.close()
