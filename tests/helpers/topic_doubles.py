"""A topic without brokers, and records of a log that gives its order."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamer.index.messages import CONFIG, IndexSettings, Record, source_name
from streamer.kafka.reader import Fetched
from streamer.kafka.topic_input import PageTopic, WaitingLoop
from streamer.kafka.wire import LogIdentity, pack_record
from streamer.pages.chunk import Message
from tests.helpers.kafka_doubles import FakeMessage
from tests.helpers.signed_pages import EMPTY_SKETCH, made_pages

IDENTITY = LogIdentity("fingerprint", "topic-id")


def pages_record(partition: int, start: int, end: int, offsets: Sequence[int]) -> bytes:
    pages = made_pages([list(range(15))] * len(offsets), [EMPTY_SKETCH] * len(offsets))
    record = Record(source_name(partition), start, end, np.array(offsets, np.int64), pages)
    return pack_record(record, IDENTITY)


def config(mark: int, threshold: float) -> bytes:
    settings = IndexSettings(threshold=threshold)
    return pack_record(Record(CONFIG, mark, mark + 1, np.array([mark]), settings), IDENTITY)


TIME = 5  # of all messages


class FakeConsumer:
    """Answers with random parts of what there is."""

    def __init__(
        self, messages: Mapping[int, list[Message]], ends: Mapping[int, int], seed: int
    ) -> None:
        self._messages = messages
        self._ends = ends
        self._random = random.Random(seed)
        self._at: dict[int, int] = {}

    def assign(self, places: list[Any]) -> None:
        self._at = dict.fromkeys((place.partition for place in places), -1)

    def seek(self, place: Any, offset: int) -> None:
        self._at[place.partition] = offset

    async def getmany(
        self, place: Any, timeout_ms: int, max_records: None = None
    ) -> dict[Any, list[FakeMessage]]:
        assert (timeout_ms > 0, max_records) == (True, None)
        p = place.partition
        start, self._at[p] = (
            self._at[p],
            min(self._at[p] + self._random.randrange(4), self._ends[p]),
        )
        within = [m for m in self._messages[p] if start <= m[0] < self._at[p]]
        found = [FakeMessage(offset, value, key, TIME) for offset, key, value in within]
        return {place: found} if found else {}

    async def position(self, place: Any) -> int:
        return self._at[place.partition]


class FakeReader:
    admin = None

    def __init__(
        self, bounds: Mapping[int, tuple[int, int]], log: Sequence[bytes] = (), first: int = 0
    ) -> None:
        self._bounds = bounds
        self._log = log
        self._first = first

    async def partitions(self, topic: str) -> list[int]:
        assert topic != "pages"
        return [0]

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._bounds[partition] if topic == "pages" else (self._first, len(self._log))

    async def read(self, topic: str, partition: int, start: int, end: int) -> Any:
        assert (topic, partition, start) == ("streamer.bands.0", 0, 0)
        records = [FakeMessage(i, data) for i, data in enumerate(self._log[:end])]
        for first in range(0, len(records), 2):
            yield Fetched(topic, partition, first, first + 2, records[first : first + 2])


class Topics:
    """Makes topics of these messages; every one gets its answers cut in another way."""

    def __init__(self, loop: WaitingLoop) -> None:
        self._loop = loop
        self._seed = 0

    def __call__(
        self,
        messages: Mapping[int, list[Message]],
        bounds: Mapping[int, tuple[int, int]],
        log: Sequence[bytes] = (),
        first: int = 0,
    ) -> PageTopic:
        self._seed += 1
        ends = {p: end for p, (_, end) in bounds.items()}
        consumer = FakeConsumer(messages, ends, self._seed)
        reader: Any = FakeReader(bounds, log, first)
        return PageTopic(self._loop, reader, consumer, "pages", bounds)


def page(offset: int) -> Message:
    return offset, None, b'{"url":"http://a.example/%d","body":"text"}' % offset


def message_at(offsets: Sequence[int]) -> list[Message]:
    return [page(offset) for offset in offsets]
