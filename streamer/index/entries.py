"""What a flush or a merge adds to the store: entries in order of their keys, and their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from streamer.index.codec import POSTINGS, ROWS, FlushMeta, RunMeta, entry_key
from streamer.index.lookup import FlushedRows
from streamer.index.postings import Keys, Rows, block_bits
from streamer.index.row_blocks import pack_rows


def run_meta(seq: int, level: int, postings: int) -> RunMeta:
    """Return what the store knows of a run of so many postings."""
    return RunMeta(seq, level, block_bits(postings), postings)


def flush_meta(seq: int, shard: FlushedRows) -> FlushMeta:
    """Return what the store knows of the rows that a shard flushes."""
    first, last, count = int(shard.rows[0]), int(shard.rows[-1]), len(shard.rows)
    keys = shard.marks.shape[1]
    return FlushMeta(seq, first, last, count, keys, dense=last - first + 1 == count)


def posting_entries(
    run: RunMeta, shard: int, parts: Iterable[tuple[Keys, Rows]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a run's sorted postings, a block each, in order of their keys.

    The postings come in parts, of which each has whole blocks.
    """
    shift = np.uint64(64 - run.bits)
    for keys, rows in parts:
        blocks = (keys >> shift).astype(np.int64)
        cuts = np.flatnonzero(np.diff(blocks, prepend=-1))
        numbers, ends = blocks[cuts].tolist(), np.append(cuts, len(keys))[1:].tolist()
        key_bytes, row_bytes = keys.tobytes(), rows.tobytes()
        for block, start, end in zip(numbers, cuts.tolist(), ends, strict=True):
            value = b"".join((key_bytes[8 * start : 8 * end], row_bytes[4 * start : 4 * end]))
            yield entry_key(run.seq, shard, POSTINGS, block), value


def row_entries(
    flush: FlushMeta, shard: int, flushed: FlushedRows
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of flushed rows, a block each, in order of their keys."""
    blocks = pack_rows(flushed.refs, flushed.sketches, flushed.marks, flushed.urls)
    for block, value in enumerate(blocks):
        yield entry_key(flush.seq, shard, ROWS, block), value
