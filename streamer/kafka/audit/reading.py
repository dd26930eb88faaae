"""Reads a log by the rule of intervals, apart from the shard that does so too, and notes its state.

A record that was seen before is a repeat and harmless. A record behind the mark's end is a hole:
harmless if a later record fills it, as after a failed publish, and a loss if none does.
"""

from __future__ import annotations

import numpy as np

from streamer.index.records import Record


class LogReading:
    """How far a log covers each of its sources."""

    def __init__(self) -> None:
        self.records = 0
        self.repeats = 0
        self.ahead = 0  # records that came behind a hole
        self._marks: dict[str, int] = {}
        self._furthest: dict[str, int] = {}

    def accept(self, record: Record) -> int | None:
        """Return the place of the first item that counts, or None for a record to pass over."""
        self.records += 1
        mark = self.mark(record.source)
        if record.start <= mark < record.end:
            self._marks[record.source] = record.end
            return int(np.searchsorted(record.numbers, mark))
        if record.start > mark:
            self.ahead += 1
            furthest = self._furthest.get(record.source, 0)
            self._furthest[record.source] = max(furthest, record.end)
        else:
            self.repeats += 1
        return None

    def mark(self, source: str) -> int:
        """Return up to where a source is covered."""
        return self._marks.get(source, 0)

    @property
    def sources(self) -> int:
        """Return how many sources there are."""
        return len({*self._marks, *self._furthest})

    def unfilled(self) -> list[tuple[str, int, int]]:
        """Return (source, mark, furthest end) of each source with a hole that nothing fills."""
        return [
            (source, self.mark(source), end)
            for source, end in sorted(self._furthest.items())
            if end > self.mark(source)
        ]
