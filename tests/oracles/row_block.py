"""A block of kept rows, read a row at a time: the kernels of row_blocks.py are held against it."""

import struct

import numpy as np
import numpy.typing as npt

from streamer.sketch.resemblance import SKETCH_BYTES, SKETCH_WORDS


class RowBlock:
    """A row block as read; rows are named by their place in it."""

    def __init__(self, value: bytes) -> None:
        self._rows, keys = struct.unpack_from("<II", value)
        self._value = value[8:]
        self._keys = keys
        self._marks = (16 + SKETCH_BYTES) * self._rows
        self._ends = self._marks + 4 * keys * self._rows

    def sketch(self, place: int) -> npt.NDArray[np.uint64]:
        """Return the sketch as uint64[33]."""
        return np.frombuffer(
            self._value, np.uint64, SKETCH_WORDS, 16 * self._rows + SKETCH_BYTES * place
        )

    def halves(self, place: int) -> npt.NDArray[np.uint32]:
        """Return the halves of the keys that the row has postings under, as uint32[keys]."""
        return np.frombuffer(
            self._value, np.uint32, self._keys, self._marks + 4 * self._keys * place
        )

    def ref(self, place: int) -> int:
        """Return the page ref."""
        return int(struct.unpack_from("<Q", self._value, 8 * place)[0])

    def time(self, place: int) -> int:
        """Return the time of the page."""
        return int(struct.unpack_from("<q", self._value, 8 * (self._rows + place))[0])

    def url(self, place: int) -> bytes:
        """Return the URL."""
        base = self._ends + 4 * self._rows
        end = struct.unpack_from("<I", self._value, self._ends + 4 * place)[0]
        start = struct.unpack_from("<I", self._value, self._ends + 4 * place - 4)[0] if place else 0
        return self._value[base + start : base + end]
