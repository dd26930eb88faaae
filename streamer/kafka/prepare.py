"""What must hold before a worker starts: its topics, and the first record of each log.

The first record of every log is a CONFIG record, written by whichever worker is first. If two
workers race, the interval rule ignores the second record. It carries the index's identity: a worker
with another key, other settings or other pages is refused here, before it has written anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from streamer.errors import InputError, StoreMismatch, StreamerError
from streamer.index.messages import config_record
from streamer.index.settings import IndexSettings
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader
from streamer.kafka.topics import (
    SHARDS,
    Names,
    dead_letter_bytes_max,
    ensure_topic,
    index_topics,
    topic_config,
    topic_id,
)
from streamer.kafka.wire import LogBounds, LogIdentity, pack_record, unpack_record

SETTINGS_MAX = 64  # records at the beginning of a log, among which those of pages are looked for


@dataclass(frozen=True, slots=True)
class PreparedIndex:
    """The index as it stands in Kafka: its identity, and its topics' partitions."""

    identity: LogIdentity
    log_ids: tuple[str, ...]
    verdict_partitions: int
    dead_letter_partitions: int
    dead_letter_bytes_max: int

    def topic_ids(self, names: Names) -> dict[str, str]:
        """Return the ids of the topics whose offsets the index holds, by name."""
        logs = {names.log(shard): found for shard, found in enumerate(self.log_ids)}
        return {names.pages: self.identity.origin, **logs}


async def prepare(
    reader: Reader,
    publisher: Publisher,
    names: Names,
    settings: IndexSettings,
    fingerprint: str,
    replicas: int,
    verdict_partitions: int,
) -> PreparedIndex:
    """Make or check all topics of an index.

    Raises:
        InputError: there is no topic of pages.
        SettingsError: a topic has other settings than it needs.
        StoreMismatch: the logs are those of another index.
    """
    try:
        partitions = await reader.partitions(names.pages)
    except InputError as error:
        raise InputError(
            f"There is no topic {names.pages} to read pages from. Make it, load one with "
            "`streamer produce`, or name another with --input-topic."
        ) from error
    config = await topic_config(reader.admin, names.pages)
    pages = len(partitions), int(config["max.message.bytes"])
    for topic in index_topics(names, pages, verdict_partitions, replicas):
        await ensure_topic(reader.admin, topic)
    identity = LogIdentity(fingerprint, await topic_id(reader.admin, names.pages))
    first = pack_record(config_record(settings, 0), identity)
    for log in await _logs_to_begin(reader, names, identity):
        await publisher.publish_one(log, first)
    return PreparedIndex(
        identity,
        tuple([await topic_id(reader.admin, names.log(i)) for i in range(SHARDS)]),
        len(await reader.partitions(names.verdicts)),
        len(await reader.partitions(names.dead_letters)),
        dead_letter_bytes_max(pages[1]),
    )


async def check_groups(reader: Reader, groups: Iterable[str]) -> None:
    """Check that this user may join the groups: a consumer that may not waits silently.

    Raises:
        StreamerError: it may not.
    """
    for group in groups:
        try:
            await reader.admin.find_coordinator(group)
        except GroupAuthorizationFailedError as error:
            raise StreamerError(
                f"This user may not join the group {group}. Allow it to read the group."
            ) from error
        except KafkaError:
            continue  # of brokers that begin: who joins asks again


async def log_bounds(reader: Reader, log: str, position: int) -> LogBounds:
    """Return what the log holds, for an index that stands at `position`."""
    start, end = await reader.bounds(log, 0)
    has_before = start < position <= end
    before = await reader.value_at(log, position - 1) if has_before else None
    return LogBounds(start, end, before)


async def _logs_to_begin(reader: Reader, names: Names, identity: LogIdentity) -> list[str]:
    """Return the logs that have no record yet; see that the others are of this index.

    The logs of an index are begun together, before any page is signed. So an empty log next to one
    that is in use has been lost, and a new one would give pages no verdict.

    Raises:
        StoreMismatch: a log is of another index, or has been lost.
    """
    logs = [names.log(shard) for shard in range(SHARDS)]
    bounds = {log: await reader.bounds(log, 0) for log in logs}
    begun = [log for log in logs if bounds[log][1]]
    for log in begun:
        await _check_begun(reader, log, bounds[log], identity)
    empty = [shard for shard, log in enumerate(logs) if not bounds[log][1]]
    for shard in empty:
        await _check_never_read(reader, names, shard)
        for log in begun:
            if await _is_in_use(reader, log, *bounds[log]):
                raise StoreMismatch(
                    f"The log {names.log(shard)} is empty, but {log} has records of pages: the log "
                    "was lost, and without it pages get no verdict. Restore it, or use another "
                    "--index-name and --index to judge all pages again."
                )
    return [names.log(shard) for shard in empty]


async def _check_begun(
    reader: Reader,
    log: str,
    bounds: tuple[int, int],
    identity: LogIdentity,
) -> None:
    """See that a log is of this index."""
    start, end = bounds
    if start == end:
        raise StoreMismatch(
            f"The log {log} is empty, and {end} records of it have expired. "
            "Restore it, or use another --index-name."
        )
    data = await reader.value_at(log, start)
    items = unpack_record(data, identity).items if data else None
    if start == 0 and not isinstance(items, IndexSettings):
        raise StoreMismatch(
            f"The log {log} does not begin with settings: it was made again while workers wrote "
            "to it, and pages are missing from it. Restore it, or use another --index-name and "
            "--index to judge all pages again."
        )


async def _check_never_read(reader: Reader, names: Names, shard: int) -> None:
    """See that an empty log was not read before, as far as this user may ask."""
    group, log = names.shard_group(shard), names.log(shard)
    with suppress(GroupAuthorizationFailedError):
        if offset := (await reader.committed(group, log)).get(0):
            raise StoreMismatch(
                f"The log {log} is empty, but the group {group} has read it up to offset {offset}: "
                "the log was lost. Restore it, or use another --index-name and --index to judge "
                "all pages again."
            )


async def _is_in_use(reader: Reader, log: str, start: int, end: int) -> bool:
    """Return whether a log has more than settings, which racing workers may repeat."""
    if start:
        return True
    async for chunk in reader.read(log, 0, 0, min(end, SETTINGS_MAX)):
        for message in chunk.records:
            if not isinstance(unpack_record(message.value).items, IndexSettings):
                return True
    return end > SETTINGS_MAX
