"""How far an owned shard is in its log: what is out already, where the log ends, what is left.

A shard has caught up when the log is folded up to the end that it had at the assignment. Its own
position is the owner's; this is the rest, for decisions, logs and metrics.
"""

from __future__ import annotations

import time

import structlog
from faust.types import TP

from streamer.kafka.measures import ShardMeasures
from streamer.kafka.owner import Owner
from streamer.kafka.transport import ChunkConsumer

_log = structlog.get_logger()


class ShardProgress:
    """The progress of a shard in the partition `log`.

    Attributes:
        committed: below it all that the log's records lead to is out.
    """

    def __init__(self, owner: Owner, log: TP, measures: ShardMeasures) -> None:
        self._owner = owner
        self._place = log
        self._measures = measures
        self.committed = 0
        self._end = 0  # of the log, as last heard
        self._target: int | None = None  # the log's end when the shard was assigned
        self._assigned_at: tuple[int, float] | None = None  # the position then, and when

    @property
    def is_assigned(self) -> bool:
        """Tell whether the shard has been assigned here since the start."""
        return self._target is not None

    def is_assigned_now(self, chunks: ChunkConsumer) -> bool:
        """Tell whether the shard is assigned here: what one says that lost it is out of date."""
        return self.is_assigned and self._place in chunks.assignment()

    @property
    def caught_up(self) -> bool:
        """Tell whether the log is folded up to the end that it had at the assignment."""
        return self._target is not None and self._owner.position >= self._target

    def note_assigned(self, position: int, committed: int, end: int) -> None:
        """Take an assignment: the index stands at `position`, the log ends at `end`."""
        self.committed = max(self.committed, committed)
        self._target = end
        self._assigned_at = position, time.monotonic()
        _log.info(
            "shard_assigned", shard=self._owner.number, position=position, committed=committed,
            end=end,
        )  # fmt: skip

    def observe(self, chunks: ChunkConsumer) -> None:
        """Set the metrics of the log, and log once that the shard has caught up."""
        if self._place in chunks.assignment():
            self._end = chunks.highwater(self._place) or self._end
        committed = chunks.committed(self._place)
        self._measures.observe_log(self._owner.position, self._end, committed)
        self._tell_when_caught_up()

    def _tell_when_caught_up(self) -> None:
        if self._assigned_at is None or not self.caught_up:
            return
        (position, began), self._assigned_at = self._assigned_at, None
        folded, seconds = self._owner.position - position, time.monotonic() - began
        _log.info(
            "shard_caught_up", shard=self._owner.number, position=self._owner.position,
            records=folded, seconds=round(seconds, 3),
        )  # fmt: skip
