"""What must be so before a worker starts: topics, the first record of each log, who the index is.

The first record of every log is a CONFIG record, written by whoever comes first; two of them cover
the same interval, so the second one is passed over. It carries the index's identity: a worker with
another key, other settings or other pages is refused here, before it has written anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from streamer.errors import InputError, StoreMismatch, StreamerError
from streamer.index.types import IndexSettings, config_record
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader
from streamer.kafka.topics import (
    Names,
    dead_letter_bytes_max,
    ensure_topic,
    index_topics,
    topic_config,
    topic_id,
)
from streamer.kafka.wire import LogBounds, LogIdentity, pack_record, unpack_record


@dataclass(frozen=True, slots=True)
class Prepared:
    """The index as it stands in Kafka: its identity, and its topics' partitions."""

    identity: LogIdentity
    log_ids: tuple[str, ...]
    verdict_partitions: int
    dead_letter_partitions: int
    dead_letter_bytes_max: int


async def prepare(
    reader: Reader,
    publisher: Publisher,
    names: Names,
    settings: IndexSettings,
    fingerprint: str,
    replicas: int,
    verdict_partitions: int,
) -> Prepared:
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
    for topic in index_topics(names, settings.shards, pages, verdict_partitions, replicas):
        await ensure_topic(reader.admin, topic)
    identity = LogIdentity(fingerprint, await topic_id(reader.admin, names.pages))
    for shard in range(settings.shards):
        await _ensure_begun(reader, publisher, names.log(shard), settings, identity)
    return Prepared(
        identity,
        tuple([await topic_id(reader.admin, names.log(i)) for i in range(settings.shards)]),
        len(await reader.partitions(names.verdicts)),
        len(await reader.partitions(names.dead_letters)),
        dead_letter_bytes_max(pages[1]),
    )


async def check_groups(reader: Reader, groups: Iterable[str]) -> None:
    """See that this user may join the groups: a consumer that may not waits, and does not tell.

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


async def _ensure_begun(
    reader: Reader,
    publisher: Publisher,
    log: str,
    settings: IndexSettings,
    identity: LogIdentity,
) -> None:
    start, end = await reader.bounds(log, 0)
    if end == 0:
        first = pack_record(config_record(settings, 0), identity)
        await publisher.publish_one(log, first)
        return
    if start == end:
        raise StoreMismatch(
            f"The log {log} is empty, and {end} records of it have expired. "
            "Restore it, or use another --index-name."
        )
    data = await reader.value_at(log, start)
    items = unpack_record(data, identity).items if data else None
    if isinstance(items, IndexSettings) and items.shards != settings.shards:
        raise StoreMismatch(
            f"The index has {items.shards} shards, the settings ask for {settings.shards}. "
            f"Use --shards {items.shards}, or another --index-name."
        )
