"""A line between a worker and its broker that can be cut, in one direction or in both.

It is a proxy on loopback that accepts connections and, while the line is cut, forwards nothing;
what it holds passes when the line is repaired.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.helpers.ports import free_port

DIRECTIONS = ("to the broker", "from the broker", "both ways")


@contextmanager
def cable() -> Iterator[Cable]:
    """Provide a line; nothing of it is left at the end."""
    line = Cable()
    line.start()
    try:
        yield line
    finally:
        line.stop()


@dataclass
class Cable:
    """A proxy in a thread of its own.

    Attributes:
        address: where the worker finds the broker, HOST:PORT.
        listener: where the broker listens for it, HOST:PORT.
        opened: by direction, set while bytes pass.
    """

    address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    listener: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    opened: dict[str, asyncio.Event] = field(default_factory=dict)

    def start(self) -> None:
        """Listen."""
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """End the thread, and all connections with it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self, direction: str) -> None:
        """Hold all bytes of one of DIRECTIONS from now on."""
        for each in ("to the broker", "from the broker"):
            if direction not in {"to the broker", "from the broker"} or each == direction:
                self._loop.call_soon_threadsafe(self.opened[each].clear)

    def mend(self) -> None:
        """Let all pass again."""
        for event in self.opened.values():
            self._loop.call_soon_threadsafe(event.set)

    def _run_loop(self, ready: threading.Event) -> None:
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
