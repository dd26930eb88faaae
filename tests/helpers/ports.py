"""Ports of this machine: free ones, and a server that listens on one."""

import os
import random
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.wait import wait_until


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


def free_ports(count: int) -> list[int]:
    """Return free ports, as `free_port` does; none of them is another one or the one after it."""
    ports: list[int] = []
    while len(ports) < count:
        port = free_port()
        if all(abs(port - other) > 1 for other in ports):
            ports.append(port)
    return ports


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


@contextmanager
def listening(
    port: int, command: Sequence[str], log: Path, environment: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Run a server that prints to `log`, from when it listens on its port until the end."""
    with (
        log.open("w") as out,
        subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process,
    ):
        try:
            wait_until(lambda: listens(port))
            yield
        finally:
            process.kill()
