"""What a flush adds to the store: entries in order of their keys, and its record."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from streamer.index.codec import NUMBERS, POSTINGS, ROWS, FlushMeta, entry_key
from streamer.index.lookup import FlushedRows
from streamer.index.postings import pack_postings, sort_postings
from streamer.index.row_blocks import pack_rows
from streamer.index.sorted_files import Entries


def flush_meta(seq: int, shard: FlushedRows) -> FlushMeta:
    """Return what the store knows of the rows that a shard flushes."""
    first, last, count = int(shard.rows[0]), int(shard.rows[-1]), len(shard.rows)
    keys, postings = shard.marks.shape[1], len(shard.posting_keys)
    return FlushMeta(seq, first, last, count, keys, postings, dense=last - first + 1 == count)


def flush_entries(brought: Sequence[Sequence[FlushMeta]], shards: Sequence[FlushedRows]) -> Entries:
    """Yield the entries of what all shards flush; of each, its record, or none without rows."""
    each = [
        (number, flush, flushed)
        for number, (flushes, flushed) in enumerate(zip(brought, shards, strict=True))
        for flush in flushes
    ]
    for entries in (_posting_entries, _row_entries, _number_entries):
        yield from itertools.chain.from_iterable(itertools.starmap(entries, each))


def _posting_entries(shard: int, flush: FlushMeta, flushed: FlushedRows) -> Entries:
    if flush.postings:  # none, if every bucket that the rows met was full
        postings = sort_postings(flushed.posting_keys, flushed.posting_rows)
        for part, value in enumerate(pack_postings(postings)):
            yield entry_key(flush.seq, shard, POSTINGS, part), value


def _row_entries(shard: int, flush: FlushMeta, flushed: FlushedRows) -> Entries:
    blocks = pack_rows(flushed.refs, flushed.sketches, flushed.marks, flushed.urls)
    for block, value in enumerate(blocks):
        yield entry_key(flush.seq, shard, ROWS, block), value


def _number_entries(shard: int, flush: FlushMeta, flushed: FlushedRows) -> Entries:
    if not flush.dense:
        yield entry_key(flush.seq, shard, NUMBERS), flushed.rows.astype("<i8").tobytes()
