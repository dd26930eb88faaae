"""What is asked of the brokers all the time: whether one answers, and whether topics are the same.

**Brokers.** A worker's clients wait for their brokers silently and without end. So readiness,
metrics and the log ask here, every few seconds, over a connection that stays open. One broker is
enough, whether it is one of the bootstrap brokers or another one of the cluster.

**Topics.** A topic that is deleted and made again keeps its name, but its offsets name other
messages. A consumer does not notice: it reads on from its offset as soon as there is a message
after it. Only the topic's id differs, so the brokers are asked for it at each rebalance and every
minute. They are asked as well whether the pages have more partitions, which no worker has an index
for.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from streamer.errors import StoreMismatch, StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import Options, connect_to_any
from streamer.kafka.topics import Names, partition_count, topic_id
from streamer.metrics import Metrics

ASK_SECONDS = 2.0
ANSWER_SECONDS_MAX = 5.0  # for each broker
CHECK_SECONDS = 60.0  # from one look at the topics to the next

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


class TopicWatch:
    """Compares the ids of topics with `ids`: those of the pages and of all logs, by name.

    `client` are what clients take.
    """

    def __init__(self, client: Options, ids: Mapping[str, str], names: Names) -> None:
        self._client, self._ids, self._names = client, ids, names

    async def check(self) -> None:
        """Ask for the ids, and compare them. Brokers that do not answer are asked the next time.

        Raises:
            StoreMismatch: a topic was deleted and made again.
            StreamerError: a partition has no index.
        """
        admin = AIOKafkaAdminClient(**self._client)
        try:
            await admin.start()
            found = {topic: await topic_id(admin, topic) for topic in self._ids}
            shards = self._names.shards(await partition_count(admin, self._names.pages))
        except (KafkaError, StreamerError) as error:
            _log.warning("topics_not_checked", reason=str(error))
            return
        finally:
            await admin.close()
        for topic, wanted in self._ids.items():
            if found[topic] != wanted:
                raise StoreMismatch(
                    f"The topic {topic} was deleted and made again: its id was {wanted}, and is "
                    f"{found[topic]} now. The offsets in this index are those of the deleted "
                    "topic. Use another --index-name and --index."
                )
        if len(shards) >= len(self._ids):
            raise StreamerError(
                f"The topic {self._names.pages} has more partitions than at the start. Start the "
                "workers again: each new partition gets an index of its own."
            )

    async def run(self) -> None:
        """Check every minute; never returns.

        Raises:
            StreamerError: as `check`.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()
