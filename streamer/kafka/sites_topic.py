"""What signers learn of the sites of each partition of the pages, and the topics that store it.

A table is a fold of the pages of one partition, in their order. So signatures depend on the pages
alone, whoever signs them: a replay of the partition learns the same. Every PUBLISH_SECONDS, and
when it stops, a signer publishes what has changed, with the offset up to which pages were learned.
Who is given a partition reads its table, and learns again from there up to where it begins.

The topic of a partition is compacted: of each part of a table the newest message counts. It has two
copies of the table, written in turns, so one is whole while the other is being written. A copy's
note is its last message, with a digest of all its parts. After a kill in the midst it does not fit,
nor where a signer wrote that had lost the partition: then the other copy counts.
"""

# A table that all signers shared knew more of sites whose pages come to several partitions. But
# what it knew depended on who signed what and when, so runs gave different verdicts. If pages are
# keyed by their host, nothing is lost.

# Published are parts of the table (1 KiB each), not blocks: a table of 64 MiB in 30 seconds is
# 2 MB a second, and a message a block would be a hundred a page.

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import structlog

from streamer.errors import StreamerError
from streamer.kafka.publisher import Message, Publisher
from streamer.kafka.reader import Fetched, Options, Reader, open_reader
from streamer.kafka.topics import Names, ensure_topic, sites_topic
from streamer.sketch.site_memory import PART_BYTES, SiteMemory, TableParts, parts_of

RETRY_SECONDS = 5.0
PUBLISH_SECONDS = 30.0  # in which a table of 64 MiB may change as a whole: 2 MB a second
MESSAGES_AT_ONCE = 8192  # of 1 KiB
COPIES = 2
_NOTE = (1 << 32) - 1  # is in a key instead of the number of a part

_log = structlog.get_logger()


class CopyNote(msgspec.Struct, array_like=True):
    """What a copy of a table is.

    Attributes:
        index: the index and its topic of pages; copies of another one are of no use.
        offset: where the pages end that it has learned.
        pages: how many these are.
        digest: of the sums of its parts.
    """

    index: str
    offset: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    pages: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    digest: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CopyNote).decode


@dataclass
class StoredTable:
    """The table of a partition, and what its topic has of it.

    Attributes:
        sums: uint32[copies, parts], of the parts in the topic, 0 where there is none.
        offsets: what each copy covers, -1 where none is whole.
    """

    memory: SiteMemory
    sums: npt.NDArray[np.uint32]
    offsets: list[int]

    def take_changes(self, index: str) -> list[Message]:
        """Return what brings the older copy up to date, its note last; nothing if both are."""
        copy = self.offsets.index(min(self.offsets))
        if self.offsets[copy] == self.memory.position:
            return []
        pages, offset, parts = self.memory.to_flush(copy)
        for number, data in parts:
            self.sums[copy, number] = zlib.crc32(data)
        self.offsets[copy] = offset
        note = _encode(CopyNote(index, offset, pages, _digest(self.sums[copy])))
        rows = [*parts, (_NOTE, note)]
        return [(message_key(copy, number), value, [], None) for number, value in rows]


def restore_table(
    messages: Mapping[bytes, bytes], index: str, size_bytes: int, begin: int
) -> StoredTable:
    """Return the table as of the newest whole copy that covers `begin` or less, else an empty one.

    `messages` are those of its topic, the newest of each key; what fits no copy is passed over.
    """
    sums = np.zeros((COPIES, parts_of(size_bytes)), np.uint32)
    parts: list[dict[int, bytes]] = [{} for _ in range(COPIES)]
    for key, value in messages.items():
        copy, number = key[0] if key else COPIES, int.from_bytes(key[1:], "big")
        if copy < COPIES and number < sums.shape[1] and len(value) == PART_BYTES:
            parts[copy][number], sums[copy, number] = value, zlib.crc32(value)
    notes = [CopyNote("", 0, 0, b"") for _ in range(COPIES)]
    for copy in range(COPIES):
        with suppress(msgspec.MsgspecError, RecursionError):
            notes[copy] = _decode(messages.get(message_key(copy, _NOTE), b""))
    offsets = [
        note.offset
        if (note.index, note.digest) == (index, _digest(own)) and note.offset <= begin
        else -1
        for note, own in zip(notes, sums, strict=True)
    ]
    newest = offsets.index(max(offsets))
    stored, of_newest = None, np.zeros_like(sums[0])
    if offsets[newest] >= 0:
        stored = TableParts(notes[newest].pages, offsets[newest], [*parts[newest].items()])
        of_newest = sums[newest]
    memory = SiteMemory(size_bytes, stored, COPIES)
    for copy in range(COPIES):
        memory.mark(copy, sums[copy] != of_newest)
    return StoredTable(memory, sums, offsets)


def message_key(copy: int, number: int) -> bytes:
    """Return the key of a part of a copy, or of its note."""
    return bytes([copy]) + number.to_bytes(4, "big")


def _digest(sums: npt.NDArray[np.uint32]) -> bytes:
    return hashlib.blake2b(sums.astype("<u4").tobytes(), digest_size=16).digest()


@dataclass
class PartitionSites:
    """The tables of a signing process, by partition of the pages.

    `client` is what clients of the library take, `index` names the index and its topic of pages.
    `learn` has a table learn the pages of a chunk.
    """

    client: Options
    names: Names
    index: str
    size_bytes: int
    replicas: int
    learn: Callable[[Fetched, SiteMemory], None]
    _tables: dict[int, StoredTable] = field(default_factory=dict)
    _publishing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _restoring: asyncio.Lock = field(default_factory=asyncio.Lock)  # one needs twice a table

    def of(self, partition: int) -> SiteMemory:
        """Return the table of a partition that was restored."""
        return self._tables[partition].memory

    def keep(self, partitions: Collection[int]) -> None:
        """Forget the tables of other partitions."""
        self._tables = {number: self._tables[number] for number in partitions & self._tables.keys()}

    async def restore(self, partition: int, begin: int, is_wanted: Callable[[], bool]) -> None:
        """Have the table of a partition know all pages before `begin`; give up once not wanted.

        While the brokers are away, it is tried again.

        Raises:
            SettingsError: its topic exists with other settings.
            InputError: a message cannot be decoded.
            StreamerError: the brokers refuse.
        """
        while is_wanted():
            try:
                await self._restore(partition, begin, is_wanted)
            except StreamerError as error:
                if not getattr(error.__cause__, "retriable", False):
                    raise
                _log.warning("sites_not_restored", partition=partition, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _restore(self, partition: int, begin: int, is_wanted: Callable[[], bool]) -> None:
        async with self._restoring:
            table = self._tables.get(partition)
            if table and not (table.memory.is_settled and table.memory.position <= begin):
                table = None
            if (table and table.memory.position == begin) or not is_wanted():
                return
            async with open_reader(self.client) as reader:
                table = table or await self._read_stored(reader, partition, begin)
                known = table.memory.position
                first, _ = await reader.bounds(self.names.pages, partition)
                if not is_wanted():
                    return
                self._tables[partition] = table
                if known < min(first, begin):
                    _log.warning(
                        "sites_expired_unlearned", partition=partition, offset=first,
                        reason="What is known of sites ends before the first page that is left. A "
                        "replay of all pages may judge otherwise.",
                    )  # fmt: skip
                start = min(max(first, known), begin)
                async for chunk in reader.read(self.names.pages, partition, start, begin):
                    if not is_wanted():
                        return
                    await asyncio.to_thread(self.learn, chunk, table.memory)
                    table.memory.position = chunk.end
            table.memory.position = begin
            _log.info("sites_learned", partition=partition, stored=known, offset=begin)

    async def _read_stored(self, reader: Reader, partition: int, begin: int) -> StoredTable:
        """Return the table that its topic has; the topic is made if it is not there."""
        topic = sites_topic(self.names, partition, self.replicas)
        await ensure_topic(reader.admin, topic)
        messages = dict[bytes, bytes]()
        async for chunk in reader.read(topic.name, 0, *await reader.bounds(topic.name, 0)):
            messages |= {each.key or b"": each.value or b"" for each in chunk.records}
        return await asyncio.to_thread(restore_table, messages, self.index, self.size_bytes, begin)

    async def publish(self, publisher: Publisher) -> None:
        """Publish what changed by pages of which the records have arrived in the log.

        Raises:
            StreamerError: the brokers refused, or did not answer in time.
        """
        async with self._publishing:
            for partition, table in [*self._tables.items()]:
                messages = await asyncio.to_thread(table.take_changes, self.index)
                for first in range(0, len(messages), MESSAGES_AT_ONCE):
                    if self._tables.get(partition) is not table:
                        break  # another signer has the partition now
                    some = messages[first : first + MESSAGES_AT_ONCE]
                    batches = await asyncio.to_thread(publisher.batches, some)
                    await publisher.publish(self.names.sites(partition), 0, batches)

    async def run(self, publisher: Publisher) -> None:
        """Publish what changes, every PUBLISH_SECONDS; never returns.

        Raises:
            StreamerError: as `publish`.
        """
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            await self.publish(publisher)
