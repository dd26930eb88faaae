"""A crawler: sends the lines of a file to a topic, steadily, while workers are being disturbed."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaProducer

STEP_SECONDS = 0.1
SILENCE_SECONDS_MAX = 180  # without a page that arrives: a busy machine is slow, but goes on


class Feeder(threading.Thread):
    """Sends `pages` lines within `seconds`, the file again and again; `finish` sends the rest."""

    def __init__(self, brokers: str, topic: str, file: Path, pages: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self._brokers = brokers
        self._topic = topic
        self._lines = itertools.islice(itertools.cycle(file.read_bytes().splitlines()), pages)
        self._step = max(1, round(pages * STEP_SECONDS / seconds))
        self._hurry = threading.Event()
        self._ended = threading.Event()
        self.sent = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send; part of the thread."""
        try:
            asyncio.run(self._send())
        except BaseException as error:  # noqa: BLE001 - raised by finish()
            self.error = error

    async def _send(self) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self._brokers,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=120_000,
            max_request_size=8 << 20,
        ) as producer:
            while not self._ended.is_set() and (
                lines := list(itertools.islice(self._lines, self._step))
            ):
                began = time.monotonic()
                for line in lines:
                    await producer.send(self._topic, line)
                self.sent += len(lines)
                if not self._hurry.is_set():
                    await asyncio.sleep(max(0, STEP_SECONDS - (time.monotonic() - began)))

    def finish(self) -> None:
        """Send what is left at once, and wait until all has arrived."""
        self._hurry.set()
        sent = -1
        while self.is_alive() and self.sent > sent:
            sent = self.sent
            self.join(SILENCE_SECONDS_MAX)
        assert self.error is None, self.error
        assert not self.is_alive(), self.sent

    def abandon(self) -> None:
        """Send no more, whatever has arrived."""
        self._ended.set()


@contextmanager
def fed(brokers: str, topic: str, file: Path, pages: int, seconds: float) -> Iterator[Feeder]:
    """Feed a topic while the block runs; all of the pages have arrived at its end."""
    feeder = Feeder(brokers, topic, file, pages, seconds)
    feeder.start()
    try:
        yield feeder
        feeder.finish()
    finally:
        feeder.abandon()  # else it would knock at a broker that has gone, to the end of its days
