"""What an operator does to the logs of an index: forget in them, trim them, start them again.

**Forgetting** is a record for shard 0, and an answer from each shard. The record takes effect at
its place in the log. Each shard forgets, passes the record on, and answers in the gauge's topic
once nothing of the pages is on its disk. The command need not wait for that: what is in the log is
done.

**Trimming** deletes what comes before the oldest snapshot that is kept. A log without its beginning
cannot rebuild an index by itself; a snapshot and what comes after it can. So nothing is deleted
before every byte of that snapshot was read, its index opened, and found to be a fold of this log.
The record before the snapshot's position stays, because it identifies the log.

**Another number of shards** is a new generation of the topics under a new name. The old logs must
be read to their ends, and the old groups must have no members. The new logs begin with the settings
and lose their first record at once: so an owner without the folder that was written here is
refused, as after trimming. Signers continue where shard 0 stood. The old logs end with a record of
settings for the new number of shards, which their owners refuse. It is written before the new
folder takes its place. If a crash comes between, the old owners do not start any more, and the same
command continues.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import RecordsToDelete

from streamer.errors import InputError, SettingsError, StoreMismatch, StreamerError
from streamer.index.forgetting import ASK
from streamer.index.messages import (
    CONFIG,
    Forget,
    Term,
    config_record,
    forget_record,
    source_name,
)
from streamer.index.settings import IndexSettings
from streamer.kafka.connection import Connection
from streamer.kafka.gauge import POLL_MILLISECONDS, answer_in
from streamer.kafka.prepare import PreparedIndex, log_bounds, prepare
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader, open_reader, reach, stop_consumer
from streamer.kafka.topics import Names, topic_id
from streamer.kafka.wire import (
    LogIdentity,
    LogPosition,
    check_bounds,
    identity_in,
    pack_record,
    record_digest,
    stored_position,
    unpack_record,
)
from streamer.upkeep.reshard import Destination, Old, Progress, write
from streamer.upkeep.snapshots import SnapshotFolder

TERMS_A_RECORD = 10_000  # page refs are 15 bytes each, and brokers take a record of 1 MB


async def fingerprint_of_log(connection: Connection, names: Names) -> str:
    """Return the fingerprint of the index that is in a log.

    Raises:
        InputError: there is no such index.
        StreamerError: the brokers are away or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        await _shards(reader, names)
        return (await _identity(reader, names)).fingerprint


async def forget_in_log(
    connection: Connection, names: Names, terms: Sequence[Term], wait_s: float
) -> int:
    """Put what is to be forgotten into an index's log, and wait until all shards have answered.

    Return how many kept pages were forgotten.

    Raises:
        InputError: there is no such index.
        StreamerError: the brokers are away or refuse, or a shard has not answered within `wait_s`.
    """
    await reach(connection)
    options = connection.client_options()
    async with open_reader(options) as reader:
        shards = await _shards(reader, names)
        identity = await _identity(reader, names)
        _, start = await reader.bounds(names.gauge, 0)
        ask = uuid.uuid4().hex
        all_terms: list[Term] = [*terms, (ASK, ask.encode())]  # the question comes last
        publisher = Publisher(options)
        await publisher.start()
        try:
            for first in range(0, len(all_terms), TERMS_A_RECORD):
                record = forget_record(Forget(all_terms[first : first + TERMS_A_RECORD], ask))
                await publisher.publish_one(names.log(0), pack_record(record, identity))
        finally:
            await publisher.stop()
        return await _wait_for_answers(reader, names, ask, shards, start, wait_s)


async def _shards(reader: Reader, names: Names) -> int:
    """Return how many logs the index has.

    Raises:
        InputError: none.
    """
    there = {*await reader.admin.list_topics()}
    shards = next(shard for shard in itertools.count() if names.log(shard) not in there)
    if not shards:
        raise InputError(
            f"There is no index {names.index}: the topic {names.log(0)} is missing. Name one with "
            "--index-name."
        )
    return shards


async def _identity(reader: Reader, names: Names) -> LogIdentity:
    """Return the identity that the newest record of the first log has."""
    log = names.log(0)
    start, end = await reader.bounds(log, 0)
    if start < end and (newest := await reader.value_at(log, end - 1)):
        return identity_in(newest)
    raise InputError(f"The log {log} has no records: there is nothing to forget.")


async def _wait_for_answers(
    reader: Reader, names: Names, ask: str, shards: int, start: int, seconds: float
) -> int:
    """Read what shards answer to `ask`, from an offset on, until all have; return shard 0's pages.

    Raises:
        StreamerError: one has not after so many seconds.
    """
    place = TopicPartition(names.gauge, 0)
    reader.consumer.assign([place])
    reader.consumer.seek(place, start)
    pages: dict[int, int] = {}
    deadline = time.monotonic() + seconds
    while left := [str(shard) for shard in range(shards) if shard not in pages]:
        if time.monotonic() > deadline:
            raise StreamerError(
                f"Not yet done at shard {', '.join(left)} after {seconds:g} seconds. It stands in "
                f"the log of {names.index} and is done when the owner of the shard comes to it: "
                "see that it runs. To learn when, give the same command again, with a longer "
                "--wait."
            )
        found = await reader.consumer.getmany(place, timeout_ms=POLL_MILLISECONDS)
        answers = filter(None, map(answer_in, found.get(place, ())))
        pages |= {each.shard: each.pages for each in answers if each.ask == ask}
    return pages[0]


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
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        for part in snapshots.parts():
            found = await _before_oldest(reader, names, snapshots.below(part))
            if delete and found.end > found.start:
                records = {TopicPartition(found.log, 0): RecordsToDelete(found.end)}
                await reader.admin.delete_records(records)
            yield found


async def _before_oldest(reader: Reader, names: Names, folder: SnapshotFolder) -> Trimmed:
    number = folder.oldest().number
    position = stored_position(folder.check(number).owner)
    if position is None:
        raise SettingsError(
            f"The snapshots in {folder.name} are those of a replay, which has no log. Name the "
            "folder that a worker was given as --snapshot-to."
        )
    log = names.log(position.shard)
    await _check_log(reader, log, position, folder)
    start, _ = await reader.bounds(log, 0)
    return Trimmed(log, number, start, max(start, position.offset - 1))


async def _check_log(
    reader: Reader, log: str, position: LogPosition, folder: SnapshotFolder
) -> None:
    await reader.partitions(log)  # reports a missing log as such
    if (found := await topic_id(reader.admin, log)) != position.log_id:
        raise StoreMismatch(
            f"The snapshots in {folder.name} are of another log (topic id {position.log_id}, that "
            f"of {log} is {found}). Check --index-name and --brokers."
        )
    check_bounds(folder.name, position, await log_bounds(reader, log, position.offset))


_FIRST = 1  # the offset at which a new log begins


@dataclass(frozen=True, slots=True)
class IndexNames:
    """The names of an index before and after, and its new number of shards."""

    old: Names
    new: Names
    shards: int
    replicas: int


async def reshard_worker(
    connection: Connection, names: IndexNames, old: Old, place: Destination, progress: Progress
) -> None:
    """Rewrite a worker's index, make its topics, and put it in its place.

    Raises:
        SettingsError: the new name is that of an index that is in use.
        StoreMismatch: the index is not at rest, or not of these topics.
        StoreUnavailable: the disk refuses.
        StreamerError: the brokers are away, or refuse.
    """
    await reach(connection)
    options = connection.client_options()
    publisher = Publisher(options)
    async with open_reader(options) as reader:
        try:
            await publisher.start()
            work = _Resharding(reader, publisher, names, old)
            await work.check_drained()
            owners = await work.begin_logs()
            await asyncio.to_thread(write, old, names.shards, place.new, owners, progress)
            await work.commit_pages(connection)
            await work.end_old_logs()
            place.take()
        finally:
            await publisher.stop()


class _Resharding:
    def __init__(self, reader: Reader, publisher: Publisher, names: IndexNames, old: Old) -> None:
        self._reader, self._publisher, self._names, self._old = reader, publisher, names, old
        found = [stored_position(owner) for owner in old.owners]
        self._at = [each for each in found if each is not None]
        fingerprint = str(old.identity["fingerprint"])
        self._identity = LogIdentity(fingerprint, self._at[0].origin)
        settings = {**(old.parts[0].state.settings or {}), "shards": names.shards}
        self._settings = IndexSettings.model_validate(settings)

    async def check_drained(self) -> None:
        """Check that no worker is active, and that all logs are read."""
        names, reader = self._names.old, self._reader
        groups = [names.sign_group, *map(names.shard_group, range(self._old.shards))]
        for group in groups:
            if members := await _members(reader, group):
                raise StoreMismatch(
                    f"The group {group} has {members} members. Stop all workers of the index "
                    f"{names.index}, in order, and wait for ten seconds after a kill."
                )
        for number, at in enumerate(self._at):
            log = names.log(number)
            await reader.partitions(log)  # reports a missing log as such
            if await topic_id(reader.admin, log) != at.log_id:
                raise StoreMismatch(
                    f"The index {self._old.folder} is of another log than {log}. Check "
                    "--index-name and --brokers."
                )
            left = (await reader.bounds(log, 0))[1] - at.offset
            if left and not await self._is_ended(number):
                raise StoreMismatch(
                    f"The log {log} has {left} records that the index {self._old.folder} has not "
                    "read. Start its owners without signers (`streamer worker --role index`) until "
                    "they have, stop them in order, and try again."
                )

    async def _is_ended(self, number: int) -> bool:
        """Return whether a log goes on with what this command has ended it with before."""
        log, offset = self._names.old.log(number), self._at[number].offset
        if (await self._reader.bounds(log, 0))[1] <= offset:
            return False
        data = await self._reader.value_at(log, offset)
        items = unpack_record(data, self._identity).items if data else None
        return isinstance(items, IndexSettings) and items.shards == self._names.shards

    async def begin_logs(self) -> list[bytes]:
        """Make the new topics; return the positions of the new shards in their logs."""
        names, reader = self._names.new, self._reader
        partitions = len(await reader.partitions(self._names.old.verdicts))
        prepared: PreparedIndex = await prepare(
            reader, self._publisher, names, self._settings, self._identity.fingerprint,
            self._names.replicas, partitions,
        )  # fmt: skip
        if prepared.identity != self._identity:
            raise StoreMismatch(
                f"The index {self._old.folder} is of the pages in the topic with the id "
                f"{self._identity.origin}, {names.pages} has the id {prepared.identity.origin}. "
                "Name its topic with --input-topic."
            )
        first = pack_record(config_record(self._settings, 0), self._identity)
        found = []
        for number in range(self._names.shards):
            log = names.log(number)
            end = (await reader.bounds(log, 0))[1]
            if end > _FIRST + 1:
                raise SettingsError(
                    f"The index {names.index} is in use: its log {log} has {end} records. Name "
                    "another one with --new-name."
                )
            if end == _FIRST:
                await self._publisher.publish_one(log, first)
            await reader.admin.delete_records({TopicPartition(log, 0): RecordsToDelete(_FIRST)})
            at = LogPosition(
                self._identity.origin, prepared.log_ids[number], number, _FIRST,
                record_digest(first),
            )  # fmt: skip
            found.append(msgspec.msgpack.encode(at))
        return found

    async def commit_pages(self, connection: Connection) -> None:
        """Let the new signers begin where shard 0 stands in the pages."""
        names, positions = self._names.new, self._old.parts[0].state.positions
        places = {
            TopicPartition(names.pages, partition): positions[source_name(partition)]
            for partition in await self._reader.partitions(names.pages)
            if positions.get(source_name(partition))
        }
        if not places:
            return
        consumer = AIOKafkaConsumer(
            **connection.client_options(), group_id=names.sign_group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([*places])
            await consumer.commit(places)
        finally:
            await stop_consumer(consumer)

    async def end_old_logs(self) -> None:
        """Put what no owner takes behind all that is judged in the old logs."""
        for number, part in enumerate(self._old.parts):
            if not await self._is_ended(number):
                last = config_record(self._settings, part.state.positions.get(CONFIG, 0))
                data = pack_record(last, self._identity)
                await self._publisher.publish_one(self._names.old.log(number), data)


async def _members(reader: Reader, group: str) -> int:
    """Return how many members a group has."""
    (answer,) = await reader.admin.describe_consumer_groups([group])
    ((_, _, _, _, _, members, *_),) = answer.groups
    return len(members)
