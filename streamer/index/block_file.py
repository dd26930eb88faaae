"""A block file: blocks of bytes, one after the other, in one file that grows; a shard has two.

A flush writes its blocks behind those that the store knows of, brings them to the disk, and then
adds to the store how long each is: that step makes them count. What lies behind them is of a flush
that was killed or has failed; the next one writes over it. Blocks are read by a kernel, all of a
batch in one call that keeps no lock; their checksums tell damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from streamer.errors import StoreUnavailable
from streamer.index.checksum import PADDING, Bytes, Places, damaged_block
from streamer.index.store_errors import explained
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


class BlockFile:
    """An open block file; one thread may write while others read.

    Raises:
        StoreUnavailable: it cannot be opened, or is shorter than the `size` that the store knows.
    """

    def __init__(self, path: Path, size: int, *, writable: bool) -> None:
        self._path = path
        self.size = size
        with explained(path):
            is_new = writable and not path.exists()
            flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
            self._file = os.open(path, flags | os.O_CLOEXEC, 0o644)
            if is_new:
                _sync_folder(path.parent)
        if os.fstat(self._file).st_size < size:
            self.close()
            raise StoreUnavailable(_damage(path, "it is too short"))

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
            StoreUnavailable: the disk refuses, or a block is damaged.
        """
        limits = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts, out=limits[1:])
        data = np.empty(int(limits[-1]) + len(PADDING), np.uint8)
        data[limits[-1] :] = 0
        came = _read_parts(self._file, starts, ends, data.ctypes.data)
        if came < len(starts):
            with explained(self._path):
                os.pread(self._file, int(ends[came] - starts[came]), int(starts[came]))
            raise StoreUnavailable(_damage(self._path, "it ends too early"))
        bad = damaged_block(data, limits)
        if bad >= 0:
            raise StoreUnavailable(_damage(self._path, f"the block at {starts[bad]}"))
        return data, limits

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)


def _sync_folder(folder: Path) -> None:
    """Bring the entry of a new file to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _damage(path: Path, what: str) -> str:
    return (
        f"The index file {path} is damaged ({what}). Take the index from a copy, or build it anew: "
        "a worker does so from its log."
    )
