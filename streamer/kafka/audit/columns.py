"""A column that grows: appended to a record at a time, read as an array at the end."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Kind = TypeVar("Kind", bound=np.generic)


class Column(Generic[Kind]):
    """A growing array of one kind; its room doubles when it is full."""

    def __init__(self, kind: type[Kind]) -> None:
        self._room = np.empty(1024, kind)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: npt.ArrayLike) -> None:
        """Add values at the end."""
        added = np.asarray(values)
        end = self._length + len(added)
        if end > len(self._room):
            room = np.empty(max(end, 2 * len(self._room)), self._room.dtype)
            room[: self._length] = self.array()
            self._room = room
        self._room[self._length : end] = added
        self._length = end

    def array(self) -> npt.NDArray[Kind]:
        """Return all values; valid until the next one is added."""
        return self._room[: self._length]
