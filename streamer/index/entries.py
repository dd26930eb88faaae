"""What a flush adds to the store: entries in order of their keys, and its record."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.codec import BLOCKS, NUMBERS, POSTINGS, Entries, FlushMeta, entry_key
from streamer.index.lookup import FlushedRows
from streamer.index.postings import pack_postings, sort_postings


class Brought(NamedTuple):
    """What a flush brings of one shard that has rows: its record, and where its blocks end."""

    shard: int
    flush: FlushMeta
    rows: FlushedRows
    ends: npt.NDArray[np.int64]


def flush_meta(seq: int, rows: FlushedRows, size: int) -> FlushMeta:
    """Return what the store knows of the rows that a shard flushes, in blocks of so many bytes."""
    first, last, count = int(rows.rows[0]), int(rows.rows[-1]), len(rows.rows)
    keys, postings = rows.marks.shape[1], len(rows.posting_keys)
    dense = last - first + 1 == count
    return FlushMeta(seq, first, last, count, keys, postings, size, dense=dense)


def flush_entries(brought: Sequence[Brought]) -> Entries:
    """Yield the entries of what all shards flush."""
    for entries in (_posting_entries, _block_entries, _number_entries):
        yield from itertools.chain.from_iterable(map(entries, brought))


def _posting_entries(of: Brought) -> Entries:
    postings = sort_postings(of.rows.posting_keys, of.rows.posting_rows)
    for part, value in enumerate(pack_postings(postings)):
        yield entry_key(of.flush.seq, of.shard, POSTINGS, part), value


def _block_entries(of: Brought) -> Entries:
    lengths = np.diff(of.ends, prepend=0).astype("<u4")
    yield entry_key(of.flush.seq, of.shard, BLOCKS), lengths.tobytes()


def _number_entries(of: Brought) -> Entries:
    if not of.flush.dense:
        yield entry_key(of.flush.seq, of.shard, NUMBERS), of.rows.rows.astype("<i8").tobytes()
