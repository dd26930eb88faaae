"""The owner of a shard: the fold of its log into an index on disk. It knows no Kafka.

What is stored at a flush is a state of the log at one position. After any end the owner goes on
from that position; records before the group's committed offset are applied, and what they emit is
out already. Whether a store fits its log is checked before anything is read.

Verdicts as messages: co-partitioned with the pages, keyed as they were, with their number.

The header `streamer.sequence` holds SHARD:NUMBER. Numbers rise within a partition; where they fall
back, a restarted owner repeats the same bytes. Most readers need no header: they upsert by page.

What a chunk of a shard's log leads to: read and looked up ahead, applied in order, packed.

`read` may run in any thread, some chunks ahead of the judgement; `apply` runs in one thread, in the
order of the log. Neither talks to Kafka: batches are packed here and sent by shard_app.py.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamer.errors import StreamerError
from streamer.index.codec import ShardMeta
from streamer.index.flusher import Flusher, Timed
from streamer.index.head import HEAD_PAGES
from streamer.index.key_table import KeyTable
from streamer.index.prefetch import Found, PrefetchedLookup
from streamer.index.shard import Shard
from streamer.index.stored_lookup import StoredLookup
from streamer.index.types import Output, Pages, Record, Verdicts, shard_name
from streamer.kafka.monitoring import ShardMeasures
from streamer.kafka.publisher import Message, Publisher
from streamer.kafka.reader import Chunk
from streamer.kafka.topics import Names
from streamer.kafka.wire import (
    LogBounds,
    LogPosition,
    ShardLog,
    check_bounds,
    fitting_position,
    pack_record,
    record_digest,
    stored_position,
    unpack_record,
)
from streamer.metrics import Stage
from streamer.model import Location, split_ref
from streamer.run.index_folder import IndexFolder
from streamer.run.stages import Locate, verdicts
from streamer.sketch.settings import SignatureSettings

RECORDS_BETWEEN_FLUSHES = (
    4096  # of the log: bounds what a restart folds where hardly a page is kept
)
SECONDS_BETWEEN_FLUSHES = 3600.0  # a restart folds what came since; a flush's entries stay


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record of the log at `offset`, its bytes, and what was found for its pages ahead."""

    offset: int
    data: bytes
    record: Record
    found: Found | None


class Owner:
    """Folds the log of a shard into the index folder `path`.

    `clock` tells seconds: it decides when to flush, which shows in no output.

    Raises:
        StoreMismatch: the folder belongs to another shard, another log or other settings.
        StoreUnavailable: it is in use, or the disk refuses.
    """

    def __init__(
        self,
        path: Path,
        log: ShardLog,
        signature: SignatureSettings,
        key_file: Path,
        *,
        head_pages: int = HEAD_PAGES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = log.number
        self.identity = log.identity
        self._path = path
        self._head_pages = head_pages
        self._clock = clock
        self._folder = IndexFolder.open(path, signature, log.shards, key_file)
        meta = self._folder.store.meta
        wanted = LogPosition(log.identity.origin, log.topic_id, log.number)
        try:
            self._at = fitting_position(path, meta.owner, wanted) if meta else wanted
            self._lookup = StoredLookup(self._folder.store, 0)
            self._prefetched = PrefetchedLookup(self._lookup)
            self.shard = Shard(
                log.number,
                log.shards,
                signature.bands,
                self._prefetched,
                state=meta.shards[0].state if meta else b"",
                head_capacity=head_pages + 1024,
            )
        except BaseException:
            self._folder.store.close()
            raise
        self._flusher = Flusher(
            self._folder.store, self._folder.identity, [self.shard], [self._lookup]
        )
        self._newest = b""
        self._flushed_offset = self._at.offset
        self._flushed_at = clock()

    @property
    def position(self) -> int:
        """Return the offset of the first record of the log that is not applied."""
        return self._at.offset

    @property
    def stored_position(self) -> int:
        """Return the position that the store on disk has; all before it has been emitted."""
        meta = self._folder.store.meta
        found = stored_position(meta.owner) if meta else None
        return found.offset if found else 0

    def check(self, bounds: LogBounds) -> None:
        """See that the log goes on where this store stands.

        Raises:
            StoreMismatch: it begins later, ends before, or holds another record there.
        """
        check_bounds(self._path, self._at, bounds)

    def read(self, offset: int, data: bytes) -> ReadRecord:
        """Unpack the record at `offset`, and look up what its pages will ask for; in any thread.

        Raises:
            StoreMismatch: the record is of a later version, or not of this index.
        """
        record = unpack_record(data, self.identity)
        found = None
        if isinstance(record.items, Pages) and len(record.items):
            found = self._prefetched.ahead(self.shard.own_keys(record.items))
        return ReadRecord(offset, data, record, found)

    def apply(self, read: ReadRecord) -> list[Output]:
        """Apply a record; return what it makes the shard emit.

        A record that is applied already is passed over, and emits nothing.

        Raises:
            StoreMismatch: a CONFIG record asks for what this program does not have.
        """
        if read.offset < self._at.offset:
            return []
        if read.found is not None:
            self._flusher.let_go(read.found.hits.flushes)
        self._prefetched.expect(read.found)
        outputs = self.shard.apply(read.record)
        self._at.offset, self._newest = read.offset + 1, read.data
        return outputs

    def take(self, offset: int, data: bytes) -> list[Output]:
        """Read and apply the record at `offset`."""
        return self.apply(self.read(offset, data))

    @property
    def flush_is_due(self) -> bool:
        """Tell whether the head is full, or records or time enough have passed."""
        applied = self._at.offset - self._flushed_offset
        return (
            self.shard.kept_in_head >= self._head_pages
            or applied >= RECORDS_BETWEEN_FLUSHES
            or (applied > 0 and self._clock() - self._flushed_at >= SECONDS_BETWEEN_FLUSHES)
        )

    @property
    def changed(self) -> bool:
        """Tell whether anything was applied since the last flush."""
        return self._at.offset > self._flushed_offset

    def observe(self, timed: Timed, written: Callable[[], None]) -> None:
        """Have `timed` wrap each flush, and `written` called after it; in a thread."""
        self._flusher.observe(timed, written)

    def begin_flush(self, published: Callable[[], object]) -> None:
        """Begin to write all state in one atomic step.

        `published` is called in another thread; it returns when all that was emitted is out.

        Raises:
            StoreUnavailable: the flush before failed; the index is what it was.
        """
        if self._newest:
            self._at.digest = record_digest(self._newest)
        state = msgspec.msgpack.encode(self._at)

        def owner_state() -> bytes:
            published()
            return state

        self._flusher.begin(owner_state)
        self._flushed_offset = self._at.offset
        self._flushed_at = self._clock()

    def flush(self) -> None:
        """Write all state, and see the end of it; what was emitted is out.

        Raises:
            StoreUnavailable: nothing was written; the index is what it was.
        """
        self.begin_flush(lambda: None)
        self.finish()

    def finish(self) -> None:
        """Wait for what was begun.

        Raises:
            StoreUnavailable: nothing was written; the index is what it was.
        """
        self._flusher.finish()

    def close(self) -> None:
        """Release the index; what was not flushed is folded again from the log."""
        self._flusher.close()
        self._folder.store.close()

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint that verdicts carry."""
        return self._folder.fingerprint

    @property
    def stored(self) -> ShardMeta:
        """Return what the newest flush has left on disk."""
        meta = self._folder.store.meta
        return meta.shards[0] if meta else ShardMeta()

    @property
    def key_table(self) -> KeyTable:
        """Return the table of all keys that have left the head."""
        return self._lookup.table

    @property
    def index_bytes(self) -> int:
        """Return the size of the index on disk."""
        return self._folder.store.size_bytes()

    @property
    def disk_free_bytes(self) -> int:
        """Return what the index's disk has left for us."""
        return shutil.disk_usage(self._path).free


SEQUENCE = "streamer.sequence"

_encode = msgspec.json.Encoder().encode


def topic_locator(topic: str) -> Locate:
    """Return a function from a page ref to its place: a source's number is its partition's."""

    def locate(ref: int) -> Location:
        partition, offset = split_ref(ref)
        return Location(topic, partition, offset)

    return locate


def verdict_messages(
    block: Verdicts, shard: int, start: int, locate: Locate, fingerprint: str, partitions: int
) -> dict[int, list[Message]]:
    """Return the messages of a block by partition; `start` is the number of its first verdict."""
    result: dict[int, list[Message]] = defaultdict(list)
    numbered = enumerate(
        zip(
            verdicts(block, locate, fingerprint),
            block.pages.message_keys,
            block.pages.urls,
            strict=True,
        ),
        start,
    )
    for number, (verdict, key, url) in numbered:
        headers = [(SEQUENCE, b"%d:%d" % (shard, number))]
        message = (url if key is None else key, _encode(verdict), headers, None)
        result[verdict.page.partition % partitions].append(message)
    return result


Place = tuple[str, int]  # topic, partition


@dataclass(slots=True)
class ReadChunk:
    """The records of a chunk from `start` on, and the timestamps of their oldest pages, in ms."""

    start: int
    records: list[ReadRecord]
    timestamps: list[int]


@dataclass(slots=True)
class Applied:
    """What a chunk has led to: batches to publish by place, and what to count after that.

    `timestamps` and `pages` have an entry a block of verdicts.
    """

    batches: dict[Place, list[Any]]
    verdicts: list[Verdicts]
    timestamps: list[int]
    pages: list[int]


class Applier:
    """Applies the log of an owned shard."""

    def __init__(
        self,
        names: Names,
        owner: Owner,
        publisher: Publisher,
        verdict_partitions: int,
        measures: ShardMeasures,
    ) -> None:
        self._names = names
        self.owner = owner
        self._publisher = publisher
        self._verdict_partitions = verdict_partitions
        self.measures = measures
        self._locate = topic_locator(names.pages)
        owner.observe(measures.stage, self.observe_store)

    def read(self, chunk: Chunk) -> ReadChunk:
        """Unpack a chunk's records and look up ahead what applying them will ask for.

        Raises:
            StoreMismatch: a record is of a later version, or not of this index.
        """
        records = [self.owner.read(record.offset, record.value) for record in chunk.records]
        return ReadChunk(chunk.start, records, [record.timestamp for record in chunk.records])

    def apply(self, chunk: ReadChunk, committed: int) -> Applied:
        """Apply a chunk; pack what it emits, but for records below `committed`: that is out.

        Raises:
            StreamerError: records between what is applied and this chunk were not delivered.
        """
        if chunk.start > self.owner.position:
            raise StreamerError(
                f"The log of shard {self.owner.number} was delivered from {chunk.start} on, the "
                f"index stands at {self.owner.position}. Start the worker again."
            )
        messages: dict[Place, list[Message]] = defaultdict(list)
        applied = Applied({}, [], [], [])
        with self.measures.stage(Stage.APPLY):
            for record, timestamp in zip(chunk.records, chunk.timestamps, strict=True):
                outputs = self.owner.apply(record)
                if record.offset < committed:
                    continue
                for output in outputs:
                    if isinstance(output.items, Verdicts):
                        applied.verdicts.append(output.items)
                        applied.timestamps.append(timestamp)
                        applied.pages.append(len(output.items))
                    for place, message in self._messages(output, timestamp):
                        messages[place].append(message)
            for place, found in messages.items():
                applied.batches[place] = self._publisher.batches(found)
        self.measures.observe_state()
        return applied

    def _messages(self, output: Output, timestamp: int) -> Iterator[tuple[Place, Message]]:
        """Yield the messages of an output; records for other shards keep the pages' timestamp."""
        owner, items = self.owner, output.items
        if isinstance(items, Verdicts):
            by_partition = verdict_messages(
                items, owner.number, output.start, self._locate, owner.fingerprint,
                self._verdict_partitions,
            )  # fmt: skip
            for partition, messages in by_partition.items():
                for message in messages:
                    yield (self._names.verdicts, partition), message
        else:
            shard = int(output.destination.removeprefix(shard_name(0)[:-1]))
            numbers = np.arange(output.start, output.end)
            record = Record(shard_name(owner.number), output.start, output.end, numbers, items)
            packed = pack_record(record, owner.identity)
            yield (self._names.log(shard), 0), (None, packed, [], timestamp)

    def observe_store(self) -> None:
        """Show what is on disk: when the index was opened, and after each flush."""
        owner = self.owner
        self.measures.observe_store(owner.stored, owner.index_bytes, owner.key_table)
        self.measures.observe_disk(owner.stored_position, owner.disk_free_bytes)
