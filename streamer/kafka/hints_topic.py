"""The topic of hints: what a consumer of verdicts has learned, one message per host.

The topic is compacted: the newest message of a host counts, and one without a value takes the
host's hints back. Only what differs from the topic is sent, so publishing again sends nothing, and
a publication that was killed is completed by the next one. Hints are learned from the verdicts up
to the end that their topic had at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import xxhash
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from streamer.errors import StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import Reader, open_reader, reach
from streamer.kafka.topics import MESSAGE_BYTES_MAX, Names, ensure_topic, hints_topic

_WAITING_MAX = 10_000  # messages that are sent before their arrival is waited for

HostValue = tuple[str, bytes]  # a host, and its hints as JSON


class PublishedVerdict(NamedTuple):
    """A message of the topic of verdicts; `place` orders all of them."""

    place: int
    value: bytes
    name: str


@dataclass(slots=True)
class Publication:
    """What a publication sent: hosts that are new or have changed, and those taken back.

    Attributes:
        unchanged: hosts that the topic has with the same hints.
        too_large: hosts whose hints the topic does not take.
    """

    changed: int = 0
    withdrawn: int = 0
    unchanged: int = 0
    too_large: list[str] = field(default_factory=list)


async def published_verdicts(
    connection: Connection, names: Names
) -> AsyncGenerator[PublishedVerdict, None]:
    """Yield the verdicts of an index that are there now, partition by partition.

    Raises:
        InputError: there is no such topic, or a message cannot be decoded.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    async with open_reader(connection.client_options()) as reader:
        partitions = await reader.partitions(names.verdicts)
        for number, partition in enumerate(partitions):
            async with aclosing(_whole(reader, names.verdicts, partition)) as messages:
                async for message in messages:
                    place = message.offset * len(partitions) + number
                    name = f"{names.verdicts}, partition {partition}, offset {message.offset}"
                    yield PublishedVerdict(place, message.value or b"", name)


async def _whole(reader: Reader, topic: str, partition: int) -> AsyncGenerator[Any, None]:
    start, end = await reader.bounds(topic, partition)
    async for chunk in reader.read(topic, partition, start, end):
        for message in chunk.records:
            yield message


async def publish_hints(
    connection: Connection, names: Names, hosts: Iterable[HostValue], replicas: int
) -> Publication:
    """Make the topic hold the hints of `hosts` and of no other ones; make it if there is none.

    Raises:
        SettingsError: the topic exists with other settings.
        StreamerError: the brokers cannot be reached, or refuse.
    """
    await reach(connection)
    done = Publication()
    async with open_reader(connection.client_options()) as reader:
        await ensure_topic(reader.admin, hints_topic(names, replicas))
        before = await _digests(reader, names.hints)
    async with _producing(connection) as producer:
        sending: list[asyncio.Future[Any]] = []
        for key, value in _changes(hosts, before, done):
            try:
                sending.append(await producer.send(names.hints, value, key))
            except MessageSizeTooLargeError:
                done.too_large.append(key.decode())
                done.changed -= 1
            if len(sending) == _WAITING_MAX:
                await asyncio.gather(*sending)
                sending.clear()
        await asyncio.gather(*sending)
    return done


async def _digests(reader: Reader, topic: str) -> dict[bytes, int]:
    """Return the digests of the newest values by key; of keys without a value nothing."""
    found: dict[bytes, int] = {}
    for partition in await reader.partitions(topic):
        async with aclosing(_whole(reader, topic, partition)) as messages:
            async for message in messages:
                if message.value is None:
                    found.pop(message.key, None)
                elif message.key is not None:
                    found[message.key] = xxhash.xxh3_64_intdigest(message.value)
    return found


def _changes(
    hosts: Iterable[HostValue], before: dict[bytes, int], done: Publication
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the messages that make the topic hold `hosts`; count them."""
    for host, value in hosts:
        key = host.encode()
        if before.pop(key, None) == xxhash.xxh3_64_intdigest(value):
            done.unchanged += 1
        else:
            done.changed += 1
            yield key, value
    for key in sorted(before):
        done.withdrawn += 1
        yield key, None


@asynccontextmanager
async def _producing(connection: Connection) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(
        **connection.client_options(),
        acks="all",
        enable_idempotence=True,
        compression_type="zstd",
        max_request_size=MESSAGE_BYTES_MAX,
    )
    try:
        await producer.start()
        yield producer
    except KafkaError as error:
        raise StreamerError(f"The brokers {connection.brokers} refused: {error!r}.") from error
    finally:
        await producer.stop()
