"""A broker, of all tests or of one alone, and what is sent to a broker and read from it."""

import asyncio
import fcntl
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from tests.helpers.missing import leave_out
from tests.helpers.ports import free_port

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "broker" / "broker"
LIBRARIES = ROOT / "build" / "broker" / "libs"
Sent = tuple[bytes | None, bytes | None]  # a message's key and value


def need_broker() -> None:
    """Leave a test out where no broker can be started."""
    if missing := _missing_for_broker():
        leave_out(*missing)


def _missing_for_broker() -> tuple[str, str] | None:
    """Return what is missing to start a broker, and the remedy; None where nothing is."""
    installs = os.geteuid() == 0 and shutil.which("apt-get")
    if not installs and not (shutil.which("java") and (_are_fetched() or shutil.which("mvn"))):
        return "Java and Maven, for Apache Kafka", "apt-get install default-jre-headless maven"
    return _missing_libraries()


def _are_fetched() -> bool:
    """Return whether the libraries are there, as the script asks for them."""
    there = LIBRARIES / "pom.xml"
    return there.exists() and there.read_bytes() == SCRIPT.with_name("pom.xml").read_bytes()


@cache
def _missing_libraries() -> tuple[str, str] | None:
    """Fetch the libraries unless they are there; return what is missing if that fails."""
    if not _are_fetched():
        try:
            broker("fetch", LIBRARIES.parent)
        except (RuntimeError, subprocess.TimeoutExpired):
            return "Apache Kafka", "deploy/broker/broker fetch build/broker, to see what fails"
    return None


def broker(command: str, folder: Path, *port: int) -> str:
    """Run the broker's script; return what it prints.

    Raises:
        RuntimeError: it failed; the message is what it printed of that.
    """
    environment = {
        **os.environ,
        "BROKER_LIBS": str(LIBRARIES),
        "BROKER_HEAP": "384m",
        # A start takes half of the time: most brokers of tests end before more compiling pays.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
        + os.environ.get("BROKER_JAVA", ""),
    }
    done = subprocess.run(
        [str(SCRIPT), command, str(folder), *map(str, port)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)  # Maven's errors are on the former
    return done.stdout


@contextmanager
def shared_broker(folder: Path) -> Iterator[str]:
    """Yield the address of a broker that all processes share that name this folder.

    The first of them starts it, the last stops it.
    """
    folder.mkdir(exist_ok=True)

    def count(change: int) -> int:
        with (folder / "users").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            port, users = map(int, (file.read() or f"{free_port()} 0").split())
            if not users:
                broker("start", folder / "broker", port)
            users += change
            if not users:
                broker("stop", folder / "broker")
            file.truncate(0)
            file.write(f"{port} {users}")
            return port

    port = count(1)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        count(-1)


@contextmanager
def running_broker(folder: Path, port: int) -> Iterator[str]:
    """Start a broker with its data in `folder`; stop it at the end."""
    need_broker()
    broker("start", folder, port)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        broker("stop", folder)


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


def fill_topic(
    brokers: str, topic: str, messages: Iterable[tuple[Any, ...]], *, partitions: int = 1
) -> None:
    """Make a topic, and send these messages to its partition 0."""
    make_topic(brokers, topic, partitions)
    send(brokers, topic, messages)
