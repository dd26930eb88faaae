"""Byte strings in one block of memory: records as read, and the bodies within them.

A kernel takes the block with two arrays of places: nothing is copied or made for each string.
Python code takes it for a sequence of `bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.text.scan import Bytes, find_byte
from streamer.text.tokens import SLACK

Places = npt.NDArray[np.int64]

_NEWLINE = 0x0A


class Slices(Sequence[bytes]):
    """The strings data[starts[i]:ends[i]].

    Attributes:
        data: uint8, with SLACK readable bytes after every end; read-only, since the kernels that
            take it would be compiled again for data that can be written.
        starts, ends: int64[n].
    """

    __slots__ = ("data", "ends", "starts")

    def __init__(self, data: Bytes, starts: Places, ends: Places) -> None:
        self.data = data.view()
        self.data.flags.writeable = False
        self.starts = starts
        self.ends = ends

    @classmethod
    def joined(cls, strings: Iterable[bytes | bytearray | memoryview] = ()) -> Slices:
        """Return `strings`, copied into one block; Slices are returned as they are."""
        if isinstance(strings, Slices):
            return strings
        parts = list(strings)
        places = np.zeros(len(parts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=places[1:])
        data = np.frombuffer(b"".join((*parts, bytes(SLACK))), np.uint8)
        return cls(data, places[:-1], places[1:])

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Slices: ...

    def __getitem__(self, index: int | slice) -> bytes | Slices:
        if isinstance(index, slice):
            return Slices(self.data, self.starts[index], self.ends[index])
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    @property
    def lengths(self) -> Places:
        """The lengths in bytes."""
        return self.ends - self.starts


@kernel
def find_line_ends(
    data: Bytes, at: int, end: int, ends: Places, count: int, bytes_max: int
) -> tuple[int, int]:
    """Write the places after the newlines of data[at:end] to ends[count:]; return count and place.

    The place is where the search ended: behind the first newline at or beyond `bytes_max`, behind
    the one that fills `ends`, or at `end`.
    """
    while count < ends.shape[0] and (count == 0 or ends[count - 1] < bytes_max):
        at = find_byte(data, at, end, _NEWLINE)
        if at == end:
            break
        at += 1
        ends[count] = at
        count += 1
    return count, at
