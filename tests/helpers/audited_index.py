"""A small index as it is in Kafka, made by the real shard: log, verdicts, dead letters.

What a test then takes away, adds or alters, the audit must notice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from streamer.analysis.audit.facts import AuditReport, AuditTarget
from streamer.analysis.audit.verify import Ends, audit_all
from streamer.index.messages import (
    IndexSettings,
    Pages,
    Record,
    Verdicts,
    config_record,
    source_name,
)
from streamer.index.shard import Shard
from streamer.kafka.dead_letters import dead_letter_message
from streamer.kafka.owner import verdict_messages
from streamer.kafka.topics import Names
from streamer.kafka.wire import LogIdentity, pack_record, unpack_record
from streamer.model import page_ref
from streamer.pages.chunk import RejectedRecord
from streamer.pages.parse import PageParser
from tests.helpers.memory_index import MemoryLookup
from tests.helpers.signed_pages import BANDS, family_pages

NAMES = Names("news", "pages")
IDENTITY = LogIdentity("fingerprint", "origin")
PARTITIONS, VERDICT_PARTITIONS = 3, 2


@dataclass(frozen=True)
class Message:
    """A message in a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    def with_json(self, **fields: Any) -> Message:
        """Return the message with other values of some fields."""
        return replace(self, value=json.dumps({**self.json, **fields}).encode())

    @property
    def json(self) -> Any:
        """Return the value's fields."""
        return json.loads(self.value or b"")

    @property
    def number(self) -> tuple[int, int]:
        """Return the shard and the number of a verdict."""
        shard, _, number = dict(self.headers)["streamer.sequence"].partition(b":")
        return int(shard), int(number)


@dataclass
class SmallIndex:
    """Everything that is in the topics of an index, and how far its groups have committed."""

    settings: IndexSettings
    records: list[Message] = field(default_factory=list)
    log: list[bytes] = field(default_factory=list)
    verdicts: list[Message] = field(default_factory=list)
    dead_letters: list[Message] = field(default_factory=list)
    signed: dict[int, int] = field(default_factory=dict)
    applied: int = 0
    emitted_at: dict[tuple[int, int], int] = field(default_factory=dict)  # of verdicts, by number

    def audit(self, **changed: Any) -> AuditReport:
        """Audit it, with what is changed in the facts."""
        ends = {p: 1 + max(m.offset for m in self.records if m.partition == p) for p in self.signed}
        target = AuditTarget(
            NAMES, IDENTITY, BANDS, {p: (0, end) for p, end in ends.items()}, VERDICT_PARTITIONS,
            self.signed, [self.applied], PageParser(),
        )  # fmt: skip
        topics = {
            NAMES.log(0): [Message(0, at, None, data) for at, data in enumerate(self.log)],
            NAMES.verdicts: self.verdicts, NAMES.dead_letters: self.dead_letters,
            NAMES.pages: self.records,
        }  # fmt: skip

        async def read(topic: str, _bounds: object, take: Callable[[Message], None]) -> None:
            for message in topics[topic]:
                take(message)

        whole = Ends({}, {}, [len(self.log)])
        return asyncio.run(audit_all(replace(target, **changed), whole, read))

    def place(self, kind: str) -> int:
        """Return where the first verdict stands that says `kind`."""
        return next(i for i, m in enumerate(self.verdicts) if m.json["verdict"] == kind)


class _Maker:
    """Makes an index from pages, a record at a time."""

    def __init__(self, index: SmallIndex) -> None:
        self.index = index
        self.shard = Shard(BANDS, MemoryLookup())
        index.log = [pack_record(config_record(index.settings, 0), IDENTITY)]

    @property
    def is_waiting(self) -> bool:
        """Return whether the log is not read to the end."""
        return self.index.applied < len(self.index.log)

    def step(self) -> None:
        """Let the shard take the next record of its log."""
        offset = self.index.applied
        self.index.applied += 1
        output = self.shard.apply(unpack_record(self.index.log[offset], IDENTITY))
        if output is not None:
            self._publish(output.verdicts, output.start, offset)

    def _publish(self, block: Verdicts, start: int, offset: int) -> None:
        by_partition = verdict_messages(
            block, 0, start, NAMES.pages, IDENTITY.fingerprint, VERDICT_PARTITIONS
        )
        for partition, messages in by_partition.items():
            for key, value, headers, _ in messages:
                message = Message(partition, len(self.index.verdicts), key, value, tuple(headers))
                self.index.verdicts.append(message)
                self.index.emitted_at[message.number] = offset


def small_index(
    seed: int = 0, pages: int = 120, *, steps: int | None = None, **rules: Any
) -> SmallIndex:
    """Return an index of so many pages, at rest, or as it is after so many steps of its shard."""
    random = Random(seed)
    index = SmallIndex(IndexSettings.model_validate(rules))
    made = family_pages(random, pages)
    made.headers = [[("traceparent", b"00-%d" % i)] if i % 3 else [] for i in range(pages)]
    signed = _write_records(index, random, made)
    maker = _Maker(index)
    while (signed or maker.is_waiting) and steps != 0:
        if signed and (not maker.is_waiting or random.random() < 0.5):
            record = signed.pop(0)
            index.log.append(pack_record(record, IDENTITY))
            index.signed[int(record.source.removeprefix("pages:"))] = record.end
        else:
            maker.step()
            steps = None if steps is None else steps - 1
    return index


def _write_records(index: SmallIndex, random: Random, pages: Pages) -> list[Record]:
    """Fill the pages' topic, with bad records, deletions and gaps; return what signers make of it.

    Each partition begins with a bad record.
    """
    others = ["bad", "deletion", "gap"] * max(1, len(pages) // 20)
    kinds = random.sample(["page"] * len(pages) + others, len(pages) + len(others))
    places: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]  # (offset, page)
    ends = [1] * PARTITIONS
    for partition in range(PARTITIONS):
        _write_bad(index, partition, 0)
    for kind in kinds:
        partition = random.randrange(PARTITIONS)
        offset = ends[partition]
        ends[partition] += 1
        if kind == "bad":
            _write_bad(index, partition, offset)
        elif kind == "deletion":
            index.records.append(Message(partition, offset, b"gone", None))
        elif kind == "page":
            page = sum(map(len, places))
            pages.refs[page] = page_ref(partition, offset)
            places[partition].append((offset, page))
            value = b'{"url": "http://a.example/%d", "body": "text"}' % page
            index.records.append(Message(partition, offset, None, value))
    signed = [list(_signed(pages, p, places[p], ends[p], random)) for p in range(PARTITIONS)]
    index.signed = dict.fromkeys(range(PARTITIONS), 0)
    turns = random.sample([p for p in range(PARTITIONS) for _ in signed[p]], sum(map(len, signed)))
    return [signed[p].pop(0) for p in turns]


def _write_bad(index: SmallIndex, partition: int, offset: int) -> None:
    bad = Message(partition, offset, b"k", b"{broken")
    rejected = RejectedRecord(offset, "invalid_json", "", bad.key, b"{broken", 7)
    key, value, headers, *_ = dead_letter_message(rejected, bad, NAMES, 1 << 20)
    index.records.append(bad)
    index.dead_letters.append(Message(0, len(index.dead_letters), key, value, tuple(headers)))


def _signed(
    pages: Pages, partition: int, places: list[tuple[int, int]], end: int, random: Random
) -> Iterator[Record]:
    """Yield the records that cover [0, end) of a partition."""
    start = 0
    while start < end:
        until = min(end, start + random.randint(1, 9))
        within = [(offset, page) for offset, page in places if start <= offset < until]
        numbers = np.array([offset for offset, _ in within], np.int64)
        taken = pages.take([page for _, page in within])
        yield Record(source_name(partition), start, until, numbers, taken)
        start = until
