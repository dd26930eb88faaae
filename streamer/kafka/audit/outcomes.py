"""Records and what became of each: a verdict, a dead letter, a skip, or still on its way.

A record is on its way if its signers have not committed past it, or if it is in the index and the
verdict was not emitted at a committed record. A record with nothing at all that was committed is
lost. A verdict beats a dead letter, which a worker with older rules may have left.
"""

from __future__ import annotations

import numpy as np

from streamer.index.records import source_name
from streamer.kafka.audit.reading import LogReading
from streamer.kafka.audit.report import Report
from streamer.kafka.audit.scene import Incoming, Scene
from streamer.kafka.audit.table import (
    ARRIVED,
    DEAD,
    OWED,
    RECORD,
    VERDICT,
    PageTable,
    page_name,
)
from streamer.kafka.dead_letters import INDEX
from streamer.model import split_ref

_CONNECT = "__connect.errors."
_IN_INDEX, _NOT_READ = "open: in the index", "open: not read"


class Outcomes:
    """Takes dead letters, then records; `covered` is how shard 0's log covers the pages."""

    def __init__(self, scene: Scene, table: PageTable, covered: LogReading, report: Report) -> None:
        self._scene = scene
        self._table = table
        self._covered = covered
        self._report = report

    def take_dead_letter(self, message: Incoming) -> None:
        """Take a message of the topic of dead letters; those of other indexes are passed over."""
        headers, report = dict(message.headers), self._report
        if headers.get(INDEX) != self._scene.names.index.encode():
            report.counts["dead letters of others"] += 1
            return
        report.counts["dead letters"] += 1
        place = self._named_place(headers)
        if place < 0:
            at = f"dead letter at partition {message.partition}, offset {message.offset}"
            report.existing.looked_at += 1
            report.existing.violate(f"{at}: there is no such record")
        else:
            self._table.flags[place] |= np.uint8(DEAD)

    def _named_place(self, headers: dict[str, bytes]) -> int:
        try:
            numbers = [int(headers[_CONNECT + name]) for name in ("partition", "offset")]
        except (KeyError, ValueError):
            return -1
        return self._table.place(numbers[0], numbers[1])

    def take_record(self, message: Incoming) -> None:
        """Take a record of the pages' topic."""
        report, place = self._report, self._table.place(message.partition, message.offset)
        flags = int(self._table.flags[place])
        self._table.flags[place] = flags | RECORD
        report.outcomes.looked_at += 1
        if flags & VERDICT:
            if flags & DEAD:
                report.counts["dead letters that a verdict beats"] += 1
        elif flags & DEAD:
            report.counts["pages dead-lettered"] += 1
        elif flags & ARRIVED:
            if flags & OWED:
                report.outcomes.violate(f"{_name(message)}: judged, but the verdict is not there")
            else:
                report.counts[_IN_INDEX] += 1
        else:
            self._take_without_trace(message)

    def _take_without_trace(self, message: Incoming) -> None:
        """Take a record that is neither in a log nor in any output."""
        report, partition, offset = self._report, message.partition, message.offset
        one = (offset, message.key, message.value)
        skipped = self._scene.parser.parse_messages(offset, offset + 1, [one]).skipped
        if skipped:
            for code in skipped:
                report.counts[f"skipped: {code}"] += 1
        elif offset < self._covered.mark(source_name(partition)):
            report.outcomes.violate(f"{_name(message)}: read, and nothing became of it")
        elif offset < self._scene.signed.get(partition, 0):
            report.outcomes.violate(f"{_name(message)}: committed, but not in the log")
        else:
            report.counts[_NOT_READ] += 1

    def finish(self) -> None:
        """Report what only all records together tell."""
        report, table = self._report, self._table
        said = np.flatnonzero(table.flags & (VERDICT | DEAD))
        report.existing.looked_at += len(said)
        for place in said[table.flags[said] & RECORD == 0].tolist():
            partition, offset = split_ref(table.ref(place))
            if offset < self._scene.page_bounds[partition][0]:
                report.counts["outcomes of records that have expired"] += 1
            else:
                report.existing.violate(f"{page_name(table.ref(place))}: there is no such record")
        if report.settled is not None:
            report.settled.looked_at = report.outcomes.looked_at
            for kind in (_IN_INDEX, _NOT_READ):
                if found := report.counts[kind]:
                    report.settled.violate(f"{kind}: {found:,}", found)


def _name(message: Incoming) -> str:
    return f"partition {message.partition}, offset {message.offset}"
