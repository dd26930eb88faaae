"""How far a fold is, in plain values: the fold's process reports them, and the views show them."""

import time
from collections import deque
from datetime import UTC, datetime

import msgspec

_PACE_SECONDS = 10.0  # that a rate is the mean of


class PartitionLag(msgspec.Struct, frozen=True):
    """A partition of the pages; `lag` messages are not signed and committed, None: unknown."""

    partition: int
    end: int
    lag: int | None


class FoldState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a fold is.

    Attributes:
        is_done: whether the view has all that its inputs had at the start.
        trouble: what keeps the fold from going on; '' for nothing.
        rate: how many lines a second are new; None where that is not known.
        lags: of the partitions of pages; None where files are folded.
        refused: why the view cannot be opened; '' if it can.
    """

    is_done: bool = False
    trouble: str = ""
    rate: float | None = None
    lags: list[PartitionLag] | None = None
    refused: str = ""


class Pace:
    """How fast a count grows, as the mean of the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self.rate: float | None = None  # a second; None until it is known

    def note(self, count: int, now: float | None = None) -> None:
        """Take the count of this moment, in seconds of any clock."""
        now = time.monotonic() if now is None else now
        if self._seen and count < self._seen[-1][1]:  # another topic, or another view
            self._seen.clear()
        self._seen.append((now, count))
        while len(self._seen) > 1 + 1 and self._seen[1][0] <= now - _PACE_SECONDS:
            self._seen.popleft()
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        self.rate = (last - first) / (ended - began) if ended > began else None


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, as people and programs read it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
