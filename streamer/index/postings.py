"""Sorted postings, cut into blocks: how a run's buckets lie on disk.

A run is its postings (key, row) in order. Keys are hashes, so their top bits cut them into blocks
of even size: block i holds the keys with top bits i. A look-up therefore knows its block at once,
reads that one value, and searches in it; there is no entry a key, no index to walk, and a flush
writes one value for some hundred postings.

A block's bytes: the keys as uint64, then the rows as uint32, both little-endian, in posting order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamer.kernel import int64, kernel, load_u64, uint64

BLOCK_POSTINGS = 384  # 2.3 to 4.6 kB: about a page of the disk, searched in nine steps
POSTING_BYTES = 12
ROWS_MAX = 1 << 32
GROUP_BITS_MAX = 20  # of a counting sort: its counters stay in the second-level cache

Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.uint32]


def block_bits(postings: int) -> int:
    """Return how many top bits of a key name its block, for so many postings."""
    return max(1, (postings // BLOCK_POSTINGS).bit_length())


@kernel
def block_starts(keys: Keys, bits: int) -> npt.NDArray[np.int64]:
    """Return where each of the 2**bits blocks starts in the sorted keys, and the end."""
    starts = np.zeros((1 << bits) + 1, np.int64)
    for key in keys:
        starts[int64(key >> uint64(64 - bits)) + 1] += 1
    for i in range(1, starts.shape[0]):
        starts[i] += starts[i - 1]
    return starts


@kernel
def _sort_small(keys: Keys, rows: Rows, first: int, end: int) -> None:
    """Sort one block's postings in place by key, stably, by insertion."""
    for i in range(first + 1, end):
        key, row = keys[i], rows[i]
        j = i
        while j > first and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        keys[j] = key
        rows[j] = row


@kernel
def sort_postings(keys: Keys, rows: Rows) -> tuple[Keys, Rows]:
    """Return the postings sorted by key; equal keys keep their order.

    A counting sort by the top bits, then an insertion sort in each small group: hashes spread
    evenly, which makes this linear. A bucket is capped, so equal keys cannot make a group large.
    """
    bits = 1
    while bits < GROUP_BITS_MAX and (1 << bits) * 8 < keys.shape[0]:
        bits += 1
    starts = block_starts(keys, bits)
    places = starts.copy()
    sorted_keys = np.empty_like(keys)
    sorted_rows = np.empty_like(rows)
    for i in range(keys.shape[0]):
        group = int64(keys[i] >> uint64(64 - bits))
        sorted_keys[places[group]] = keys[i]
        sorted_rows[places[group]] = rows[i]
        places[group] += 1
    for group in range(starts.shape[0] - 1):
        _sort_small(sorted_keys, sorted_rows, starts[group], starts[group + 1])
    return sorted_keys, sorted_rows


@kernel
def own_postings(
    keys: Keys, masks: Keys, rows: npt.NDArray[np.int64], out_keys: Keys, out_rows: Rows
) -> int:
    """List the postings of entries (keys[n, own], masks by bit, rows); return their number."""
    count = 0
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            if masks[i] >> uint64(j) & uint64(1):
                out_keys[count] = keys[i, j]
                out_rows[count] = rows[i]
                count += 1
    return count


def joined_blocks(values: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of blocks, and where each one starts in them, and the end."""
    limits = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=limits[1:])
    return np.frombuffer(b"".join(values), np.uint8), limits


@kernel
def split_blocks(
    data: npt.NDArray[np.uint8], limits: npt.NDArray[np.int64], out_keys: Keys, out_rows: Rows
) -> int:
    """Write the postings of blocks data[limits[i]:limits[i+1]], in order; return their number."""
    words = data.view(np.uint32)
    at = 0
    for i in range(limits.shape[0] - 1):
        start = limits[i]
        count = (limits[i + 1] - start) // POSTING_BYTES
        first_row = (start + 8 * count) // 4
        for j in range(count):
            out_keys[at + j] = load_u64(data, start + 8 * j)
            out_rows[at + j] = words[first_row + j]
        at += count
    return at


@kernel
def search_blocks(
    data: npt.NDArray[np.uint8],
    limits: npt.NDArray[np.int64],
    wanted: Keys,
    first: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
) -> None:
    """Find wanted[i] among the sorted keys of the block data[limits[i]:limits[i+1]].

    Writes the place of its first posting in the block and the number of its postings (0: none).
    """
    for i in range(wanted.shape[0]):
        start = limits[i]
        count = (limits[i + 1] - start) // POSTING_BYTES
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if load_u64(data, start + 8 * middle) < wanted[i]:
                low = middle + 1
            else:
                high = middle
        end = low
        while end < count and load_u64(data, start + 8 * end) == wanted[i]:
            end += 1
        first[i] = low
        size[i] = end - low


def merge_postings(parts: list[tuple[Keys, Rows]]) -> tuple[Keys, Rows]:
    """Merge the postings of several runs, given from the oldest to the newest."""
    return sort_postings(
        np.concatenate([keys for keys, _ in parts]), np.concatenate([rows for _, rows in parts])
    )
