"""The published verdicts, held against the fold, their pages and each other.

A page's effective verdict is its first one: a reader that takes the last one of each page sees the
same, as repeats are byte-identical. What can only be told once all verdicts are read, whether a
representative was itself kept, is told at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from streamer.kafka.audit.report import Report
from streamer.kafka.audit.scene import Incoming, Scene, digest
from streamer.kafka.audit.shard_log import ExpectedVerdicts
from streamer.kafka.audit.table import JUDGED, OWED, UNIQUE, VERDICT, PageTable, page_name
from streamer.kafka.verdict_messages import SEQUENCE
from streamer.model import SIMILARITY_ONE, Decision, Location

_SEQUENCE = re.compile(rb"(\d{1,3}):(\d{1,18})")


class _Other(msgspec.Struct):
    page: Location


class _Verdict(msgspec.Struct):
    """What matters here of a verdict."""

    page: Location
    verdict: Decision
    similarity: float | None
    representative: _Other | None


_decode = msgspec.json.Decoder(_Verdict).decode


class PublishedVerdicts:
    """Takes the messages of the topic of verdicts; `expected` is by shard."""

    def __init__(
        self,
        scene: Scene,
        table: PageTable,
        expected: Sequence[ExpectedVerdicts],
        report: Report,
    ) -> None:
        self._scene = scene
        self._table = table
        self._expected = expected
        self._report = report

    def take(self, message: Incoming) -> None:
        """Take one message."""
        report = self._report
        report.counts["verdict messages"] += 1
        at = f"verdict at partition {message.partition}, offset {message.offset}"
        try:
            verdict = _decode(message.value or b"")
        except msgspec.MsgspecError:
            report.verdict_bytes.looked_at += 1
            report.verdict_bytes.violate(f"{at}: no verdict of this schema")
            return
        found = digest(message.key, message.value)
        number = self._check_number(message, found, at)
        self._check_place(message, verdict.page, at)
        place = self._place(verdict.page)
        if place < 0:
            report.existing.looked_at += 1
            report.existing.violate(f"{at}: there is no record {_name(verdict.page)}")
        elif self._table.flags[place] & VERDICT:
            report.repeats.looked_at += 1
            if self._table.digests[place] != found:
                report.repeats.violate(f"{at}: another one than before, of {_name(verdict.page)}")
        else:
            self._take_first(place, found, verdict, number, at)

    def _check_number(self, message: Incoming, found: int, at: str) -> tuple[int, int] | None:
        """Hold a message against the fold's verdict of its number; return shard and number."""
        report = self._report
        header = dict(message.headers).get(SEQUENCE, b"")
        match = _SEQUENCE.fullmatch(header)
        report.verdict_bytes.looked_at += 1
        if match is None:
            report.verdict_bytes.violate(f"{at}: no number, but {header[:40]!r}")
            return None
        shard, number = int(match[1]), int(match[2])
        if shard >= len(self._expected) or number >= len(self._expected[shard]):
            report.numbers.violate(f"{at}: the fold gives no verdict {shard}:{number}")
            return None
        expected = self._expected[shard]
        expected.seen[number] = True
        if expected.digests[number] != found:
            report.verdict_bytes.violate(f"{at}: not the verdict {shard}:{number} of the fold")
        return shard, number

    def _check_place(self, message: Incoming, page: Location, at: str) -> None:
        check, partitions = self._report.places, self._scene.verdict_partitions
        check.looked_at += 1
        if message.partition != page.partition % partitions:
            check.violate(f"{at}: of {_name(page)}, whose place is {page.partition % partitions}")

    def _place(self, page: Location) -> int:
        known = page.topic == self._scene.names.pages
        return self._table.place(page.partition, page.offset) if known else -1

    def _take_first(
        self, place: int, found: int, verdict: _Verdict, number: tuple[int, int] | None, at: str
    ) -> None:
        """Note a page's effective verdict."""
        table, unique = self._table, verdict.verdict is Decision.UNIQUE
        table.digests[place] = found
        table.flags[place] |= np.uint8(VERDICT | UNIQUE if unique else VERDICT)
        self._report.counts[f"pages {verdict.verdict.value}"] += 1
        if not unique:
            self._check_representative(place, verdict, number, at)

    def _check_representative(
        self, place: int, verdict: _Verdict, number: tuple[int, int] | None, at: str
    ) -> None:
        check, other = self._report.representatives, verdict.representative
        check.looked_at += 1
        where = -1 if other is None else self._place(other.page)
        if other is None or where < 0 or verdict.similarity is None:
            check.violate(f"{at}: a duplicate of no page that exists")
            return
        self._table.representatives[place] = where + 1
        if number is None:
            return
        shard, expected = number[0], self._expected[number[0]]
        similarity = round(verdict.similarity * SIMILARITY_ONE)
        if similarity < expected.least[number[1]]:
            check.violate(f"{at}: a similarity of {verdict.similarity}, less than the threshold")
        elif not 0 < self._table.arrivals[shard][where] < expected.limits[number[1]]:
            check.violate(f"{at}: {_name(other.page)} was not indexed before")

    def finish(self) -> None:
        """Report what only all verdicts together tell."""
        self._check_kept()
        numbers = self._report.numbers
        for shard, expected in enumerate(self._expected):
            numbers.looked_at += len(expected)
            for number in np.flatnonzero(expected.owed & ~expected.seen).tolist():
                numbers.violate(f"verdict {shard}:{number} is not published")

    def _check_kept(self) -> None:
        """See that each representative's own verdict says unique, or is still on its way."""
        table = self._table
        pages = np.flatnonzero(table.representatives)
        flags = table.flags[table.representatives[pages] - 1]
        on_its_way = (flags & (VERDICT | JUDGED | OWED)) == JUDGED
        for page in pages[~((flags & UNIQUE > 0) | on_its_way)].tolist():
            names = [page_name(table.ref(i)) for i in (page, int(table.representatives[page]) - 1)]
            self._report.representatives.violate(f"{names[1]}, of {names[0]}, is not kept itself")


def _name(page: Location) -> str:
    return f"{page.topic}, partition {page.partition}, offset {page.offset}"
