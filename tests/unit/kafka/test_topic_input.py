"""A topic as an input: options, the order of a log, where chunks end, and brokers that refuse."""

import asyncio
import itertools
import threading
from typing import Any

import numpy as np
import pytest
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import OffsetOutOfRangeError, TopicAuthorizationFailedError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from streamer.errors import InputError, SettingsError, StreamerError
from streamer.index.messages import FORGET, Forget, IndexSettings, Record
from streamer.kafka import topic_input
from streamer.kafka.topic_input import Interval, Range, WaitingLoop, Wanted, parse_wanted, resolve
from streamer.kafka.wire import pack_record
from tests.helpers import topic_doubles
from tests.helpers.topic_doubles import IDENTITY, TIME, Topics, config, message_at, pages_record

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
def test_a_moment_is_in_utc_unless_it_says_so_and_rounded_up(text: str, moment_ms: int) -> None:
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
def test_what_it_lacks_is_refused(partitions: str | None, offsets: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        resolve(parse_wanted(partitions, offsets, None), "pages", BOUNDS, {})


# ---- the order of a log ------------------------------------------------------------------------


def test_the_order_is_that_of_the_records_by_the_rule_of_intervals() -> None:
    forget = Record(FORGET, 0, 0, np.array([0]), Forget([("url", b"a")], "ask"))
    log = [
        (config(0, 0.8), IndexSettings(threshold=0.8)),
        (config(0, 0.7), None),  # two workers began the log
        (pages_record(1, 0, 10, [2, 4]), Interval(1, 0, 10, [2, 4])),
        (pages_record(0, 0, 5, []), Interval(0, 0, 5, [])),
        (pages_record(1, 0, 10, [2, 4]), None),
        (pack_record(forget, IDENTITY), forget.items),
        (pages_record(1, 3, 15, [4, 11]), Interval(1, 10, 15, [11])),
        (pages_record(1, 16, 20, [17]), None),  # behind a hole
        (config(1, 0.9), IndexSettings(threshold=0.9)),
        (pages_record(1, 15, 20, [17]), Interval(1, 15, 20, [17])),
    ]
    order = topic_input.LogOrder(IDENTITY)
    assert [order.read_record(data) for data, _ in log] == [expected for _, expected in log]


# ---- a topic without brokers -------------------------------------------------------------------


def test_where_a_chunk_ends_depends_on_the_messages_alone(topics: Topics) -> None:
    messages = {0: message_at([3, 4, 9, 10, 11, 30, 31])}
    for _ in range(20):
        topic = topics(messages, {0: (3, 40)})
        topic.begin({0: 3})
        taken = [topic.read(0, 40, records_max=3) for _ in range(3)]
        assert [([m[0] for m in found], end) for found, _, _, end in taken] == [
            ([3, 4, 9], 10),
            ([10, 11, 30], 31),
            ([31], 40),
        ]
        topic = topics({0: message_at([0, 1])}, {0: (0, 9)})
        topic.begin({0: 0})  # a full chunk with nothing behind it reaches to the end
        assert topic.read(0, 9, records_max=2) == (message_at([0, 1]), [TIME] * 2, [()] * 2, 9)


def test_a_chunk_is_cut_by_bytes_too(topics: Topics) -> None:
    topic = topics({0: message_at(range(10))}, {0: (0, 10)})
    topic.begin({0: 0})
    size = len(topic_doubles.page(0)[2] or b"")
    assert topic.read(0, 10, bytes_max=2 * size) == (message_at([0, 1]), [TIME] * 2, [()] * 2, 2)
    wanted = message_at([2, 3, 4]), [TIME] * 3, [()] * 3, 5
    assert topic.read(0, 10, bytes_max=2 * size + 1) == wanted


class DecodingConsumer(topic_doubles.FakeConsumer):
    """Answers with all batches from a position on, decoded by the client library itself."""

    batches = b""

    async def getmany(
        self, place: Any, timeout_ms: int, max_records: int | None = None
    ) -> dict[Any, list[Any]]:
        assert timeout_ms > 0
        records, start = MemoryRecords(self.batches), self._at[place.partition]
        each = PartitionRecords(place, records, [], start, None, None, True, 0)
        found = list(itertools.islice(each, max_records))
        self._at[place.partition] = each.next_fetch_offset
        return {place: found} if found else {}


@pytest.mark.parametrize("at", [61, 70, -1])
def test_damage_is_named_and_what_is_before_it_is_read(topics: Topics, at: int) -> None:
    consumer = DecodingConsumer({}, {0: 9}, 0)
    for first in (0, 3, 6):
        builder = DefaultRecordBatchBuilder(2, 4, 0, -1, -1, -1, 1 << 20)
        for number, (_, key, value) in enumerate(message_at(range(first, first + 3))):
            builder.append(number, TIME, key, value, [])
        batch = bytearray(first.to_bytes(8, "big") + bytes(builder.build())[8:])
        batch[at] ^= 0xFF if first == 3 else 0
        consumer.batches += bytes(batch)
    topic = topics({}, {0: (0, 9)})
    topic._consumer = consumer  # noqa: SLF001 - which decodes
    topic.begin({0: 0})
    assert topic.read(0, 3) == (message_at(range(3)), [TIME] * 3, [()] * 3, 3)
    with pytest.raises(InputError, match=r"^Partition 0 of pages cannot be decoded from offset 3 "):
        topic.read(0, 9)


def test_the_brokers_refusals_are_told_with_a_remedy(loop: WaitingLoop) -> None:
    async def fail(error: Exception) -> None:
        raise error

    with pytest.raises(InputError, match="expired"):
        loop.run(fail(OffsetOutOfRangeError({})))
    with pytest.raises(StreamerError, match=r"refused: .*TopicAuthorizationFailed"):
        loop.run(fail(TopicAuthorizationFailedError("pages")))


def test_brokers_that_say_nothing_are_not_waited_for_for_ever(
    loop: WaitingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_input, "PATIENCE_SECONDS", 0.05)
    cancelled = threading.Event()

    async def say_nothing() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(StreamerError, match="nothing for"):
        loop.run(say_nothing())
    assert cancelled.wait(30)
    monkeypatch.undo()
