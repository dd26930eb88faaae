"""A real broker for tests: the one that STREAMER_TEST_BROKER names, else one of our own."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.kafka.reader import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "broker" / "broker"


def free_port() -> int:
    """Return a port that is free, and the one after it too.

    It lies below those that systems give to outgoing connections, or one of these might take it
    before the broker does.
    """
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def broker(command: str, folder: Path, *port: int) -> str:
    """Run the broker's script; return what it prints."""
    environment = {
        **os.environ,
        "BROKER_LIBS": str(ROOT / "build" / "broker" / "libs"),
        "BROKER_HEAP": "384m",
    }
    done = subprocess.run(
        [str(SCRIPT), command, str(folder), *map(str, port)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running_broker(folder: Path, port: int) -> Iterator[str]:
    """Start a broker with its data in `folder`; stop it at the end."""
    broker("start", folder, port)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        broker("stop", folder)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Tell whether something listens on a port of this machine."""
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
