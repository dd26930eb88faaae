"""What must hold before a worker starts: its topics, and the first record of each log.

The first record of every log is a CONFIG record, written by whichever worker is first. If two
workers race, the interval rule ignores the second record. It carries the index's identity: a worker
with another key, other settings or other pages is refused here, before it has written anything. All
logs are created together, before a page is signed, so one that is missing later was lost.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from streamer.config import Settings
from streamer.errors import InputError, StoreMismatch, StreamerError
from streamer.index.messages import IndexSettings, config_record
from streamer.kafka import topics
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader
from streamer.kafka.wire import LogBounds, LogIdentity, pack_record, unpack_record


@dataclass(frozen=True, slots=True)
class PreparedIndex:
    """The index as it is in Kafka: its identity, and its topics' partitions."""

    identity: LogIdentity
    log_ids: tuple[str, ...]
    verdict_partitions: int
    dead_letter_partitions: int
    dead_letter_bytes_max: int


async def prepare(
    reader: Reader, publisher: Publisher, names: topics.Names, index: IndexSettings,
    fingerprint: str, settings: Settings,
) -> PreparedIndex:  # fmt: skip
    """Make or check all topics of an index, with the settings of its verdicts and of this worker.

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
    config = await topics.topic_config(reader.admin, names.pages)
    pages = len(partitions), int(config["max.message.bytes"])
    for topic in topics.index_topics(names, pages, settings.verdict_partitions, settings.replicas):
        await topics.ensure_topic(reader.admin, topic)
    origin, shards = await topics.topic_id(reader.admin, names.pages), names.shards(len(partitions))
    identity = LogIdentity(fingerprint, origin, names.per_partition)
    first = pack_record(config_record(index, 0), identity)
    for log in await _logs_to_begin(reader, names, identity, shards):
        await publisher.publish_one(log, first)
    return PreparedIndex(
        identity,
        tuple([await topics.topic_id(reader.admin, names.log(i)) for i in shards]),
        len(await reader.partitions(names.verdicts)),
        len(await reader.partitions(names.dead_letters)),
        topics.dead_letter_bytes_max(pages[1]),
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
    """Return what the log holds, for an index that is at `position`."""
    start, end = await reader.bounds(log, 0)
    before = await reader.value_at(log, position - 1) if start < position <= end else None
    return LogBounds(start, end, before)


async def _logs_to_begin(
    reader: Reader, names: topics.Names, identity: LogIdentity, shards: Iterable[int]
) -> list[str]:
    """Return the logs that have no record yet; see that the others are of this index.

    A log is begun before any page of it is signed: that of a partition that was added, too. So an
    empty one that was read has been lost, and a new one would give pages no verdict; and so has one
    whose pages were signed.

    Raises:
        StoreMismatch: a log is of another index, or has been lost.
    """
    empty: list[str] = []
    for shard in shards:
        log = names.log(shard)
        bounds = await reader.bounds(log, 0)
        if bounds[1]:
            await _check_begun(reader, log, *bounds, identity)
            continue
        await _check_never_read(reader, names.shard_group(shard), log, 0, log)
        if names.per_partition:
            await _check_never_read(reader, names.sign_group, names.pages, shard, log)
        empty.append(log)
    return empty


async def _check_begun(
    reader: Reader, log: str, start: int, end: int, identity: LogIdentity
) -> None:
    """See that a log is of this index."""
    if start == end:
        raise StoreMismatch(
            f"The log {log} is empty, and {end} records of it have expired. Restore it, or use "
            "another --index-name."
        )
    data = await reader.value_at(log, start)
    items = unpack_record(data, identity).items if data else None
    if start == 0 and not isinstance(items, IndexSettings):
        raise StoreMismatch(
            f"The log {log} does not begin with settings: it was made again while workers wrote to "
            "it. Restore it, or use another --index-name and --index to judge all pages again."
        )


async def _check_never_read(
    reader: Reader, group: str, topic: str, partition: int, log: str
) -> None:
    """See that a group has not read what an empty log is of, as far as this user may ask."""
    with suppress(GroupAuthorizationFailedError):
        if offset := (await reader.committed(group, topic)).get(partition):
            raise StoreMismatch(
                f"The log {log} is empty, but the group {group} has read partition {partition} of "
                f"{topic} up to offset {offset}: the log was lost. Restore it, or use another "
                "--index-name and --index to judge all pages again."
            )
