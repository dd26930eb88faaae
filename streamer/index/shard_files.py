"""The files of one shard that grow at each flush: one of rows, and one of postings.

Both are written at the same time, by a thread each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import StreamerError
from streamer.index.block_file import Access, BlockFile
from streamer.index.codec import BLOCKS, FLUSH, NUMBERS, FlushMeta, entry_key, pack_lengths
from streamer.index.postings import Postings, pack_postings, sort_postings
from streamer.index.row_blocks import pack_rows
from streamer.index.types import FlushedRows


class Brought(NamedTuple):
    """What a flush brings of one shard that has rows, and how long its blocks are.

    Attributes:
        rows: int64, the numbers of the rows, ascending.
        block_lengths: int64, of the blocks in the row file.
    """

    shard: int
    flush: FlushMeta
    rows: npt.NDArray[np.int64]
    block_lengths: npt.NDArray[np.int64]
    postings: Postings

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield what the database must have of it."""
        flush = self.flush
        yield entry_key(FLUSH, self.shard, flush.seq), msgspec.msgpack.encode(flush)
        yield entry_key(BLOCKS, self.shard, flush.seq), pack_lengths(self.block_lengths)
        if not flush.dense:
            numbers = self.rows.astype("<i8").tobytes()
            yield entry_key(NUMBERS, self.shard, flush.seq), numbers


class ShardFiles:
    """The row file and the postings file of shard `number`, as the store knows them by `flushes`.

    Raises:
        StoreDamaged, StoreUnavailable: as BlockFile.
    """

    def __init__(
        self, folder: Path, number: int, flushes: Sequence[FlushMeta], access: Access
    ) -> None:
        sizes = sum(each.size for each in flushes), sum(each.postings_size for each in flushes)
        self._number = number
        self.rows = BlockFile(folder / f"rows-{number}", sizes[0], access)
        try:
            self.postings = BlockFile(folder / f"postings-{number}", sizes[1], access)
        except StreamerError:
            self.rows.close()
            raise

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
        flush = self._meta(seq, rows, int(block_lengths.sum()), part_lengths)
        return Brought(self._number, flush, rows.rows, block_lengths, postings)

    def _write_postings(self, rows: FlushedRows) -> tuple[Postings, npt.NDArray[np.int64]]:
        postings = sort_postings(rows.keys, rows.masks, rows.rows)
        return postings, self.postings.append(pack_postings(postings))

    def _meta(
        self, seq: int, rows: FlushedRows, size: int, part_lengths: npt.NDArray[np.int64]
    ) -> FlushMeta:
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
            postings_size=int(part_lengths.sum()),
            dense=last - first + 1 == count,
            part_lengths=pack_lengths(part_lengths),
        )

    def take(self, flush: FlushMeta) -> None:
        """Let what was brought count: the store has it."""
        self.rows.size += flush.size
        self.postings.size += flush.postings_size

    def close(self) -> None:
        """Release the files."""
        self.rows.close()
        self.postings.close()
