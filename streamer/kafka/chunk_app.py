"""A Faust app over chunks: the consumer of transport.py, and the settings that go with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from streamer.kafka.transport import ChunkConsumer, Start

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
        super().__init__(
            group,
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

    def _crash(self, reason: BaseException) -> None:
        """End the process when a part of Faust has crashed: without it nothing would be read."""
        super()._crash(reason)
        self.fail(reason)

    def _create_directories(self) -> None:
        """Make none: there are no tables."""
