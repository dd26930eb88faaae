"""A broker of a test's own, and what is sent to a broker and read from it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from streamer.testing.broker import broker, free_port
from streamer.testing.plugin import need_broker

Sent = tuple[bytes | None, bytes | None]  # a message's key and value


def free_ports(count: int) -> list[int]:
    """Return free ports, as `free_port` does; none of them is another one or the one after it."""
    ports: list[int] = []
    while len(ports) < count:
        port = free_port()
        if all(abs(port - other) > 1 for other in ports):
            ports.append(port)
    return ports


@contextmanager
def running_broker(folder: Path, port: int) -> Iterator[str]:
    """Start a broker with its data in `folder`; stop it at the end."""
    need_broker()
    broker("start", folder, port)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        broker("stop", folder)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def messages_of(brokers: str, topic: str) -> dict[int, list[Any]]:
    """Return all messages of a topic by partition, in order."""

    async def read() -> dict[int, list[Any]]:
        result: dict[int, list[Any]] = {}
        async with open_reader({"bootstrap_servers": brokers}) as reader:
            for partition in await reader.partitions(topic):
                start, end = await reader.bounds(topic, partition)
                result[partition] = []
                async for chunk in reader.read(topic, partition, start, end):
                    result[partition] += chunk.records
        return result

    return asyncio.run(read())


def verdicts_of(brokers: str, names: Names) -> list[bytes]:
    """Return all verdicts of an index."""
    found = messages_of(brokers, names.verdicts)
    return [message.value for held in found.values() for message in held]


def administer(brokers: str, call: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    """Return what an admin client's call returns."""

    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def make_topic(brokers: str, topic: str, partitions: int = 1) -> None:
    """Make a topic of pages, of which some may be dated years ago."""
    configs = {"max.message.bytes": str(4 << 20), "retention.ms": "-1"}
    new = NewTopic(topic, partitions, 1, topic_configs=configs)
    administer(brokers, lambda admin: admin.create_topics([new]))


def delete_topic(brokers: str, topic: str) -> None:
    """Delete a topic, and wait until it has gone."""
    administer(brokers, lambda admin: admin.delete_topics([topic]))
    while topic in administer(brokers, lambda admin: admin.list_topics()):
        pass


def send(brokers: str, topic: str, messages: Iterable[tuple[Any, ...]], **options: Any) -> None:
    """Send messages to partition 0: key and value of each, or others and a time in milliseconds."""

    async def run() -> None:
        async with AIOKafkaProducer(
            **{"bootstrap_servers": brokers, "max_request_size": 128 << 20, **options}
        ) as producer:
            for key, value, *time in messages:
                await producer.send(topic, value, key, 0, *time)

    asyncio.run(run())
