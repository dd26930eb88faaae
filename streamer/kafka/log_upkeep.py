"""What an operator does to the log of an index: forget in it, and trim it.

**Forgetting** is a record of the log, and an answer. The record takes effect at its place in the
log. The owner answers in the gauge's topic once nothing of the pages is on its disk. The command
need not wait for that: what is in the log is done. What it would forget is counted in a fold of the
log, so that a question leaves no record.

**Trimming** deletes what comes before the oldest snapshot that is kept. A log without its beginning
cannot rebuild an index by itself; a snapshot and what comes after it can. So nothing is deleted
before every byte of that snapshot was read, its index opened, and found to be a fold of this log.
The record before the snapshot's position stays, because it identifies the log.
"""

import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, closing
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from streamer.errors import InputError, SettingsError, StoreMismatch, StreamerError
from streamer.index.forgetting import ASK
from streamer.index.messages import Forget, Output, Pages, Record, Term, forget_record
from streamer.kafka import wire
from streamer.kafka.connection import Connection
from streamer.kafka.gauge import Answer, told_in
from streamer.kafka.prepare import log_bounds
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader, fetch, read_from, reader_of
from streamer.kafka.topics import Names, newest_identity, topic_id
from streamer.run.judge import LOG_FLUSHES, Judge, JudgeOptions
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.stored.forget import forget
from streamer.stored.store import Store
from streamer.upkeep.snapshots import SnapshotFolder

TERMS_A_RECORD = 10_000  # page refs are 15 bytes each, and brokers take a record of 1 MB


async def fingerprint_of_log(connection: Connection, names: Names) -> str:
    """Return the fingerprint of the index that is in a log.

    Raises:
        InputError: there is no such index.
        StreamerError: the brokers are away or refuse.
    """
    async with reader_of(connection) as reader:
        return (await _identity(reader, names)).fingerprint


async def forget_in_log(
    connection: Connection, names: Names, terms: Sequence[Term], wait_s: float
) -> int:
    """Put what is to be forgotten into an index's log, and wait until its owner has answered.

    Return how many kept pages were forgotten.

    Raises:
        InputError: there is no such index.
        StreamerError: the brokers are away or refuse, or there is no answer within `wait_s`.
    """
    async with reader_of(connection) as reader:
        identity = await _identity(reader, names)
        shards = await _shards(reader, names)
        _, start = await reader.bounds(names.gauge, 0)
        ask = uuid.uuid4().hex
        all_terms: list[Term] = [*terms, (ASK, ask.encode())]  # the question comes last
        publisher = Publisher(connection.client_options())
        try:
            await publisher.start()
            for first in range(0, len(all_terms), TERMS_A_RECORD):
                record = forget_record(Forget(all_terms[first : first + TERMS_A_RECORD], ask))
                for log in map(names.log, shards):
                    await publisher.publish_one(log, wire.pack_record(record, identity))
        finally:
            await publisher.stop()
        return await _wait_for_answers(reader, names, (ask, start, len(shards)), wait_s)


async def _shards(reader: Reader, names: Names) -> list[int]:
    """Return the shards of an index, by the logs that there are."""
    topics = await reader.admin.list_topics()
    return [*takewhile(lambda shard: names.log(shard) in topics, count())]


class FreshShard(Judge):
    """Folds records into an index in `folder`, which must be empty.

    It needs no key, since signatures come from the log. Flushes keep its memory bounded, and their
    moments show in no output.
    """

    def __init__(self, folder: Path, bands: int, references: ReferenceIndexes | None) -> None:
        options = JudgeOptions(LOG_FLUSHES, references=references)
        super().__init__(Store.open(folder / "store"), {"bands": bands}, options)

    def take(self, record: Record) -> Output | None:
        """Apply a record; return the verdicts that it leads to.

        Raises:
            StoreMismatch: as `Shard.apply`.
            StoreUnavailable: the scratch disk refuses.
        """
        output = self.apply(record)
        if self.flush_is_due:
            self.begin_flush(lambda: b"")
        return output


async def bands_of_log(reader: Reader, log: str, end: int, identity: wire.LogIdentity) -> int:
    """Return the bands of an index's signatures; as long as there is no page, any number does."""
    async for chunk in reader.read(log, 0, 0, end):
        for message in chunk.records:
            record = wire.unpack_record(message.value, identity)
            if isinstance(record.items, Pages) and len(record.items):
                return int(record.items.keys.shape[1]) - 1
    return 1


async def count_in_log(
    connection: Connection, names: Names, terms: Sequence[Term], also: Sequence[str]
) -> int:
    """Return how many kept pages `forget_in_log` would forget; nothing is written to Kafka.

    `also` is that of the workers.

    Raises:
        InputError: there is no such index.
        StoreMismatch: the beginning of a log is gone.
        StreamerError: the brokers are away or refuse.
    """
    pages = 0
    async with reader_of(connection) as reader, AsyncExitStack() as stack:
        identity = await _identity(reader, names)
        references = ReferenceIndexes(tuple(also), identity.fingerprint)
        stack.callback(references.close)
        for log in map(names.log, await _shards(reader, names)):
            start, end = await reader.bounds(log, 0)
            if start:
                raise StoreMismatch(
                    f"The log {log} begins at offset {start}: what was before is gone, so the "
                    "pages cannot be counted here. Count in the worker's folder: `streamer forget "
                    "DIR --dry-run`."
                )
            bands = await bands_of_log(reader, log, end, identity)
            with (
                tempfile.TemporaryDirectory(prefix="streamer-forget-") as folder,
                closing(FreshShard(Path(folder), bands, references)) as fresh,
            ):
                async for chunk in reader.read(log, 0, 0, end):
                    for message in chunk.records:
                        fresh.take(wire.unpack_record(message.value, identity))
                fresh.flush(b"")
                pages += forget(fresh.store, Forget([*terms]), dry_run=True)
    return pages


async def _identity(reader: Reader, names: Names) -> wire.LogIdentity:
    """Return the identity that the newest record of the first log has."""
    if found := await newest_identity(reader, names):
        return found
    raise InputError(f"The log {names.log(0)} has no records: there is nothing to forget.")


async def _wait_for_answers(
    reader: Reader, names: Names, asked: tuple[str, int, int], seconds: float
) -> int:
    """Read answers until each shard has given one; return how many pages these say.

    `asked` is the command, the offset from which on there may be answers, and how many shards.

    Raises:
        StreamerError: one is missing after so many seconds.
    """
    ask, start, shards = asked
    place = TopicPartition(names.gauge, 0)
    read_from(reader.consumer, {place: start})
    deadline = time.monotonic() + seconds
    pages: dict[int, int] = {}
    while time.monotonic() <= deadline:
        found = await fetch(reader.consumer, place, await reader.consumer.position(place))
        for answer in map(told_in, found):
            if isinstance(answer, Answer) and answer.ask == ask:
                pages[answer.shard] = answer.pages
        if len(pages) == shards:
            return sum(pages.values())
    raise StreamerError(
        f"Not yet done after {seconds:g} seconds. It is in the log of {names.index}, and is done "
        "when the owner of the log comes to it: see that it runs. To learn when, give the same "
        "command again, with a longer --wait."
    )


class Trimmed(NamedTuple):
    """A log, its oldest snapshot, and the offsets [start, end) before that."""

    log: str
    snapshot: int
    start: int
    end: int


async def trim(
    connection: Connection, names: Names, snapshots: SnapshotFolder, *, delete: bool
) -> AsyncIterator[Trimmed]:
    """Yield what is before the oldest snapshot of each shard; delete it if that is wanted.

    Raises:
        SettingsError: the snapshots are not those of a worker.
        StoreDamaged: a snapshot is.
        StoreMismatch: it is no snapshot of this log.
        StoreUnavailable: there is none.
        StreamerError: the brokers are away, or refuse.
    """
    async with reader_of(connection) as reader:
        for part in snapshots.parts():
            found = await _find_before_oldest(reader, names, snapshots.below(part))
            if delete and found.end > found.start:
                records = {TopicPartition(found.log, 0): RecordsToDelete(found.end)}
                await reader.admin.delete_records(records)
            yield found


async def _find_before_oldest(reader: Reader, names: Names, folder: SnapshotFolder) -> Trimmed:
    number = folder.read(min(folder.numbers(), default=None)).number
    position = wire.read_position(folder.check(number).owner)
    if position is None:
        raise SettingsError(
            f"The snapshots in {folder.name} are those of a replay, which has no log. Name the "
            "folder that a worker was given as --snapshot-to."
        )
    log = names.log(position.shard)
    await reader.partitions(log)  # reports a missing log as such
    if (found := await topic_id(reader.admin, log)) != position.log_id:
        raise StoreMismatch(
            f"The snapshots in {folder.name} are of another log (topic id {position.log_id}, that "
            f"of {log} is {found}). Check --index-name and --brokers."
        )
    wire.check_bounds(folder.name, position, await log_bounds(reader, log, position.offset))
    start, _ = await reader.bounds(log, 0)
    return Trimmed(log, number, start, max(start, position.offset - 1))
