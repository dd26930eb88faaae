"""A topic as an input: where chunks end, what is read of it, and in which order."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import OffsetOutOfRangeError, TopicAuthorizationFailedError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from streamer.errors import InputError, SettingsError, StoreMismatch, StreamerError
from streamer.index.types import (
    CONFIG,
    Decisions,
    Forget,
    IndexSettings,
    Record,
    forget_record,
    shard_name,
    source_name,
)
from streamer.kafka import topic_input, topic_replay
from streamer.kafka.reader import Fetched
from streamer.kafka.topic_input import (
    Interval,
    LogOrder,
    PageTopic,
    Range,
    WaitingLoop,
    Wanted,
    parse_wanted,
    resolve,
)
from streamer.kafka.topic_replay import OrderedInput, PartitionsInput
from streamer.kafka.wire import LogIdentity, LogPosition, pack_record
from streamer.pages.chunk import Chunk, Message
from streamer.pages.parse import PageParser
from streamer.run.catalogue import Catalogue, own_catalogue, pack_catalogue
from streamer.run.reading import Forgotten, SettingsChange, parsed
from streamer.run.replay import Interrupted
from tests.helpers.kafka_doubles import ToldMessage
from tests.helpers.signed_pages import EMPTY_SKETCH, made_pages

IDENTITY = LogIdentity("fingerprint", "topic-id")


# ---- ranges ------------------------------------------------------------------------------------


def test_options_are_read_as_partitions_ranges_and_a_moment() -> None:
    found = parse_wanted("0, 2", "0:100-2000,2:50-", "1970-01-01T00:00:01.5Z")
    assert found == Wanted(frozenset({0, 2}), {0: (100, 2000), 2: (50, None)}, 1500)
    assert parse_wanted(None, "7:-9", None) == Wanted(offsets={7: (None, 9)})
    assert parse_wanted(None, None, None) == Wanted()


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.000001", 1),
        ("1970-01-01T00:00:00.001", 1),
        ("1969-01-01", 0),
    ],
)
def test_a_moment_is_in_utc_unless_it_says_otherwise_and_is_rounded_up(
    text: str, moment_ms: int
) -> None:
    assert parse_wanted(None, None, text).until_ms == moment_ms


@pytest.mark.parametrize(
    ("partitions", "offsets", "until", "said"),
    [
        ("0,x", None, None, "as 0,2"),
        ("-1", None, None, "as 0,2"),
        (None, "0:9-5", None, "PARTITION:START-END"),
        (None, "0:100", None, "PARTITION:START-END"),
        (None, "0", None, "PARTITION:START-END"),
        (None, "0:1-2,0:5-6", None, "names partition 0 twice"),
        ("1", "0:1-2", None, "--partitions leaves it out"),
        (None, None, "yesterday", "Give one as 2026"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_an_example(
    partitions: str | None, offsets: str | None, until: str | None, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_wanted(partitions, offsets, until)


BOUNDS = {0: (10, 50), 1: (0, 7), 2: (0, 0)}


def test_what_is_not_asked_for_is_what_the_topic_has() -> None:
    everything = {p: Range(*bounds) for p, bounds in BOUNDS.items()}
    assert resolve(Wanted(), "pages", BOUNDS, {}) == everything
    assert resolve(parse_wanted("1,0", "0:20-", None), "pages", BOUNDS, {}) == {
        0: Range(20, 50, named=True),
        1: Range(0, 7),
    }
    assert list(resolve(parse_wanted("0,1,2", "1:0-3", None), "pages", BOUNDS, {})) == [0, 1, 2]


def test_offsets_take_no_other_partitions_than_they_name() -> None:
    assert resolve(parse_wanted(None, "1:0-3", None), "pages", BOUNDS, {}) == {
        1: Range(0, 3, named=True)
    }
    assert list(resolve(parse_wanted(None, "2:0-,0:20-", None), "pages", BOUNDS, {})) == [0, 2]


def test_a_moment_ends_a_range_and_never_before_its_start() -> None:
    wanted = parse_wanted("0,1", "0:30-40", "2026-01-01")
    assert resolve(wanted, "pages", BOUNDS, {0: 35, 1: 9})[0] == Range(30, 35, named=True)
    assert resolve(wanted, "pages", BOUNDS, {0: 12, 1: 9})[0] == Range(30, 30, named=True)
    assert resolve(wanted, "pages", BOUNDS, {0: 45, 1: 3}) == {
        0: Range(30, 40, named=True),
        1: Range(0, 3),
    }


@pytest.mark.parametrize(
    ("partitions", "offsets", "said"),
    [
        ("3", None, "has no partition 3"),
        (None, "5:0-", "has no partition 5"),
        (None, "0:9-", "offsets 10 to 50"),
        (None, "0:20-51", "asks for 20 to 51"),
        (None, "1:8-", "asks for 8 to 7"),
    ],
)
def test_what_the_topic_has_not_is_refused(
    partitions: str | None, offsets: str | None, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        resolve(parse_wanted(partitions, offsets, None), "pages", BOUNDS, {})


# ---- the order of a log ------------------------------------------------------------------------


def pages_record(partition: int, start: int, end: int, offsets: Sequence[int]) -> bytes:
    pages = made_pages([list(range(15))] * len(offsets), [EMPTY_SKETCH] * len(offsets))
    record = Record(source_name(partition), start, end, np.array(offsets, np.int64), pages)
    return pack_record(record, IDENTITY)


def config(mark: int, threshold: float) -> bytes:
    settings = IndexSettings(threshold=threshold)
    return pack_record(Record(CONFIG, mark, mark + 1, np.array([mark]), settings), IDENTITY)


def test_the_order_is_that_of_the_records_by_the_rule_of_intervals() -> None:
    decisions = Record(
        shard_name(1), 0, 1, np.array([0]), Decisions(np.array([5], np.uint64), np.array([True]))
    )
    log = [
        (config(0, 0.8), IndexSettings(threshold=0.8)),
        (config(0, 0.7), None),  # two workers began the log
        (pages_record(1, 0, 10, [2, 4]), Interval(1, 0, 10, [2, 4])),
        (pages_record(0, 0, 5, []), Interval(0, 0, 5, [])),
        (pages_record(1, 0, 10, [2, 4]), None),
        (pack_record(decisions, IDENTITY), None),
        (pages_record(1, 3, 15, [4, 11]), Interval(1, 10, 15, [11])),
        (pages_record(1, 16, 20, [17]), None),  # behind a hole
        (config(1, 0.9), IndexSettings(threshold=0.9)),
        (pages_record(1, 15, 20, [17]), Interval(1, 15, 20, [17])),
    ]
    order = LogOrder(IDENTITY)
    assert [order.take(data) for data, _ in log] == [expected for _, expected in log]


@pytest.mark.parametrize(
    "identity", [LogIdentity("other", "topic-id"), LogIdentity("fingerprint", "other")]
)
def test_the_order_of_another_index_is_refused(identity: LogIdentity) -> None:
    with pytest.raises(StoreMismatch):
        LogOrder(identity).take(config(0, 0.8))


# ---- a topic without brokers -------------------------------------------------------------------


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

    async def getmany(self, place: Any, timeout_ms: int) -> dict[Any, list[ToldMessage]]:
        assert timeout_ms > 0
        p = place.partition
        start, self._at[p] = (
            self._at[p],
            min(self._at[p] + self._random.randrange(4), self._ends[p]),
        )
        within = [m for m in self._messages[p] if start <= m[0] < self._at[p]]
        found = [ToldMessage(offset, value, key, TIME) for offset, key, value in within]
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
        records = [ToldMessage(i, data) for i, data in enumerate(self._log[:end])]
        for first in range(0, len(records), 2):
            yield Fetched(topic, partition, first, first + 2, records[first : first + 2])


@pytest.fixture(scope="module")
def loop() -> Iterator[WaitingLoop]:
    with WaitingLoop() as turning:
        yield turning


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
        return PageTopic(self._loop, reader, consumer, "pages", sorted(bounds))


@pytest.fixture
def topics(loop: WaitingLoop, monkeypatch: pytest.MonkeyPatch) -> Topics:
    async def topic_id(_admin: object, topic: str) -> str:
        return "topic-id" if topic == "pages" else "log-id"

    monkeypatch.setattr(topic_input, "topic_id", topic_id)
    return Topics(loop)


def page(offset: int) -> Message:
    return offset, None, b'{"url":"http://a.example/%d","body":"text"}' % offset


def message_at(offsets: Sequence[int]) -> list[Message]:
    return [page(offset) for offset in offsets]


def test_where_a_chunk_ends_depends_on_the_messages_alone(topics: Topics) -> None:
    messages = {0: message_at([3, 4, 9, 10, 11, 30, 31])}
    for _ in range(20):
        topic = topics(messages, {0: (3, 40)})
        topic.begin({0: 3})
        taken = [topic.take(0, 40, records_max=3) for _ in range(3)]
        assert [([m[0] for m in found], end) for found, _, end in taken] == [
            ([3, 4, 9], 10),
            ([10, 11, 30], 31),
            ([31], 40),
        ]


def test_a_full_chunk_with_nothing_behind_it_reaches_to_the_end(topics: Topics) -> None:
    for _ in range(20):
        topic = topics({0: message_at([0, 1])}, {0: (0, 9)})
        topic.begin({0: 0})
        assert topic.take(0, 9, records_max=2) == (message_at([0, 1]), [TIME] * 2, 9)


def test_a_chunk_is_cut_by_bytes_too(topics: Topics) -> None:
    topic = topics({0: message_at(range(10))}, {0: (0, 10)})
    topic.begin({0: 0})
    size = len(page(0)[2] or b"")
    assert topic.take(0, 10, bytes_max=2 * size) == (message_at([0, 1]), [TIME] * 2, 2)
    wanted = message_at([2, 3, 4]), [TIME] * 3, 5
    assert topic.take(0, 10, bytes_max=2 * size + 1) == wanted


def test_partitions_that_are_read_side_by_side_keep_their_places(topics: Topics) -> None:
    messages = {p: message_at(range(p, 40, 2)) for p in (0, 1)}
    topic = topics(messages, {0: (0, 40), 1: (0, 40)})
    topic.begin({0: 0, 1: 0})
    found: dict[int, list[Message]] = {0: [], 1: []}
    for p, end in [(0, 7), (1, 30), (0, 8), (0, 31), (1, 40), (0, 40)]:
        taken, times, reached = topic.take(p, end)
        assert times == [TIME] * len(taken)
        assert reached == end
        found[p] += taken
        assert [m[0] for m in found[p]] == list(range(p, end, 2))


class DecodingConsumer(FakeConsumer):
    """Answers with all batches from a position on, decoded by the client library itself."""

    def __init__(self, batches: Sequence[bytes], ends: Mapping[int, int]) -> None:
        super().__init__({}, ends, 0)
        self._batches = batches

    async def getmany(
        self, place: Any, timeout_ms: int, max_records: int | None = None
    ) -> dict[Any, list[Any]]:
        assert timeout_ms > 0
        records = MemoryRecords(b"".join(self._batches))
        start = self._at[place.partition]
        each = PartitionRecords(place, records, [], start, None, None, True, 0)
        found = list(itertools.islice(each, max_records))
        self._at[place.partition] = each.next_fetch_offset
        return {place: found} if found else {}


def packed(messages: Sequence[Message]) -> bytes:
    """Return messages as the bytes of a compressed batch."""
    builder = DefaultRecordBatchBuilder(
        2, 4, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0,
        batch_size=1 << 20,
    )  # fmt: skip
    for number, (_, key, value) in enumerate(messages):
        builder.append(number, TIME, key, value, [])
    return messages[0][0].to_bytes(8, "big") + bytes(builder.build())[8:]


def with_checksum(batch: bytes) -> bytes:
    """Return a batch with the checksum that fits its bytes: of one that was made so."""
    checksum: int = calc_crc32c(batch[21:])
    return batch[:17] + checksum.to_bytes(4, "big") + batch[21:]


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("place", [61, 65, 70, -1])
def test_a_batch_that_cannot_be_decoded_is_named_and_what_is_before_it_is_read(
    topics: Topics, place: int, *, fits: bool
) -> None:
    batches = [packed(message_at(range(first, first + 3))) for first in (0, 3, 6)]
    damaged = bytearray(batches[1])
    damaged[place] ^= 0xFF
    batches[1] = with_checksum(bytes(damaged)) if fits else bytes(damaged)
    topic = topics({}, {0: (0, 9)})
    topic._consumer = DecodingConsumer(batches, {0: 9})  # noqa: SLF001
    topic.begin({0: 0})
    assert topic.take(0, 3) == (message_at(range(3)), [TIME] * 3, 3)
    with pytest.raises(InputError, match=r"^Partition 0 of pages cannot be decoded from offset 3 "):
        topic.take(0, 9)


def test_the_brokers_refusals_are_told_with_a_remedy(loop: WaitingLoop) -> None:
    async def fail(error: Exception) -> None:
        raise error

    with pytest.raises(InputError, match="expired"):
        loop.run(fail(OffsetOutOfRangeError({})))
    with pytest.raises(StreamerError, match=r"refused: .*TopicAuthorizationFailed"):
        loop.run(fail(TopicAuthorizationFailedError("pages")))


def test_brokers_that_say_nothing_are_not_waited_for_for_ever(loop: WaitingLoop) -> None:
    cancelled = threading.Event()

    async def say_nothing() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(StreamerError, match="nothing for"):
        loop.run(say_nothing(), patience_s=0.05)
    assert cancelled.wait(30)


def test_an_interrupted_wait_ends_at_once_and_leaves_nothing_behind() -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    cancelled = threading.Event()

    async def wait_for_ever() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    before, began = signal.signal(signal.SIGUSR1, interrupt), time.monotonic()
    try:
        with pytest.raises(Interrupted), WaitingLoop() as turning:
            turning.run(wait_for_ever())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert cancelled.is_set()
    assert time.monotonic() - began < 30


# ---- steps -------------------------------------------------------------------------------------


def read(pages: PartitionsInput | OrderedInput, catalogue: Catalogue) -> list[Any]:
    """Take all steps into the catalogue; return (number, start, end, offsets) or a threshold."""
    pages.enter(catalogue)
    found: list[Any] = []
    amounts = [0]
    for step in pages.steps():
        if isinstance(step, SettingsChange):
            found.append(step.settings.threshold)
        else:
            assert isinstance(step, Chunk)
            found.append((step.source, step.start, step.end, [m[0] for m in step.messages]))
            amounts.append(step.amount)
    assert amounts == sorted(amounts)
    if isinstance(pages, PartitionsInput) and found:
        assert amounts[-1] == pages.amount_in_all
    for step in found:
        if isinstance(step, tuple):
            catalogue.entries[step[0]].position = step[2]
    return found


TWO = {0: message_at([2, 3, 5]), 1: message_at([0, 4])}
TWO_BOUNDS = {0: (2, 8), 1: (0, 5)}


def whole(topic: PageTopic) -> dict[int, Range]:
    return resolve(Wanted(), topic.name, topic.bounds, {})


def test_partitions_come_one_after_the_other_and_cover_what_expired_before_them(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_replay, "RECORDS_MAX", 2)
    topic = topics(TWO, TWO_BOUNDS)
    steps = read(PartitionsInput(topic, whole(topic)), Catalogue())
    assert steps == [(0, 0, 4, [2, 3]), (0, 4, 8, [5]), (1, 0, 5, [0, 4])]


def test_a_resumed_run_takes_what_a_quiet_one_would_from_there_on(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_replay, "RECORDS_MAX", 1)
    messages, bounds = (
        {0: message_at([1, 2, 7, 8, 9]), 1: message_at(range(4))},
        {0: (1, 12), 1: (0, 5)},
    )
    topic = topics(messages, bounds)
    quiet = read(PartitionsInput(topic, whole(topic)), Catalogue())
    assert len(quiet) == 9
    for done in range(10):
        catalogue = Catalogue()
        topic = topics(messages, bounds)
        pages = PartitionsInput(topic, whole(topic))
        pages.enter(catalogue)
        for number, _, end, _ in quiet[:done]:
            catalogue.entries[number].position = end
        topic = topics(messages, bounds)
        assert read(PartitionsInput(topic, whole(topic)), catalogue) == quiet[done:]


def test_a_named_start_passes_over_what_lies_before_it(topics: Topics) -> None:
    topic = topics(TWO, TWO_BOUNDS)
    ranges = resolve(parse_wanted("0", "0:3-5", None), "pages", topic.bounds, {})
    catalogue = Catalogue()
    assert read(PartitionsInput(topic, ranges), catalogue) == [(0, 0, 5, [3])]
    assert read(PartitionsInput(topics(TWO, TWO_BOUNDS), ranges), catalogue) == []


def test_messages_that_expired_unread_end_the_run_unless_a_start_is_named(topics: Topics) -> None:
    catalogue = Catalogue()
    topic = topics(TWO, {0: (0, 3), 1: (0, 0)})
    read(PartitionsInput(topic, whole(topic)), catalogue)
    later = topics(TWO, {0: (5, 8), 1: (0, 0)})
    with pytest.raises(StoreMismatch, match=r"expired unread\. Give --offsets 0:5-"):
        PartitionsInput(later, whole(later)).enter(catalogue)
    named = resolve(parse_wanted(None, "0:5-", None), "pages", later.bounds, {})
    assert read(PartitionsInput(later, named), catalogue) == [(0, 3, 8, [5])]


def test_a_topic_that_has_lost_messages_or_was_made_anew_is_refused(topics: Topics) -> None:
    catalogue = Catalogue()
    topic = topics(TWO, TWO_BOUNDS)
    read(PartitionsInput(topic, whole(topic)), catalogue)
    shorter = topics(TWO, {0: (2, 7), 1: (0, 5)})
    with pytest.raises(StoreMismatch, match="ends at 7, the index stands at 8"):
        PartitionsInput(shorter, whole(shorter)).enter(catalogue)
    topic.id = "another"
    with pytest.raises(StoreMismatch, match="made anew"):
        PartitionsInput(topic, whole(topic)).enter(catalogue)


LOG = [
    config(0, 0.8),
    pages_record(1, 0, 3, [0]),
    pages_record(0, 0, 4, [2, 3]),
    config(1, 0.9),
    pages_record(1, 0, 3, [0]),
    pages_record(1, 3, 5, [4]),
    pages_record(0, 4, 8, [5]),
    config(2, 0.5),
]
ORDERED = [
    0.8,
    (1, 0, 3, [0]),
    (0, 0, 4, [2, 3]),
    0.9,
    (1, 3, 5, [4]),
    (0, 4, 8, [5]),
    0.5,
]


def ordered(topic: PageTopic) -> OrderedInput:
    return OrderedInput(topic, "streamer.bands.0", "fingerprint")


def test_pages_come_in_the_order_of_the_log_under_its_settings(topics: Topics) -> None:
    for _ in range(10):
        assert read(ordered(topics(TWO, TWO_BOUNDS, LOG)), Catalogue()) == ORDERED


def test_a_resumed_run_goes_on_in_the_order_with_the_settings_of_the_place(topics: Topics) -> None:
    for done in range(len(ORDERED) + 1):
        catalogue = Catalogue()
        ordered(topics(TWO, TWO_BOUNDS, LOG)).enter(catalogue)
        in_force = []
        for step in ORDERED[:done]:
            if isinstance(step, tuple):
                catalogue.entries[step[0]].position = step[2]
            else:
                in_force = [step]
        left = ORDERED[done:]
        expected = left if left and isinstance(left[0], float) else [*in_force, *left]
        assert read(ordered(topics(TWO, TWO_BOUNDS, LOG)), catalogue) == expected


def test_an_index_keeps_to_one_order(topics: Topics) -> None:
    catalogue = Catalogue()
    topic = topics(TWO, TWO_BOUNDS, LOG)
    read(ordered(topic), catalogue)
    with pytest.raises(StoreMismatch, match="another order"):
        PartitionsInput(topic, whole(topic)).enter(catalogue)


def test_a_log_that_does_not_begin_at_its_beginning_gives_no_order(topics: Topics) -> None:
    with pytest.raises(StoreMismatch, match="first 2 records"):
        ordered(topics(TWO, TWO_BOUNDS, LOG, first=2))


def test_what_is_forgotten_comes_from_the_log_at_its_place(topics: Topics) -> None:
    gone = Record("pages:0", 3, 8, np.array([3, 5]), Forget([("url", b"a"), ("url", b"b")]))
    command = Forget([("host", b"h"), ("ask", b"id")], "id")
    question = Forget([("ask", b"id")], "id")
    records = [forget_record(command), gone, forget_record(question)]
    log = [config(0, 0.8), pages_record(0, 0, 3, [2])]
    log += [pack_record(record, IDENTITY) for record in records]
    for at, wanted in ((0, [(3, b"a"), (5, b"b")]), (5, [(5, b"b")]), (8, [])):
        catalogue = Catalogue()
        ordered(topics(TWO, TWO_BOUNDS, log)).enter(catalogue)
        catalogue.entries[0].position = at
        pages = ordered(topics(TWO, TWO_BOUNDS, log))
        pages.enter(catalogue)
        steps = list(pages.steps())
        chunks = [step for step in steps if isinstance(step, Chunk)]
        assert [each for chunk in chunks for each in chunk.tombstones] == wanted
        forgotten = [step for step in steps if isinstance(step, Forgotten)]
        assert forgotten == [Forgotten(Forget([("host", b"h")], "id"), 2)]
        if len(chunks) == 2:
            assert steps.index(chunks[0]) < steps.index(forgotten[0]) < steps.index(chunks[1])


def test_messages_without_a_value_are_tombstones_where_that_is_asked_for(topics: Topics) -> None:
    messages = [(0, b"a", None), (1, None, None), (2, b"b", b""), (3, b"x" * 9000, None)]
    for takes in (False, True):
        topic = topics({0: messages}, {0: (0, 4)})
        pages = PartitionsInput(topic, whole(topic), takes_tombstones=takes)
        pages.enter(Catalogue())
        assert [step.tombstones for step in pages.steps() if isinstance(step, Chunk)] == [
            [(0, b"a")] if takes else []
        ]


def test_a_log_of_another_key_is_refused_before_anything_is_entered(topics: Topics) -> None:
    topic, catalogue = topics(TWO, TWO_BOUNDS, LOG), Catalogue()
    with pytest.raises(StoreMismatch, match="--key-file"):
        OrderedInput(topic, "streamer.bands.0", "other").enter(catalogue)
    assert catalogue == Catalogue()


@pytest.mark.parametrize(
    ("bounds", "said"),
    [({0: (3, 8), 1: (0, 5)}, "a page at 2"), ({0: (2, 7), 1: (0, 5)}, "up to 8")],
)
def test_pages_of_the_log_that_are_there_no_longer_end_the_run(
    topics: Topics, bounds: dict[int, tuple[int, int]], said: str
) -> None:
    pages = ordered(topics(TWO, bounds, LOG))
    with pytest.raises(InputError, match=said):
        read(pages, Catalogue())


def test_other_pages_than_the_log_has_end_the_run() -> None:
    messages = [page(0), (1, None, b"{"), page(2)]
    batch = parsed(PageParser(), Chunk(0, 3, messages=messages, told_pages=[0, 2]))
    assert (batch.sequences, [letter.sequence for letter in batch.dead]) == ([0, 2], [1])
    with pytest.raises(StoreMismatch, match="--preset"):
        parsed(PageParser(), Chunk(0, 3, messages=messages, told_pages=[0]))


# ---- the catalogue -----------------------------------------------------------------------------


def test_partitions_are_located_by_topic_partition_and_offset() -> None:
    catalogue = Catalogue()
    numbers = [catalogue.enter_partition("pages", "id", p) for p in (3, 0, 3)]
    assert numbers == [0, 1, 0]
    location = catalogue.locator()((0 << 40) + 17)
    assert (location.topic, location.partition, location.offset) == ("pages", 3, 17)


def test_an_index_of_a_worker_is_not_taken_for_an_empty_one() -> None:
    assert own_catalogue(b"", "index") == Catalogue()
    own = Catalogue(outputs={"/out": 1}, order="log-id")
    assert own_catalogue(pack_catalogue(own), "index") == own
    with pytest.raises(StoreMismatch, match="worker's shard"):
        own_catalogue(msgspec.msgpack.encode(LogPosition("id", "log-id", 0)), "index")
