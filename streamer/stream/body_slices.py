"""The bodies of a batch in one block: most lie in the messages' own, the others are put behind it.

Only where a body had to be made (decoded, unwrapped) is anything copied: then the block is.
"""

from __future__ import annotations

import numpy as np

from streamer.text.slices import Places, Slices
from streamer.text.visible import Buffer


class BodySlices:
    """Takes bodies one after the other."""

    def __init__(self, messages: Slices) -> None:
        self._messages = messages
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._made: list[Buffer] = []
        self._end = len(messages.data)

    def add_places(self, starts: Places, ends: Places) -> None:
        """Take the bodies that lie at data[starts[i]:ends[i]] of the messages."""
        self._starts += starts.tolist()
        self._ends += ends.tolist()

    def add(self, body: Buffer) -> None:
        """Take a body that lies elsewhere."""
        self._made.append(body)
        self._starts.append(self._end)
        self._end += len(body)
        self._ends.append(self._end)

    def slices(self) -> Slices:
        """Return all bodies, in the order in which they were taken."""
        data = self._messages.data
        if self._made:
            data = np.concatenate((data, Slices.joined(self._made).data))
        return Slices(data, np.array(self._starts, np.int64), np.array(self._ends, np.int64))
