"""The published verdicts, held against the fold, their pages and each other; and the records.

A page's effective verdict is its first one: a reader that takes the last one of each page sees the
same, as repeats are byte-identical. Whether a representative was itself kept is
checked once all verdicts are read.

A record is on its way if its signers have not committed past it, or if it is in the index and the
verdict was not emitted at a committed record. A record with nothing at all that was committed is
lost. A verdict beats a dead letter, which a worker with older rules may have left.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from streamer import model
from streamer.analysis.audit import facts
from streamer.analysis.audit.folded import ExpectedVerdicts
from streamer.index.messages import source_name
from streamer.kafka.dead_letters import INDEX
from streamer.kafka.owner import SEQUENCE
from streamer.model import Location, NearestKept, Representative
from streamer.pages.chunk import Chunk
from streamer.pages.schema_registry import add_frame

_SEQUENCE = re.compile(rb"(\d{1,9}):(\d{1,18})")
_decode = msgspec.json.Decoder(model.Verdict).decode
Number = tuple[int, int]  # a shard, and the number of a verdict of its fold


@dataclass(slots=True)
class VerdictAudit:
    """Takes the first verdict on each page; `expected` is by shard."""

    table: facts.PageTable
    expected: Sequence[ExpectedVerdicts]
    report: facts.AuditReport

    def place_of(self, page: Location) -> int:
        """Return the place of a record in the table, -1 if there cannot be one."""
        raise NotImplementedError

    def _decoded(self, data: bytes, at: str) -> model.Verdict | None:
        try:
            return _decode(data)
        except msgspec.MsgspecError:
            check = self.report.verdict_bytes
            check.looked_at += 1
            check.violate(f"{at}: no verdict of this schema")
            return None

    def _place_or_violation(self, page: Location, at: str) -> int:
        """Return the place of a page; where there is none, -1, which is a violation."""
        place = self.place_of(page)
        if place < 0:
            self.report.existing.looked_at += 1
            self.report.existing.violate(f"{at}: there is no record {_name(page)}")
        return place

    def _check_bytes(self, number: Number, found: int, at: str) -> None:
        """Hold the digest of a verdict against that of the fold's verdict of its number."""
        expected = self.expected[number[0]]
        expected.seen[number[1]] = True
        if expected.digests[number[1]] != found:
            which = "{}:{}".format(*number)
            self.report.verdict_bytes.violate(f"{at}: not the verdict {which} of the fold")

    def _take_first(
        self, place: int, found: int, verdict: model.Verdict, number: Number | None, at: str
    ) -> None:
        """Note a page's effective verdict."""
        table, unique = self.table, verdict.verdict is model.Decision.UNIQUE
        table.digests[place] = found
        table.flags[place] |= np.uint8(facts.VERDICT | facts.UNIQUE if unique else facts.VERDICT)
        self.report.counts[f"pages {verdict.verdict.value}"] += 1
        if not unique:
            self._check_representative(place, verdict, number, at)
        elif verdict.nearest:
            self._check_named(place, verdict.nearest, number, at)

    def _check_representative(
        self, place: int, verdict: model.Verdict, number: Number | None, at: str
    ) -> None:
        if verdict.similarity is None:
            self.report.representatives.violate(f"{at}: a duplicate without a similarity")
            return
        self._check_named(place, verdict.representative, number, at)
        similarity = round(verdict.similarity * model.SIMILARITY_ONE)
        if number and similarity < self.expected[number[0]].least[number[1]]:
            self.report.representatives.violate(
                f"{at}: a similarity of {verdict.similarity}, less than the threshold"
            )

    def _check_named(
        self, place: int, other: Representative | NearestKept | None, number: Number | None, at: str
    ) -> None:
        """See that the page that a verdict names was indexed before, and note it."""
        check = self.report.representatives
        check.looked_at += 1
        elsewhere = other is not None and bool(other.index)
        where = -1 if other is None else self.place_of(other.page)
        if elsewhere:
            return
        if other is None or where < 0:
            check.violate(f"{at}: it names no page that exists")
            return
        self.table.representatives[place] = where + 1
        arrival = self.table.arrivals[where]
        if number and not 0 < arrival < self.expected[number[0]].limits[number[1]]:
            check.violate(f"{at}: {_name(other.page)} was not indexed before")

    def finish(self) -> None:
        """Report what only all verdicts together show."""
        self._check_kept()
        numbers = self.report.numbers
        for shard, expected in enumerate(self.expected):
            numbers.looked_at += len(expected)
            for number in np.flatnonzero(expected.owed & ~expected.seen).tolist():
                numbers.violate(f"verdict {shard}:{number} is missing")

    def _check_kept(self) -> None:
        """See that the verdict on each page that is named says unique, or is still on its way."""
        table = self.table
        pages = np.flatnonzero(table.representatives)
        flags = table.flags[table.representatives[pages] - 1]
        on_its_way = (flags & (facts.VERDICT | facts.JUDGED | facts.OWED)) == facts.JUDGED
        for page in pages[~((flags & facts.UNIQUE > 0) | on_its_way)].tolist():
            names = [table.name(i) for i in (page, int(table.representatives[page]) - 1)]
            self.report.representatives.violate(f"{names[1]}, of {names[0]}, is not kept itself")


@dataclass(slots=True)
class PublishedVerdicts(VerdictAudit):
    """Takes the messages of the topic of verdicts."""

    target: facts.AuditTarget

    def place_of(self, page: Location) -> int:
        """Return the place of a record in the topic of pages."""
        known = page.topic == self.target.names.pages
        return self.table.place(page.partition, page.offset) if known else -1

    def take(self, message: facts.Incoming) -> None:
        """Take one message."""
        report = self.report
        report.counts["verdict messages"] += 1
        at = f"verdict at {facts.place_name(message)}"
        verdict = self._decoded(message.value or b"", at)
        if verdict is None:
            return
        found = facts.message_digest(message.key, message.value, message.headers)
        number = self._check_number(message, found, at)
        self._check_partition(message, verdict.page, at)
        place = self._place_or_violation(verdict.page, at)
        if place < 0:
            return
        if self.table.flags[place] & facts.VERDICT:
            report.repeats.looked_at += 1
            if self.table.digests[place] != found:
                report.repeats.violate(f"{at}: another one than before, of {_name(verdict.page)}")
        else:
            self._take_first(place, found, verdict, number, at)

    def _check_number(self, message: facts.Incoming, found: int, at: str) -> Number | None:
        """Hold a message against the fold's verdict of its number; return shard and number."""
        report = self.report
        header = dict(message.headers).get(SEQUENCE, b"")
        match = _SEQUENCE.fullmatch(header)
        report.verdict_bytes.looked_at += 1
        if match is None:
            report.verdict_bytes.violate(f"{at}: no number, but {header[:40]!r}")
            return None
        shard, number = int(match[1]), int(match[2])
        if shard >= len(self.expected) or number >= len(self.expected[shard]):
            report.numbers.violate(f"{at}: the fold gives no verdict {shard}:{number}")
            return None
        self._check_bytes((shard, number), found, at)
        return shard, number

    def _check_partition(self, message: facts.Incoming, page: Location, at: str) -> None:
        check, partitions = self.report.places, self.target.verdict_partitions
        check.looked_at += 1
        if message.partition != page.partition % partitions:
            check.violate(f"{at}: of {_name(page)}, whose place is {page.partition % partitions}")


def _name(page: Location) -> str:
    return f"{page.topic}, {facts.place_name(page)}"


_CONNECT = "__connect.errors."
_IN_INDEX, _NOT_READ = "open: in the index", "open: not read"


@dataclass(slots=True)
class Outcomes:
    """Takes dead letters, then records; `covered` is how the logs cover the pages."""

    target: facts.AuditTarget
    table: facts.PageTable
    covered: Sequence[facts.LogReading]
    report: facts.AuditReport

    def take_dead_letter(self, message: facts.Incoming) -> None:
        """Take a message of the topic of dead letters; those of other indexes are skipped."""
        headers, report = dict(message.headers), self.report
        if headers.get(INDEX) != self.target.names.index.encode():
            report.counts["dead letters of others"] += 1
            return
        report.counts["dead letters"] += 1
        try:
            numbers = [int(headers[_CONNECT + name]) for name in ("partition", "offset")]
            place = self.table.place(numbers[0], numbers[1])
        except (KeyError, ValueError):
            place = -1
        if place < 0:
            at = f"dead letter at {facts.place_name(message)}"
            report.existing.looked_at += 1
            report.existing.violate(f"{at}: there is no such record")
        else:
            self.table.flags[place] |= np.uint8(facts.DEAD)

    def take_record(self, message: facts.Incoming) -> None:
        """Take a record of the pages' topic."""
        report, place = self.report, self.table.place(message.partition, message.offset)
        flags = int(self.table.flags[place])
        self.table.flags[place] = flags | facts.RECORD
        report.outcomes.looked_at += 1
        if flags & facts.VERDICT:
            if flags & facts.DEAD:
                report.counts["dead letters that a verdict beats"] += 1
        elif flags & facts.DEAD:
            report.counts["pages dead-lettered"] += 1
        elif flags & facts.ARRIVED:
            if flags & facts.OWED:
                report.outcomes.violate(
                    f"{facts.place_name(message)}: judged, but the verdict is not there"
                )
            else:
                report.counts[_IN_INDEX] += 1
        else:
            self._take_without_trace(message)

    def _take_without_trace(self, message: facts.Incoming) -> None:
        """Take a record that is neither in a log nor in any output."""
        report, partition, offset = self.report, message.partition, message.offset
        one = (offset, message.key, add_frame(message.value, message.headers))
        chunk = Chunk(offset, offset + 1, messages=[one], headers=[message.headers])
        skipped = self.target.parser.parse(chunk).skipped
        if skipped:
            for code in skipped:
                report.counts[f"skipped: {code}"] += 1
        elif offset < max(each.mark(source_name(partition)) for each in self.covered):
            report.outcomes.violate(f"{facts.place_name(message)}: read, and nothing became of it")
        elif offset < self.target.signed.get(partition, 0):
            report.outcomes.violate(f"{facts.place_name(message)}: committed, but not in the log")
        else:
            report.counts[_NOT_READ] += 1

    def finish(self) -> None:
        """Report what only all records together show."""
        report, table = self.report, self.table
        said = np.flatnonzero(table.flags & (facts.VERDICT | facts.DEAD))
        report.existing.looked_at += len(said)
        for place in said[table.flags[said] & facts.RECORD == 0].tolist():
            partition, offset = model.split_ref(table.ref(place))
            if offset < self.target.page_bounds[partition][0]:
                report.counts["outcomes of records that have expired"] += 1
            else:
                report.existing.violate(f"{table.name(place)}: there is no such record")
        if report.settled is not None:
            report.settled.looked_at = report.outcomes.looked_at
            for kind in (_IN_INDEX, _NOT_READ):
                if found := report.counts[kind]:
                    report.settled.violate(f"{kind}: {found:,}", found)
