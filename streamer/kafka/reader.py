"""Reads ranges of a topic by position, outside of any group: for replays, checks and tests.

The end of a range is told by the consumer's position, never by the offset of a last message, since
transaction markers and deleted messages leave gaps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    CorruptRecordException,
    KafkaConnectionError,
    KafkaError,
    UnknownTopicOrPartitionError,
    for_code,
)

from streamer.errors import InputError, StreamerError
from streamer.kafka.chunk import Chunk, cut

FETCH_BYTES_MAX = 8 << 20
POLL_MILLISECONDS = 500
SINGLY_MAX = 500  # messages, between two tries to take all that is there
PATIENCE_SECONDS = 60.0
COORDINATOR_SECONDS = 20.0
STOP_AGAIN_SECONDS = 1.0
FETCH_WAIT_MILLISECONDS = 20  # at a topic's end: other requests wait behind such a fetch

Options = Mapping[str, Any]  # what every client of the library takes


class Reader:
    """Reads topics over one connection; made by `open_reader`."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
        self.consumer = consumer
        self.admin = admin

    async def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            InputError: there is no such topic.
        """
        found = (await self.admin.describe_topics([topic]))[0]
        if for_code(found["error_code"]) is UnknownTopicOrPartitionError:
            raise InputError(f"There is no topic {topic}. Name one that exists.")
        return sorted(partition["partition"] for partition in found["partitions"])

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the offset of the first message there is, and the one after the last."""
        place = TopicPartition(topic, partition)
        starts = await self.consumer.beginning_offsets([place])
        ends = await self.consumer.end_offsets([place])
        return starts[place], ends[place]

    async def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return up to where a group has committed, by partition; nothing of those it has not.

        Brokers that have just begun do not know at once: they are asked for some seconds.
        """
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while True:
            try:
                found = await self.admin.list_consumer_group_offsets(group)
                break
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)
        return {
            place.partition: committed.offset
            for place, committed in found.items()
            if place.topic == topic and committed.offset >= 0
        }

    async def read(self, topic: str, partition: int, start: int, end: int) -> AsyncIterator[Chunk]:
        """Yield the messages at [start, end) of a partition, which must lie within its bounds.

        Raises:
            InputError: they are there no longer, or cannot be decoded.
        """
        place = TopicPartition(topic, partition)
        self.consumer.assign([place])
        self.consumer.seek(place, start)
        heard = time.monotonic()
        while start < end:
            fetched = await fetch(self.consumer, place, start)
            records = [record for record in fetched if record.offset < end]
            position = min(await self.consumer.position(place), end)
            if position == start and time.monotonic() - heard > PATIENCE_SECONDS:
                raise StreamerError(
                    f"The brokers have sent nothing of {topic} for {PATIENCE_SECONDS:.0f} seconds. "
                    "See that they are up, and start again."
                )
            if position > start:
                heard = time.monotonic()
                for chunk in cut(topic, partition, start, position, records):
                    yield chunk
                start = position


async def fetch(consumer: AIOKafkaConsumer, place: TopicPartition, start: int) -> list[Any]:
    """Return what comes next of a partition, read up to `start`; it may be nothing.

    Raises:
        InputError: it cannot be decoded. What comes before it is returned first.
    """
    try:
        answer = await consumer.getmany(place, timeout_ms=POLL_MILLISECONDS)
    except Exception as error:  # noqa: BLE001 - what damaged bytes lead to may be anything
        _raise_if_told(error)
        consumer.seek(place, start)
        return await _fetch_singly(consumer, place, start)
    return list(answer.get(place, ()))


async def _fetch_singly(consumer: AIOKafkaConsumer, place: TopicPartition, start: int) -> list[Any]:
    """Return what can be decoded from `start` on, as `fetch`."""
    records: list[Any] = []
    while len(records) < SINGLY_MAX:
        try:
            answer = await consumer.getmany(place, timeout_ms=POLL_MILLISECONDS, max_records=1)
        except Exception as error:
            _raise_if_told(error)
            if records:
                return records
            raise InputError(
                f"Partition {place.partition} of {place.topic} cannot be decoded from offset "
                f"{start} on: {error!r}. Start again, in case it was damaged on its way; else the "
                "brokers' copy is damaged: restore it, or pass over it (replay: --offsets)."
            ) from error
        found = answer.get(place)
        if not found:
            break
        records += found
    return records


def _raise_if_told(error: Exception) -> None:
    """Raise what the brokers themselves told; return where it is what they sent that is damaged."""
    if isinstance(error, KafkaError) and not isinstance(error, CorruptRecordException):
        raise error


@asynccontextmanager
async def open_reader(options: Options) -> AsyncIterator[Reader]:
    """Connect for reading.

    Raises:
        StreamerError: the brokers cannot be reached, or refuse.
    """
    consumer = AIOKafkaConsumer(
        **options,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
        fetch_max_wait_ms=FETCH_WAIT_MILLISECONDS,
    )
    admin = AIOKafkaAdminClient(**options)
    try:
        await admin.start()
        await consumer.start()
        yield Reader(consumer, admin)
    except KafkaConnectionError as error:
        raise StreamerError(
            f"Cannot reach the brokers {options['bootstrap_servers']}: {error}. Check --brokers; "
            "`make broker` starts one."
        ) from error
    except KafkaError as error:
        raise StreamerError(
            f"The brokers {options['bootstrap_servers']} refused: {error!r}."
        ) from error
    finally:
        await stop_consumer(consumer)
        await admin.close()


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer, telling it again each second until it has heard.

    The client takes the cancellation of its fetching for that of a fetch if it comes while an
    assignment changes; then it goes on fetching, and waits for the end of that for ever.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    while not (await asyncio.wait({stopping}, timeout=STOP_AGAIN_SECONDS))[0]:
        if consumer._fetcher:  # noqa: SLF001 - there is no public way
            consumer._fetcher._fetch_task.cancel()  # noqa: SLF001
    await stopping
