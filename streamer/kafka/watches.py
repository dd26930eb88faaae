"""Whether a broker answers, which is asked all the time.

A worker's clients wait for their brokers silently and without end. So readiness, metrics and the
log ask here, every few seconds, over a connection that stays open. One broker is enough, whether it
is one of the bootstrap brokers or another one of the cluster.
"""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from streamer.errors import StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import connect_to_any
from streamer.metrics import Metrics

ASK_SECONDS = 2.0
ANSWER_SECONDS_MAX = 5.0  # for each broker

_log = structlog.get_logger()


class BrokerWatch:
    """Asks the brokers of `connection`; they count as reachable until they do not answer."""

    def __init__(self, connection: Connection, metrics: Metrics) -> None:
        self._connection = connection
        self._servers = dict.fromkeys(connection.servers)  # in order; others of the cluster too
        self._open: AIOKafkaConnection | None = None
        self._answered_at = datetime.now(UTC)
        self._lost_at: float | None = None
        self._metric = metrics.brokers_reachable
        self._metric.set(1)

    @property
    def complaint(self) -> str:
        """Return what is wrong, in words: since when no broker has answered; "" if one does."""
        if self._lost_at is None:
            return ""
        return f"no broker has answered since {self._answered_at:%Y-%m-%dT%H:%M:%SZ}"

    async def run(self) -> None:
        """Ask again and again; never returns."""
        try:
            while True:
                await self._ask()
                await asyncio.sleep(ASK_SECONDS)
        finally:
            self._forget()

    async def _ask(self) -> None:
        """Ask the broker that answered last, then each of the others, until one answers."""
        asked, answer = time.monotonic(), None
        if self._open is not None:
            with suppress(KafkaError, OSError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    answer = await self._open.send(MetadataRequest([]))
        try:
            if answer is None:
                self._forget()
                self._open, answer = await connect_to_any(
                    self._connection, self._servers, ANSWER_SECONDS_MAX
                )
        except StreamerError as error:
            if self._lost_at is None:
                self._lost_at = asked
                since = self._answered_at.isoformat(timespec="seconds")
                _log.warning("brokers_unreachable", since=since, reason=str(error))
            self._metric.set(0)
            return
        self._servers |= {f"{host}:{port}": None for _, host, port, *_ in answer.brokers}
        if self._lost_at is not None:
            seconds = round(time.monotonic() - self._lost_at, 1)
            _log.warning("brokers_reachable_again", seconds=seconds)
        self._answered_at, self._lost_at = datetime.now(UTC), None
        self._metric.set(1)

    def _forget(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
