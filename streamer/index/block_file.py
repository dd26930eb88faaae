"""A block file: blocks of bytes, one after the other, in one file that grows; a shard has two.

A flush writes its blocks behind those that the store knows of, brings them to the disk, and then
adds to the store how long each is: that step makes them count. What lies behind them is of a flush
that was killed or has failed; the next one writes over it. Blocks are read by a kernel, all of a
batch in one call that keeps no lock; their checksums tell damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import numpy as np

from streamer.index.checksum import PADDING, Bytes, Places, damaged_block
from streamer.index.store_errors import damaged, explained
from streamer.index.witness import sync_folder
from streamer.kernel import int64, kernel, read_file


@kernel
def _read_parts(file: int, starts: Places, ends: Places, address: int) -> int:
    """Read bytes [starts[i], ends[i]) of a file one after the other; return how many parts came."""
    for i in range(starts.shape[0]):
        at = starts[i]
        while at < ends[i]:
            got = read_file(file, address, ends[i] - at, at)
            if got <= 0:
                return i
            at += got
            address += got
    return int64(starts.shape[0])


class Access(Enum):
    """How a block file is opened."""

    READ = os.O_RDONLY
    WRITE = os.O_RDWR
    CREATE = os.O_RDWR | os.O_CREAT


class BlockFile:
    """An open block file; one thread may write while others read.

    Raises:
        StoreDamaged: it is missing, or shorter than the `size` that the store knows.
        StoreUnavailable: it cannot be opened.
    """

    def __init__(self, path: Path, size: int, access: Access) -> None:
        self._path = path
        self.size = size
        with explained(path):
            self._file = os.open(path, access.value | os.O_CLOEXEC, 0o644)
            if access is Access.CREATE:
                sync_folder(path.parent)
        if os.fstat(self._file).st_size < size:
            self.close()
            raise damaged(path, "it is too short")

    def append(self, parts: Iterable[tuple[Bytes, Places]]) -> Places:
        """Write blocks behind the others, to the disk; they count when `size` is set anew.

        A part is the bytes of some, and how long each is; all lengths are returned.

        Raises:
            StoreUnavailable: the disk refuses.
        """
        lengths, at = [], self.size
        with explained(self._path):
            for data, lengths_of_part in parts:
                lengths.append(lengths_of_part)
                left = data.data
                while left:
                    written = os.pwrite(self._file, left, at)
                    left, at = left[written:], at + written
            os.fdatasync(self._file)
        return np.concatenate(lengths)

    def read(self, starts: Places, ends: Places) -> tuple[Bytes, Places]:
        """Return the bytes of blocks that lie at [starts[i], ends[i]), and the limits of each.

        PADDING follows the last.

        Raises:
            StoreDamaged: a block is damaged, or cannot be read.
        """
        limits = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts, out=limits[1:])
        data = np.empty(int(limits[-1]) + len(PADDING), np.uint8)
        data[limits[-1] :] = 0
        came = _read_parts(self._file, starts, ends, data.ctypes.data)
        if came < len(starts):
            with explained(self._path):
                os.pread(self._file, int(ends[came] - starts[came]), int(starts[came]))
            raise damaged(self._path, "it ends too early")
        bad = damaged_block(data, limits)
        if bad >= 0:
            raise damaged(self._path, f"the block at {starts[bad]}")
        return data, limits

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)
