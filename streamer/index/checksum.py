"""Checksums: each block of a block file ends with one, so that damage is told when it is read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.kernel import inline_kernel, int64, kernel, load_u64, store_u64, uint64

CHECK_BYTES = 8
PADDING = bytes(8)  # behind blocks: kernels take eight bytes at a time, some beyond the end
_FACTOR = 0x9E3779B97F4A7C15  # odd, so a change of any word changes the sum

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


@inline_kernel
def checksum(data: Bytes, start: int, end: int) -> int:
    """Return the checksum of data[start:end]: a polynomial over its words, in four lanes.

    Eight bytes behind the end are read, and do not count. A word of zeros counts by its place only,
    so the sums do not begin at zero: a hole in a file is no block.
    """
    a, b, c, d = uint64(end - start), uint64(1), uint64(2), uint64(3)
    factor, at = uint64(_FACTOR), int64(start)
    while at + 32 <= end:
        a = a * factor + load_u64(data, at)
        b = b * factor + load_u64(data, at + 8)
        c = c * factor + load_u64(data, at + 16)
        d = d * factor + load_u64(data, at + 24)
        at += 32
    while at + 8 <= end:
        a = a * factor + load_u64(data, at)
        at += 8
    if at < end:
        b = b * factor + (load_u64(data, at) & ((uint64(1) << uint64(8 * (end - at))) - uint64(1)))
    total: int = ((a * factor + b) * factor + c) * factor + d
    return total


@kernel
def damaged_block(data: Bytes, limits: Places) -> int:
    """Return the first block of which the checksum is not its own, -1 if all are sound."""
    for i in range(limits.shape[0] - 1):
        end = limits[i + 1] - CHECK_BYTES
        if end < limits[i] or checksum(data, limits[i], end) != load_u64(data, end):
            return int64(i)
    return int64(-1)


@kernel
def seal(block: Bytes) -> None:
    """Write the checksum of a block into its last eight bytes."""
    end = block.shape[0] - CHECK_BYTES
    store_u64(block, end, checksum(block, 0, end))
