"""A Faust app over chunks: the consumer of transport.py, and the settings that go with it.

A rebalance is seen through however long the brokers take: Faust takes a seek that outlasts a
request's time for the end of the process, and completes no rebalance after it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import faust
from faust.tables import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from streamer.errors import StreamerError
from streamer.kafka.transport import ChunkConsumer, Start

REBALANCE_SECONDS_MAX = 300.0  # it takes seconds, or as long as the brokers are away
WATCH_SECONDS = 1.0

Starts = Callable[[Mapping[TP, int]], Awaitable[Mapping[TP, Start]]]


class ChunkTransport(driver.Transport):
    """The transport of chunks."""

    Consumer = ChunkConsumer


class ChunkSchema(faust.Schema[Any, Any]):
    """Hands the chunk through: there is nothing to decode yet."""

    def compile(self, app: Any, **_options: Any) -> Any:
        """Return the function that makes an event of a message."""

        async def decode(message: ConsumerMessage, *, propagate: bool = False) -> Any:
            del propagate
            return app.create_event(None, message.value, {}, message)

        return decode


class _Rebalances(Recovery):
    """What Faust does after an assignment: it asks where to begin, and lets chunks flow."""

    async def _wait(self, coro: Any, timeout: Any = None) -> None:
        """Wait without a timeout, which would end this service; another rebalance ends it too."""
        del timeout
        await super()._wait(coro)


class _Tables(TableManager):
    """No tables: they are what Faust hangs its rebalances on."""

    @property
    def recovery(self) -> Recovery:
        if self._recovery is None:
            self._recovery = _Rebalances(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery


class ChunkApp(faust.App):
    """A Faust app over chunks.

    `starts` is asked where each partition begins, given the committed offsets (0: none); `fail`
    ends the process.
    """

    def __init__(
        self, group: str, starts: Starts, fail: Callable[[BaseException], None], **options: Any
    ) -> None:
        self.starts = starts
        self.fail = fail
        self._rebalancing_since: float | None = None
        super().__init__(
            group,
            TableManager=_Tables,
            web_enabled=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
            table_standby_replicas=1,
            stream_buffer_maxsize=4096,  # never full: see _has_room
            consumer_max_fetch_size=8 << 20,
            consumer_auto_offset_reset="none",
            broker_max_poll_records=None,
            broker_commit_interval=0.5,
            broker_session_timeout=10.0,
            broker_heartbeat_interval=3.0,
            consumer_metadata_max_age_ms=5_000,
            **options,
        )

    @property
    def chunks(self) -> ChunkConsumer:
        """Return the consumer, by its own type."""
        return cast(ChunkConsumer, self.consumer)

    def _new_transport(self) -> ChunkTransport:
        return ChunkTransport(self.conf.broker_consumer, self)

    def on_rebalance_start(self) -> None:
        """Note when it was that chunks stopped flowing; called in the thread that fetches."""
        if not self.rebalancing:
            self._rebalancing_since = time.monotonic()
        super().on_rebalance_start()

    def on_rebalance_end(self) -> None:
        """Note that chunks flow again."""
        self._rebalancing_since = None
        super().on_rebalance_end()

    @faust.Service.task
    async def _watch_rebalances(self) -> None:
        """End the process when a rebalance does not end: nothing is read, and nothing tells why."""
        while not self.should_stop:
            await self.sleep(WATCH_SECONDS)
            since = self._rebalancing_since
            if since is not None and time.monotonic() - since > REBALANCE_SECONDS_MAX:
                self.fail(StreamerError(_does_not_end(self.conf.id)))
                return

    def _crash(self, reason: BaseException) -> None:
        """End the process when a part of Faust has crashed: without it nothing would be read."""
        super()._crash(reason)
        self.fail(reason)

    def _create_directories(self) -> None:
        """Make none: there are no tables."""


def _does_not_end(group: str) -> str:
    return (
        f"A rebalance of the group {group} has not ended within {REBALANCE_SECONDS_MAX:.0f} "
        "seconds: nothing is read meanwhile. See that the brokers can be reached, and start this "
        "worker again: it repeats what it has not committed."
    )
