"""What a chunk of a shard's log leads to: read and looked up ahead, applied in order, packed.

`read` may run in any thread, some chunks ahead of the judgement; `apply` runs in one thread, in the
order of the log. Neither talks to Kafka: batches are packed here and sent by shard_app.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamer.errors import StreamerError
from streamer.index.records import Output, Record, Verdicts, shard_name
from streamer.kafka.chunk import Chunk
from streamer.kafka.measures import ShardMeasures
from streamer.kafka.names import Names
from streamer.kafka.owner import Owner, ReadRecord
from streamer.kafka.publisher import Message, Publisher
from streamer.kafka.verdict_messages import topic_locator, verdict_messages
from streamer.kafka.wire import pack_record
from streamer.metrics import Stage

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
