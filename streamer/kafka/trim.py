"""Deleting the beginning of logs: what lies before the oldest snapshot that is kept.

A log without its beginning does not make an index from nothing any more; a snapshot and what comes
after it do. So nothing is deleted before every byte of that snapshot has been read, its index
opened, and found to be a fold of this log. The record before its place stays, by which it is known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from streamer.errors import SettingsError, StoreMismatch
from streamer.kafka.connection import Connection
from streamer.kafka.prepare import log_bounds
from streamer.kafka.reader import Reader, open_reader, reach
from streamer.kafka.topics import Names, topic_id
from streamer.kafka.wire import LogPosition, check_bounds, stored_position
from streamer.run.snapshots import SnapshotFolder


class Trimmed(NamedTuple):
    """A log, its oldest snapshot, and the offsets [start, end) that lie before that."""

    log: str
    snapshot: int
    start: int
    end: int


async def trim(
    connection: Connection, names: Names, snapshots: SnapshotFolder, *, delete: bool
) -> AsyncIterator[Trimmed]:
    """Yield what lies before the oldest snapshot of each shard; delete it if that is wanted.

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
    await reader.partitions(log)  # a log that is missing is told as such
    if (found := await topic_id(reader.admin, log)) != position.log_id:
        raise StoreMismatch(
            f"The snapshots in {folder.name} are of another log (topic id {position.log_id}, that "
            f"of {log} is {found}). Check --index-name and --brokers."
        )
    check_bounds(folder.name, position, await log_bounds(reader, log, position.offset))
