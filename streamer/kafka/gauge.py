"""Back-pressure: the owner of a log publishes its position, and its signers pause by it.

It publishes this gauge to a topic of its own when it changes, and every ten seconds in any case, so
that its silence is noticed. The topic is compacted: a signer that starts reads the newest of each
shard. It counts the pages that it published and that the owner has not judged.

Owners answer commands in the same topic: what was forgotten at a shard.
"""

# The bound on open pages is the window times the signers. A gauge names its log by the topic's id,
# or an older log's gauge would be believed. It has its own producer, whose failure loses nothing.

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streamer.kafka.reader import Options, Reader, fetch, stop_consumer

POLL_MILLISECONDS = 500
REPEAT_SECONDS = 10.0
GAUGE, ANSWER = b"gauge.", b"answer."  # begin the keys of messages, the shard's number ends them
SILENT_SECONDS = 60.0  # after which a shard that holds up pages is named
RECORDS_BEHIND_MAX = 64  # of the log, at the start of a signer that knows nothing of earlier ones


class Gauge(msgspec.Struct, array_like=True):
    """How far the owner is in its log and in each source; `log_id` is the id of the log's topic."""

    position: int
    positions: dict[str, int]
    log_id: str


class Answer(msgspec.Struct, array_like=True):
    """A shard has forgotten what a command asked for: so many pages."""

    ask: str
    shard: int
    pages: int


pack = msgspec.msgpack.encode
_UNPACK: Mapping[bytes, Callable[[bytes], Gauge | Answer]] = {
    GAUGE: msgspec.msgpack.Decoder(Gauge).decode,
    ANSWER: msgspec.msgpack.Decoder(Answer).decode,
}
_log = structlog.get_logger()


def told_in(message: Any) -> Gauge | Answer | None:  # noqa: ANN401 - the client library's message
    """Return what a shard says in a message of the topic; None: nothing, or it cannot be read.

    The next gauge comes within REPEAT_SECONDS.
    """
    head, dot, _ = (message.key or b"").partition(b".")
    if (unpack := _UNPACK.get(head + dot)) is None:
        return None
    try:
        return unpack(message.value or b"")
    except (msgspec.MsgspecError, RecursionError) as error:
        _log.warning(
            "gauge_passed_over", topic=message.topic, offset=message.offset,
            reason=f"The message cannot be read: {error}. Another program wrote it.",
        )  # fmt: skip
        return None


class FlowControl:
    """Decides when a signer of a shard pauses; `log_end` is where its log ended at the start.

    `log_id` is the id of that log's topic. A gauge of another log is ignored: it was published
    before the log was made again.

    Attributes:
        heard: when the shard was heard last, in seconds of the monotonic clock.
        open_pages: pages that were published here and are not judged yet.
    """

    def __init__(self, window: int, log_end: int, log_id: str = "") -> None:
        self._window, self._log_end, self._log_id = window, log_end, log_id
        self._gauge: Gauge | None = None
        self.heard = time.monotonic()
        self._published: list[tuple[str, int, int]] = []  # source, end, pages
        self.open_pages = 0
        self._changed = asyncio.Event()

    @property
    def positions(self) -> dict[str, int]:
        """Return how far the shard is in each source, as far as it has said so."""
        return self._gauge.positions if self._gauge else {}

    @property
    def paused(self) -> bool:
        """Return whether no further pages may be signed now."""
        position = self._gauge.position if self._gauge else 0
        return self.open_pages >= self._window or self._log_end - position > RECORDS_BEHIND_MAX

    def has_reached(self, log_end: int) -> bool:
        """Return whether the shard has applied its log up to an offset."""
        return self._gauge is not None and self._gauge.position >= log_end

    def note_published(self, source: str, end: int, pages: int) -> None:
        """Count the pages of an interval that has been published, unless they are taken already."""
        if end <= self.positions.get(source, 0):
            return  # the shard was quicker than the answer of the brokers
        self._published.append((source, end, pages))
        self.open_pages += pages

    def note_gauge(self, gauge: Gauge) -> None:
        """Take what the shard says."""
        if gauge.log_id != self._log_id:
            return
        self._gauge, self.heard = gauge, time.monotonic()
        taken = gauge.positions
        self._published = [each for each in self._published if each[1] > taken.get(each[0], 0)]
        self.open_pages = sum(pages for _, _, pages in self._published)
        self._changed.set()

    async def wait_for_change(self) -> None:
        """Wait for the next word of the shard, half a second at most."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_MILLISECONDS / 1000):
                await self._changed.wait()


async def last_gauges(reader: Reader, topic: str) -> list[Gauge]:
    """Return the newest gauge of each log that has one in the topic."""
    newest: dict[str, Gauge] = {}
    async for chunk in reader.read(topic, 0, *await reader.bounds(topic, 0)):
        newest |= _newest(chunk.records)
    return [*newest.values()]


def _newest(messages: Iterable[Any]) -> dict[str, Gauge]:
    """Return the newest gauge of each log that has one in these messages."""
    return {each.log_id: each for each in map(told_in, messages) if isinstance(each, Gauge)}


async def follow(options: Options, topic: str, flows: Iterable[FlowControl]) -> None:
    """Hand each gauge that comes from now on to the flow of its log; never returns.

    Raises:
        InputError: a message cannot be decoded.
    """
    consumer = AIOKafkaConsumer(
        **options, group_id=None, enable_auto_commit=False, auto_offset_reset="latest"
    )
    await consumer.start()
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        await consumer.seek_to_end(place)
        while True:
            start = await consumer.position(place)
            for newest in _newest(await fetch(consumer, place, start)).values():
                for flow in flows:
                    flow.note_gauge(newest)
    finally:
        await stop_consumer(consumer)
