"""Reads all topics of an index and has them audited: the promises, held against what is there.

Nothing is written to Kafka, no group is joined, and no key is needed. A worker may run meanwhile:
the ends are noted in an order (audit/facts.py) in which what is still on its way is distinguished
from what is lost.

Logs come first, then verdicts, dead letters, records, conclusions, since each is held against the
ones before: a log is folded before the verdicts are read, and a record is looked at when all that
could have become of it is known.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamer.analysis.audit import facts
from streamer.analysis.audit.folded import ExpectedVerdicts, FoldedVerdicts, KeptPages
from streamer.analysis.audit.published import Outcomes, PublishedVerdicts
from streamer.errors import InputError, StoreMismatch
from streamer.index.messages import IndexSettings, Items, Pages, Verdicts
from streamer.kafka.connection import Connection
from streamer.kafka.log_upkeep import FreshShard, bands_of_log
from streamer.kafka.owner import verdict_messages
from streamer.kafka.reader import Reader, reader_of
from streamer.kafka.topics import Names, check_pages, check_there
from streamer.kafka.wire import LogIdentity, identity_in, unpack_record
from streamer.pages.parse import PageParser
from streamer.run.reference_indexes import ReferenceIndexes


@dataclass
class LogAudit:
    """Audits the log of a shard, by its number, with its scratch index in a folder.

    It is read by the rule, and folded again, which shows which verdict has which number.
    """

    _target: facts.AuditTarget
    _number: int
    _folder: Path
    _table: facts.PageTable

    def __post_init__(self) -> None:
        target = self._target
        self._kept = KeptPages(self._folder, target.bands)
        self.reading = facts.LogReading()
        self._fresh = FreshShard(self._folder, target.bands, target.references)
        self._folded = FoldedVerdicts(self._table, self._kept)

    def take(self, message: facts.Incoming) -> None:
        """Take the next record of the log.

        Raises:
            StoreMismatch: it is not a record of this index, or the log has no beginning.
        """
        record = unpack_record(message.value or b"", self._target.identity)
        first = self.reading.accept(record)
        if first is not None:
            self._note_taken(record.items, first)
        output = self._fresh.take(record)
        if output is not None:
            owed = message.offset < self._target.applied[self._number]
            self._note_verdicts(output.verdicts, output.start, owed=owed)

    def _note_taken(self, items: Items, first: int) -> None:
        if isinstance(items, IndexSettings):
            self._folded.note_settings(items)
            return
        if self._fresh.shard.settings is None:
            raise StoreMismatch(
                f"The log of shard {self._number} does not begin with settings: its beginning is "
                "lost. Restore it, or use another --index-name."
            )
        if isinstance(items, Pages):
            self._table.mark(self._folded.note_arrived(items.refs[first:]), facts.ARRIVED)
        else:
            self._kept.forget(items.terms[first:])

    def _note_verdicts(self, block: Verdicts, start: int, *, owed: bool) -> None:
        """Note verdicts, numbered from `start` on."""
        target = self._target
        by_partition = verdict_messages(
            block, self._number, start, target.names.pages, target.identity.fingerprint,
            target.verdict_partitions,
        )  # fmt: skip
        digests = np.zeros(len(block), np.uint64)
        for messages in by_partition.values():
            for key, value, headers, _ in messages:
                number = int(headers[0][1].partition(b":")[2])
                digests[number - start] = facts.message_digest(key, value, headers)
        self._folded.note_verdicts(block, digests, owed=owed)

    def close(self) -> None:
        """Release the scratch index."""
        self._fresh.close()

    def finish(self, report: facts.AuditReport) -> ExpectedVerdicts:
        """Report on the log and its kept pages; return the verdicts that must be out."""
        reading = self.reading
        report.holes.looked_at += reading.sources
        for source, mark, end in reading.unfilled():
            report.holes.violate(
                f"the log of shard {self._number} lacks {source} from {mark} on; there is more up "
                f"to {end}"
            )
        report.counts["log records"] += reading.records
        report.counts["log records skipped, seen before"] += reading.repeats
        report.counts["log records skipped, after a hole"] += reading.ahead
        self._kept.note_refused(self._fresh.shard.refused)
        self._kept.compare(report)
        return self._folded.finish()


POLL_SECONDS = 0.3
QUIET_ROUNDS = 2


async def left(reader: Reader, names: Names) -> int:
    """Return how many messages are still to be taken and committed, of pages and of all logs."""
    behind = await _find_behind(reader, names.sign_group, names.pages)
    for shard in names.shards(len(await reader.partitions(names.pages))):
        behind += await _find_behind(reader, names.shard_group(shard), names.log(shard))
    return behind


async def wait_until_settled(reader: Reader, names: Names, seconds: float) -> None:
    """Wait until nothing is left, twice in a row, but no longer than so many seconds."""
    deadline = time.monotonic() + seconds
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < deadline:
        quiet = 0 if await left(reader, names) else quiet + 1
        await asyncio.sleep(POLL_SECONDS)


async def _find_behind(reader: Reader, group: str, topic: str) -> int:
    committed, bounds = await reader.committed(group, topic), await reader.all_bounds(topic)
    return sum(end - committed.get(at, start) for at, (start, end) in bounds.items())


Bounds = dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What an audit needs to know.

    Attributes:
        settled: whether open pages are violations.
        wait_s: how long to wait for workers to make the topics that are not there yet, and to
            judge what there is, in seconds.
        also: the other indexes that pages were compared with, as the worker's setting has them.
    """

    connection: Connection
    names: Names
    parser: PageParser
    settled: bool = False
    wait_s: float = 0.0
    also: tuple[str, ...] = ()


class Ends(NamedTuple):
    """Up to where each topic is read, besides what is in the audit's target."""

    verdicts: Bounds
    dead_letters: Bounds
    logs: list[int]


async def verify(options: VerifyOptions, progress: facts.Progress) -> facts.AuditReport:
    """Audit an index.

    Raises:
        InputError: there is no such index, or not all of its topics.
        StoreMismatch: its logs are not of one index, or not of these pages, or not complete.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    async with reader_of(options.connection) as reader:
        target, ends = await _target(reader, options)
        with closing(ReferenceIndexes(options.also, target.identity.fingerprint)) as references:
            target = replace(target, references=references)
            return await audit_all(target, ends, partial(_read, reader, progress))


# ---- what there is -------------------------------------------------------------------------------


async def _target(reader: Reader, options: VerifyOptions) -> tuple[facts.AuditTarget, Ends]:
    """Note who the index is and all ends, in the order of audit/facts.py."""
    names = options.names
    deadline = time.monotonic() + options.wait_s
    await _wait_until_begun(reader, names, deadline)
    identity = await _identity(reader, names)
    names = replace(names, per_partition=identity.per_partition)
    await wait_until_settled(reader, names, deadline - time.monotonic())
    logs = [names.log(shard) for shard in names.shards(len(await reader.partitions(names.pages)))]
    signed = await reader.committed(names.sign_group, names.pages)
    applied = [
        (await reader.committed(names.shard_group(shard), log)).get(0, 0)
        for shard, log in enumerate(logs)
    ]
    verdicts = await reader.all_bounds(names.verdicts)
    ends = []
    for log in logs:
        start, end = await reader.bounds(log, 0)
        if start:
            raise StoreMismatch(_begins_late(log, start))
        ends.append(end)
    dead_letters = await reader.all_bounds(names.dead_letters)
    target = facts.AuditTarget(
        names, identity, await bands_of_log(reader, logs[0], ends[0], identity),
        await reader.all_bounds(names.pages), len(verdicts), signed, applied,
        options.parser, options.settled,
    )  # fmt: skip
    return target, Ends(verdicts, dead_letters, ends)


async def _wait_until_begun(reader: Reader, names: Names, deadline: float) -> None:
    """Wait until the first log has a record: then all topics of the index are there."""
    while time.monotonic() < deadline:
        with suppress(InputError):
            await reader.partitions(names.log(0))
            if (await reader.bounds(names.log(0), 0))[1] > 0:
                return
        await asyncio.sleep(POLL_SECONDS)


async def _identity(reader: Reader, names: Names) -> LogIdentity:
    """Return the identity that the index began with."""
    await check_there(reader, names)
    log = names.log(0)
    start, end = await reader.bounds(log, 0)
    if start or not end:
        raise StoreMismatch(_begins_late(log, start))
    data = await reader.value_at(log, 0)
    if data is None:
        raise StoreMismatch(_begins_late(log, 1))
    identity, record = identity_in(data), unpack_record(data)
    if not isinstance(record.items, IndexSettings):
        raise StoreMismatch(_begins_late(log, start))
    await check_pages(reader, names, identity.origin)
    return identity


def _begins_late(log: str, start: int) -> str:
    return (
        f"The log {log} does not begin with the index's settings, its first offset is {start}: "
        "its beginning is lost, so that no fold of it can be made."
    )


# ---- reading it ----------------------------------------------------------------------------------


async def audit_all(
    target: facts.AuditTarget, ends: Ends, read: Callable[..., Awaitable[None]]
) -> facts.AuditReport:
    """Audit the index in `target`; `read` has a topic's messages taken."""
    names, report = target.names, facts.AuditReport(settled=target.settled)
    table = facts.PageTable({at: end for at, (_, end) in target.page_bounds.items()})
    readings, expected = list[facts.LogReading](), list[ExpectedVerdicts]()
    for shard, end in enumerate(ends.logs):
        with (
            tempfile.TemporaryDirectory(prefix="streamer-verify-") as folder,
            closing(LogAudit(target, shard, Path(folder), table)) as log,
        ):
            await read(names.log(shard), {0: (0, end)}, log.take)
            expected.append(log.finish(report))
            readings.append(log.reading)
    verdicts = PublishedVerdicts(table, expected, report, target)
    await read(names.verdicts, ends.verdicts, verdicts.take)
    verdicts.finish()
    outcomes = Outcomes(target, table, readings, report)
    await read(names.dead_letters, ends.dead_letters, outcomes.take_dead_letter)
    await read(names.pages, target.page_bounds, outcomes.take_record)
    outcomes.finish()
    return report


async def _read(
    reader: Reader,
    progress: facts.Progress,
    topic: str,
    bounds: Mapping[int, tuple[int, int]],
    take: Callable[[Any], None],
) -> None:
    total = sum(end - start for start, end in bounds.values())
    done = 0
    for partition, (start, end) in bounds.items():
        async for chunk in reader.read(topic, partition, start, end):
            for message in chunk.records:
                take(message)
            done += chunk.end - chunk.start
            progress(topic, done, total)
