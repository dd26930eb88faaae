"""What a flush adds to RocksDB beside its record: entries in order of their keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamer.index.codec import BLOCKS, NUMBERS, POSTINGS, Entries, entry_key
from streamer.index.shard_files import Brought


def flush_entries(brought: Sequence[Brought]) -> Entries:
    """Yield the entries of what all shards flush."""
    for entries in (_posting_entries, _block_entries, _number_entries):
        yield from itertools.chain.from_iterable(map(entries, brought))


def _posting_entries(of: Brought) -> Entries:
    yield entry_key(of.flush.seq, of.shard, POSTINGS), _packed(of.part_lengths)


def _block_entries(of: Brought) -> Entries:
    yield entry_key(of.flush.seq, of.shard, BLOCKS), _packed(of.block_lengths)


def _number_entries(of: Brought) -> Entries:
    if not of.flush.dense:
        yield entry_key(of.flush.seq, of.shard, NUMBERS), of.rows.astype("<i8").tobytes()


def _packed(lengths: npt.NDArray[np.int64]) -> bytes:
    return lengths.astype("<u4").tobytes()


def unpack_lengths(data: bytes) -> npt.NDArray[np.int64]:
    """Return lengths as they were before they became an entry."""
    return np.frombuffer(data, "<u4").astype(np.int64)
