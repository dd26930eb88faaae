"""A run's postings in order, a part at a time: what merges and the start of an index read.

Entries come as the store has them, a block of postings each. Parts are of whole blocks, so neither
a merge nor a start needs memory of a run's size; this module does not know where entries come from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from streamer.index.codec import RunMeta, block_of
from streamer.index.postings import (
    POSTING_BYTES,
    Keys,
    Rows,
    joined_blocks,
    merge_postings,
    split_blocks,
)

BLOCKS_A_READ = 1024  # of a run that is read as a whole: about 4 MB
PART_POSTINGS = 1 << 18  # that are merged at a time: 3 MB, which stay in a cache

Blocks = Iterator[tuple[bytes, bytes]]  # a run's entries, in order
Parts = Iterator[tuple[Keys, Rows]]  # its postings, some at a time


def whole_run(blocks: Blocks) -> Parts:
    """Yield all postings of a run in order, some at a time; each part has whole blocks."""
    while part := [value for _, value in itertools.islice(blocks, BLOCKS_A_READ)]:
        yield _unpacked(part)


def merged_runs(runs: Sequence[RunMeta], blocks: Sequence[Blocks]) -> Parts:
    """Yield the postings of runs, given from the oldest to the newest, merged in parts."""
    bits = min(_part_bits(sum(run.postings for run in runs)), *(run.bits for run in runs))
    each = [_cut(own, run.bits - bits, 1 << bits) for run, own in zip(runs, blocks, strict=True)]
    for parts in zip(*each, strict=True):
        yield merge_postings(list(parts))


def _part_bits(postings: int) -> int:
    return (postings // PART_POSTINGS).bit_length()


def _cut(blocks: Blocks, shift: int, count: int) -> Parts:
    """Yield the postings of a run in `count` parts, by their blocks' numbers without `shift` bits.

    These are the top bits of the keys, so parts of the same number belong together in all runs.
    """
    parts = itertools.groupby(blocks, lambda entry: block_of(entry[0]) >> shift)
    at, part = next(parts, (-1, iter(())))
    for number in range(count):
        if number != at:
            yield _unpacked([])
            continue
        yield _unpacked([value for _, value in part])
        at, part = next(parts, (-1, iter(())))


def _unpacked(blocks: list[bytes]) -> tuple[Keys, Rows]:
    data, limits = joined_blocks(blocks)
    count = len(data) // POSTING_BYTES
    keys, rows = np.empty(count, np.uint64), np.empty(count, np.uint32)
    split_blocks(data, limits, keys, rows)
    return keys, rows
