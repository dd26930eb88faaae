"""Publish without holes: a partition gets one batch at a time, in the order of the calls.

What follows a failed batch would be a hole for a reader. So the next batch of a partition waits
until the one before has arrived. After a failure nothing more is sent: the caller gets the error
and ends the process. Repeats after that are dropped by every reader's interval rule.
"""

import asyncio
from asyncio import Future
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch

from streamer.errors import StreamerError
from streamer.index.messages import Headers
from streamer.kafka.reader import Options
from streamer.kafka.topics import LOG_BYTES_MAX

Message = tuple[bytes | None, bytes | None, Headers, int | None]
"""Key, value, headers, and a timestamp in milliseconds; None: the time of publishing."""

BATCH_BYTES = 768 << 10
TELL_SECONDS_MAX = 10.0


def headers_within(headers: Iterable[tuple[str, bytes | None]], room: int) -> Headers:
    """Return the headers that have a value, in order, as far as `room` in bytes allows."""
    found: Headers = []
    for name, value in headers:
        size = len(name.encode()) + len(value or b"")
        if value is not None and size <= room:
            found.append((name, value))
            room -= size
    return found


class Publisher:
    """Publishes messages to partitions; safe to call from many tasks of one loop."""

    def __init__(self, options: Options) -> None:
        self._producer = AIOKafkaProducer(**options, acks="all", enable_idempotence=True)
        self._teller = AIOKafkaProducer(  # of `notify`
            **options, acks=1, request_timeout_ms=round(1000 * TELL_SECONDS_MAX)
        )
        self._turns: dict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failed = False

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()
        await self._teller.start()

    async def stop(self) -> None:
        """Close the connections; everything published has been awaited by then."""
        await self._teller.stop()
        await self._producer.stop()

    def batches(self, messages: Iterable[Message], bytes_max: int = LOG_BYTES_MAX) -> list[Any]:
        """Return messages packed for `publish`, as `batches_of`; may be called in any thread."""
        return batches_of(messages, bytes_max)

    async def publish_one(self, topic: str, data: bytes) -> None:
        """Send one message without a key to partition 0, as `publish`.

        Raises:
            StreamerError: as `publish`.
        """
        await self.publish(topic, 0, self.batches([(None, data, [], None)]))

    async def publish(self, topic: str, partition: int, batches: Sequence[Any]) -> None:
        """Send batches, and wait until they have arrived.

        Raises:
            StreamerError: the brokers refused, or did not answer in time.
        """
        async with self._turns[topic, partition]:
            try:
                for batch in batches:
                    if self._failed:
                        raise StreamerError("Publishing has stopped after a failure.")
                    sent = await self._producer.send_batch(batch, topic, partition=partition)
                    await sent
            except KafkaError as error:
                self._failed = True
                raise StreamerError(
                    f"Cannot publish to {topic}, partition {partition}: {error!r}. A restart "
                    "repeats what has not arrived, once the brokers can be reached."
                ) from error

    async def notify(self, topic: str, data: bytes, key: bytes) -> bool:
        """Send a message that may be lost to partition 0; return whether it has arrived.

        It goes by a producer of its own, so that nothing else waits for it, or stops with it: a
        worker that has nothing to publish outlives an absence of its brokers.

        Raises:
            StreamerError: the brokers refuse, or there is no such topic.
        """
        try:
            await self._teller.send_and_wait(topic, data, key=key, partition=0)
        except KafkaError as error:
            missing = isinstance(error, UnknownTopicOrPartitionError)
            if missing or not (error.retriable or isinstance(error, KafkaTimeoutError)):
                raise StreamerError(
                    f"Cannot publish to {topic}: {error!r}. A restart makes it again if it is gone."
                ) from error
            return False
        return True


@asynccontextmanager
async def open_producer(options: Options, **sizes: int) -> AsyncIterator[AIOKafkaProducer]:
    """Connect for sending messages once each, compressed; `sizes` are those of aiokafka.

    Raises:
        KafkaError: the brokers refuse.
    """
    own = {"acks": "all", "enable_idempotence": True, "compression_type": "zstd", **sizes}
    producer = AIOKafkaProducer(**options, **own)
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


async def send_batches(
    producer: AIOKafkaProducer,
    topic: str,
    messages: Mapping[int, Iterable[Message]],
    bytes_max: int,
    *,
    transactional: bool = False,
) -> list[Future[object]]:
    """Send messages by partition, compressed as `batches_of`; return futures of their arrival."""
    return [
        await producer.send_batch(batch, topic, partition=partition)
        for partition, held in messages.items()
        for batch in batches_of(held, bytes_max, zstd=True, transactional=transactional)
    ]


def batches_of(
    messages: Iterable[Message], bytes_max: int, *, zstd: bool = False, transactional: bool = False
) -> list[BatchBuilder]:
    """Return messages in batches, in order, which are compressed with `zstd`.

    `bytes_max` is what the topic takes of a batch. A message that is larger is compressed anyhow.
    """
    codec = DefaultRecordBatch.CODEC_ZSTD if zstd else DefaultRecordBatch.CODEC_NONE
    packed: list[BatchBuilder] = []
    for key, value, headers, timestamp in messages:
        message = {"key": key, "value": value, "headers": headers, "timestamp": timestamp}
        if packed and packed[-1].append(**message) is not None:
            continue
        for each in (codec, DefaultRecordBatch.CODEC_ZSTD):
            batch = BatchBuilder(min(BATCH_BYTES, bytes_max), each, is_transactional=transactional)
            # However large, the first message of a batch always goes in.
            added = batch.append(**message)
            assert added is not None, len(value or b"")
            if batch.size() <= bytes_max:
                break
        packed.append(batch)
    return packed
