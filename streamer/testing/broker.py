"""Apache Kafka for tests, started by the script of the checkout that this module is in."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "broker" / "broker"
LIBRARIES = ROOT / "build" / "broker" / "libs"


def free_port() -> int:
    """Return a port that is free, and the one after it too.

    It is below those that systems give to outgoing connections, or one of these might take it
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


def missing_for_broker() -> tuple[str, str] | None:
    """Return what is missing to start a broker, and the remedy; None where nothing is."""
    if not SCRIPT.exists():
        return "A Kafka broker", "name a running one in STREAMER_TEST_BROKER, as localhost:9092"
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
