"""What is known of an index at work as of a moment, in plain values.

`service.py` makes them of what the brokers say, `workers.py` of what the workers do. The fold and
the views hand them on, and need nothing that asks anybody.
"""

from __future__ import annotations

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


class ShardLag(msgspec.Struct, frozen=True):
    """A shard's log; `lag` records are not applied and committed, None: unknown.

    `owners` is how many workers own the shard now; None: unknown.
    """

    shard: int
    end: int
    lag: int | None
    owners: int | None


class ServiceState(msgspec.Struct, frozen=True):
    """An index at work as of a moment; what is None is unknown.

    Attributes:
        unreachable_since: when the brokers answered last, where they no longer do; '' if they do.
        heard: when shard 0 was heard of last, '' for never; `is_alive` if that is not long ago.
        open_pages: pages that a shard has not decided yet.
        signers: workers that sign.
        warnings: what is wrong, and what to do.
    """

    index_name: str
    pages_topic: str
    brokers: str
    as_of: str = ""
    unreachable_since: str = ""
    is_alive: bool = False
    heard: str = ""
    open_pages: int | None = None
    signers: int | None = None
    partitions: list[PartitionLag] = msgspec.field(default_factory=list)
    shards: list[ShardLag] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)


class WorkerFigures(msgspec.Struct, frozen=True):
    """A worker's figures, those of all its shards together; None: it does not have them.

    Attributes:
        problem: why there are none; '' for nothing.
        unflushed_records: records of the logs that are applied, and not on disk yet.
        snapshot: when it took its newest snapshot; '' for none since its start.
    """

    address: str
    problem: str = ""
    is_ready: bool = False
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    kept_pages: int | None = None
    index_bytes: int | None = None
    disk_free_bytes: int | None = None
    unflushed_records: int | None = None
    snapshot: str = ""


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
