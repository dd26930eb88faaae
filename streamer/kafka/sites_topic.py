"""The topic in which signers share what they have learned of sites, and remember it.

Each signer has a table of its own, and publishes the parts of it that have changed, every
PUBLISH_SECONDS and when it stops. The topic is compacted: the newest message of a part counts. A
signer that starts folds the topic, and goes on to take over what others publish. So a signer that
gets the partition of another one knows what that has learned, up to the last seconds.

Nothing has to be exact here. A page's signature is in the log, so verdicts are a function of the
log, whatever the signer of a page knew of its site. Where two signers have changed a part at the
same time, the topic has the later message; each of them still has its own, and publishes it with
the next change.
"""

# A topic of learned pages, folded in one order by all, would have each signer wait for the others
# at each page. What is published are parts of the table (1 KiB each), not blocks: a table of 64 MiB
# in 30 seconds is 2 MB a second, and a message per block would be a hundred per page.

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streamer.errors import StoreMismatch
from streamer.kafka.publisher import Message, Publisher
from streamer.kafka.reader import Options, Reader, fetch, stop_consumer
from streamer.kafka.topics import Names, ensure_topic, sites_topic
from streamer.sketch.site_memory import SiteMemory

PUBLISH_SECONDS = 30.0  # in which a table of 64 MiB may change as a whole: 2 MB a second
PARTS_AT_ONCE = 8192  # of 1 KiB
_PART_BYTES = 4  # of a key: the number of a part

_log = structlog.get_logger()


class SitePart(msgspec.Struct, array_like=True):
    """A part of a signer's table.

    Attributes:
        index: fingerprint of the index; parts of another one are of no use.
        writer: names the process that published it.
        pages: how many pages its table has learned from.
    """

    index: str
    writer: str
    pages: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    data: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SitePart).decode


class SharedSites:
    """The table of a signing process, and its topic."""

    def __init__(self, memory: SiteMemory, topic: str, fingerprint: str) -> None:
        self.memory = memory
        self._topic = topic
        self._fingerprint = fingerprint
        self._writer = secrets.token_hex(8)
        self._next = 0  # offset from which on the topic is not folded yet
        self._has_warned = False
        self._publishing = asyncio.Lock()

    @classmethod
    async def prepared(
        cls, reader: Reader, names: Names, memory: SiteMemory, fingerprint: str, replicas: int
    ) -> SharedSites:
        """Return a table that has folded its topic, which is made if it is not there.

        Raises:
            SettingsError: the topic exists with other settings.
            StreamerError: the brokers refuse.
        """
        await ensure_topic(reader.admin, sites_topic(names, replicas))
        shared = cls(memory, names.sites, fingerprint)
        start, end = await reader.bounds(names.sites, 0)
        if start < end:
            async for chunk in reader.read(names.sites, 0, start, end):
                await asyncio.to_thread(shared.take_over, chunk.records)
        shared._next = end
        _log.info("sites_folded", topic=names.sites, offset=end, pages=memory.figures().pages)
        return shared

    def take_over(self, messages: Iterable[Any]) -> None:
        """Merge the parts in messages of the topic, but those that this process has published.

        It is done at once, as what is learned ahead is taken out of the table meanwhile.
        """
        pages, parts = 0, list[tuple[int, bytes]]()
        for message in messages:
            number = int.from_bytes(message.key or b"", "big")
            try:
                part = _decode(message.value or b"")
            except (msgspec.MsgspecError, RecursionError) as error:
                self._warn(message.offset, str(error))
                continue
            if part.index != self._fingerprint or part.writer == self._writer:
                continue
            if self.memory.has_part(number, part.data):
                pages = max(pages, part.pages)
                parts.append((number, part.data))
            else:
                self._warn(
                    message.offset, f"part {number} of {len(part.data)} bytes is of no table"
                )
        if parts:
            self.memory.merge(pages, parts)

    def _warn(self, offset: int, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "sites_passed_over", topic=self._topic, offset=offset,
                reason=f"The message cannot be used: {why}. Another program wrote it. Further ones "
                "are not reported.",
            )  # fmt: skip

    def note_published(self, turn: int) -> None:
        """Note that the record of the chunk with the oldest turn has arrived in the log."""
        if not self.memory.settle(turn):
            raise StoreMismatch(f"The chunk of turn {turn} was not learned in its order.")

    async def publish(self, publisher: Publisher) -> None:
        """Publish the parts that changed by pages of which the records have arrived.

        Raises:
            StreamerError: the brokers refused, or did not answer in time.
        """
        async with self._publishing:
            for _ in range(0, len(self.memory.stored), PARTS_AT_ONCE):
                batches = await asyncio.to_thread(self._batches, publisher)
                if not batches:
                    break
                await publisher.publish(self._topic, 0, batches)

    def _batches(self, publisher: Publisher) -> list[Any]:
        pages, parts = self.memory.to_flush(PARTS_AT_ONCE)
        own = self._fingerprint, self._writer, pages
        messages: list[Message] = [
            (number.to_bytes(_PART_BYTES, "big"), _encode(SitePart(*own, data)), [], None)
            for number, data in parts
        ]
        return publisher.batches(messages)

    async def run(self, publisher: Publisher) -> None:
        """Publish what changes, every PUBLISH_SECONDS; never returns.

        Raises:
            StreamerError: as `publish`.
        """
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            await self.publish(publisher)

    async def follow(self, options: Options) -> None:
        """Take over what other signers publish from now on; never returns.

        Raises:
            InputError: a message cannot be decoded.
        """
        consumer = AIOKafkaConsumer(
            **options, group_id=None, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            place = TopicPartition(self._topic, 0)
            consumer.assign([place])
            consumer.seek(place, self._next)
            while True:
                start = await consumer.position(place)
                if messages := await fetch(consumer, place, start):
                    await asyncio.to_thread(self.take_over, messages)
        finally:
            await stop_consumer(consumer)
