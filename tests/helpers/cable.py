"""A line between a worker and its broker that can be cut, in one direction or in both.

A namespace of the network with a pair of virtual devices, where this process may make one: a false
entry among the neighbours lets every packet of one side get lost without a word. Else a proxy on
loopback that accepts and forwards nothing. Nothing but addresses that are made here is touched.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from tests.helpers.broker import free_port

DIRECTIONS = ("to the broker", "from the broker", "both ways", "the link itself")
_NOBODY = "02:00:00:00:00:99"
_NETWORK = "10.213"  # of 10.0.0.0/8, private; the rest is drawn from the process' number


class Cable(Protocol):
    """A line: `kind` says what it is made of.

    Attributes:
        address: where the worker finds the broker, HOST:PORT.
        listener: where the broker listens for it, HOST:PORT.
        prefix: what to put before the worker's command.
    """

    kind: str
    address: str
    listener: str
    prefix: tuple[str, ...]

    def cut(self, direction: str) -> None:
        """Let nothing pass from now on, in one of DIRECTIONS."""

    def mend(self) -> None:
        """Let all pass again."""


@contextmanager
def cable() -> Iterator[Cable]:
    """Provide a line of the best kind that can be made here; nothing of it is left at the end."""
    namespace = NamespaceCable()
    try:
        namespace.lay()
    except (OSError, subprocess.CalledProcessError):  # there are none here, or no right to them
        namespace.remove()
    else:
        try:
            yield namespace
        finally:
            namespace.remove()
        return
    proxy = ProxyCable()
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class NamespaceCable:
    """Two virtual devices, one of them in a namespace of its own."""

    kind = "network namespace"

    def __init__(self) -> None:
        number = os.getpid()
        self._space = f"streamer-{number}"
        self._here, self._there = f"sh{number}", f"st{number}"
        subnet = f"{_NETWORK}.{number % 256}"
        block = number // 256 % 64 * 4
        self._host, self._worker = f"{subnet}.{block + 1}", f"{subnet}.{block + 2}"
        self.address = self.listener = f"{self._host}:{free_port()}"
        self.prefix: tuple[str, ...] = ("ip", "netns", "exec", self._space)

    def lay(self) -> None:
        """Make it.

        Raises:
            OSError, CalledProcessError: it cannot be made here.
        """
        if self._host in _ip("-o", "address"):
            raise OSError(f"{self._host} is in use")
        _ip("netns", "add", self._space)
        _ip("link", "add", self._here, "type", "veth", "peer", "name", self._there)
        _ip("link", "set", self._there, "netns", self._space)
        _ip("address", "add", f"{self._host}/30", "dev", self._here)
        _ip("link", "set", self._here, "up")
        self._inside("address", "add", f"{self._worker}/30", "dev", self._there)
        self._inside("link", "set", self._there, "up")
        self._inside("link", "set", "lo", "up")

    def remove(self) -> None:
        """Remove what there is of it."""
        for arguments in (("link", "del", self._here), ("netns", "del", self._space)):
            with suppress(OSError, subprocess.CalledProcessError):
                _ip(*arguments)

    def cut(self, direction: str) -> None:
        """Let packets get lost."""
        if direction == "the link itself":
            _ip("link", "set", self._here, "down")
        nobody = ("lladdr", _NOBODY, "nud", "permanent")
        if direction in {"to the broker", "both ways"}:
            self._inside("neighbour", "replace", self._host, *nobody, "dev", self._there)
        if direction in {"from the broker", "both ways"}:
            _ip("neighbour", "replace", self._worker, *nobody, "dev", self._here)

    def mend(self) -> None:
        """Let all pass again."""
        _ip("link", "set", self._here, "up")
        with suppress(subprocess.CalledProcessError):
            self._inside("neighbour", "del", self._host, "dev", self._there)
        with suppress(subprocess.CalledProcessError):
            _ip("neighbour", "del", self._worker, "dev", self._here)

    def _inside(self, *arguments: str) -> None:
        _ip("-n", self._space, *arguments)


@dataclass
class ProxyCable:
    """A proxy on loopback, in a thread of its own; what is held passes when it is mended.

    Attributes:
        opened: by direction, set while bytes pass.
    """

    kind: str = "proxy on loopback"
    address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    listener: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    prefix: tuple[str, ...] = ()
    opened: dict[str, asyncio.Event] = field(default_factory=dict)

    def start(self) -> None:
        """Listen."""
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._turn, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """End the thread, and all connections with it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self, direction: str) -> None:
        """Hold all bytes of a direction."""
        for each in ("to the broker", "from the broker"):
            if direction not in {"to the broker", "from the broker"} or each == direction:
                self._loop.call_soon_threadsafe(self.opened[each].clear)

    def mend(self) -> None:
        """Let all pass again."""
        for event in self.opened.values():
            self._loop.call_soon_threadsafe(event.set)

    def _turn(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        for direction in ("to the broker", "from the broker"):
            self.opened[direction] = asyncio.Event()
            self.opened[direction].set()
        host, _, port = self.address.rpartition(":")
        self._loop.run_until_complete(asyncio.start_server(self._accept, host, int(port)))
        ready.set()
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.listener.rpartition(":")
        try:
            onwards, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._pass(reader, back, self.opened["to the broker"]),
            self._pass(onwards, writer, self.opened["from the broker"]),
        )

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, opened: asyncio.Event
    ) -> None:
        try:
            while data := await source.read(65_536):
                await opened.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # one of both has ended the connection
        await opened.wait()
        sink.close()
