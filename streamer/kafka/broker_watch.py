"""Whether any broker answers: one is asked every few seconds, over a connection that stays open.

A worker's clients wait for their brokers silently and without end. So readiness, metrics and the
log ask here. One broker is enough, whether it is one of the bootstrap brokers or another one of the
cluster.
"""

import asyncio
import time
from datetime import UTC, datetime

import structlog
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from streamer.kafka.connection import Connection
from streamer.kafka.reader import cause_of, connect
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
        asked, causes = time.monotonic(), []
        for server in [None, *self._servers] if self._open else [*self._servers]:
            try:
                await self._connection.prepare()
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await self._ask_one(server)
            except (KafkaError, OSError, ValueError) as error:
                self._forget()
                causes.append(f"{server}: {cause_of(error)}" if server else "")
            else:
                self._note_answer()
                return
        self._note_silence(asked, "; ".join(filter(None, causes)))

    async def _ask_one(self, server: str | None) -> None:
        """Ask the broker at `server`; None: at the connection that is open."""
        if server:
            self._open = await connect(server, self._connection.security_options())
        assert self._open is not None, "asked without a connection"
        answer = await self._open.send(MetadataRequest([]))
        self._servers |= {f"{host}:{port}": None for _, host, port, *_ in answer.brokers}

    def _note_answer(self) -> None:
        if self._lost_at is not None:
            seconds = round(time.monotonic() - self._lost_at, 1)
            _log.warning("brokers_reachable_again", seconds=seconds)
        self._answered_at, self._lost_at = datetime.now(UTC), None
        self._metric.set(1)

    def _note_silence(self, asked: float, reason: str) -> None:
        if self._lost_at is None:
            self._lost_at = asked
            since = self._answered_at.isoformat(timespec="seconds")
            _log.warning("brokers_unreachable", since=since, reason=reason)
        self._metric.set(0)

    def _forget(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
