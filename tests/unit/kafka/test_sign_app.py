"""The signers' rules: what is published first, what is acknowledged when, where reading begins."""

import asyncio
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaTimeoutError
from faust.types import TP
from structlog.testing import capture_logs

from streamer.config import load_settings
from streamer.errors import StoreMismatch, StreamerError
from streamer.index.messages import Forget, Pages
from streamer.kafka.dead_letters import dead_letter_message
from streamer.kafka.faust_chunks import Start
from streamer.kafka.gauge import FlowControl, Gauge
from streamer.kafka.prepare import PreparedIndex
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Fetched
from streamer.kafka.role_metrics import SignMetrics
from streamer.kafka.sign_app import MISSING_AFTER_PAGES, SignApp
from streamer.kafka.signing import ChunkSigner
from streamer.kafka.tasks import begin_task
from streamer.kafka.topics import Names, dead_letter_bytes_max
from streamer.kafka.wire import LogIdentity, unpack_record
from streamer.metrics import Metrics
from streamer.pages.chunk import RejectedRecord
from streamer.pages.parse import PageParser
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from tests.helpers import kafka_doubles
from tests.helpers.kafka_doubles import FakeConsumer, FakeMessage, settle, until

NAMES = Names("index", "pages")
IDENTITY = LogIdentity("fingerprint", "origin")
PLACE = TP("pages", 1)
NOISE = os.urandom(5_000_000)


def page(number: int) -> bytes:
    return json.dumps({"url": f"http://a.example/{number}", "body": f"words {number}"}).encode()


def chunk(start: int, end: int, *messages: FakeMessage) -> Fetched:
    return Fetched("pages", 1, start, end, list(messages))


def pages_from(start: int, count: int) -> Fetched:
    return chunk(start, start + count, *(FakeMessage(start + n, page(n)) for n in range(count)))


def native_signer() -> NativeSigner:
    return NativeSigner(SignatureSettings(), bytes(32))


class Signing:
    """Signers with a stand-in for the brokers."""

    def __init__(
        self, *, accept_loss: bool = False, window: int = 1000, carry: tuple[str, ...] = (),
        lanes: int = 1,
    ) -> None:  # fmt: skip
        self.publisher = kafka_doubles.FakePublisher()
        self.consumer = FakeConsumer()
        self.failures: list[BaseException] = []
        self.flow = FlowControl(window, 0)
        signer = ChunkSigner(PageParser(carry=carry), native_signer, IDENTITY)
        publisher: Any = self.publisher
        prepared = PreparedIndex(IDENTITY, (), 2, 2, 1 << 20)
        settings = load_settings(accept_loss=accept_loss, threads=1)
        self.app: Any = SignApp(
            replace(NAMES, per_partition=lanes > 1), signer, publisher, [self.flow] * lanes,
            self.failures.append, {"broker": "kafka://nowhere"}, SignMetrics(Metrics()),
            prepared, settings, self._log_ends,
        )  # fmt: skip
        faust: Any = SimpleNamespace(chunks=self.consumer, rebalancing=False, should_stop=False)
        self.app.app = faust

    async def _log_ends(self, logs: Iterable[str]) -> dict[str, int]:
        return await self.consumer.log_ends(logs)

    async def starts(self, committed: int) -> Start:
        """Say where the partition begins of which so much is committed."""
        found: dict[TP, Start] = await self.app._starts({PLACE: committed})  # noqa: SLF001 - Faust calls it
        return found[PLACE]

    async def run(self, *chunks: Fetched, seconds: float = 0.3) -> None:
        """Feed chunks; return when all of them are acknowledged, at a failure, or after a while."""
        wanted = len(self.consumer.acknowledged) + len(chunks)
        work = [self.app.sign(kafka_doubles.Events(chunks))]
        for lane in self.app._lanes:  # noqa: SLF001 - what start() begins
            work += self.app._take(lane), self.app._publish(lane)  # noqa: SLF001 - as above
        tasks = [begin_task(each, self.failures.append) for each in work]
        for _ in range(round(seconds / 0.05)):
            await settle()
            if self.failures or len(self.consumer.acknowledged) == wanted:
                break
        for task in tasks:
            task.cancel()


@pytest.fixture
def signing() -> Signing:
    return Signing()


async def test_a_chunk_is_acknowledged_when_its_record_has_arrived(signing: Signing) -> None:
    signing.publisher.held = asyncio.Event()
    one = chunk(5, 7, FakeMessage(5, page(1)), FakeMessage(6, page(2)))
    feeding = asyncio.create_task(signing.run(one, seconds=20))
    await until(lambda: signing.publisher.asked)
    assert signing.consumer.acknowledged == []
    signing.publisher.held.set()
    await feeding
    assert signing.consumer.acknowledged == [one]
    assert signing.failures == []
    assert signing.flow.open_pages == 2


async def test_a_failed_publish_ends_the_process_and_acknowledges_nothing(signing: Signing) -> None:
    signing.publisher.failing = StreamerError("no broker")
    await signing.run(chunk(0, 1, FakeMessage(0, page(1))), seconds=20)
    assert [str(failure) for failure in signing.failures] == ["no broker"]
    assert signing.consumer.acknowledged == []


async def test_dead_letters_arrive_before_the_record_that_covers_them(signing: Signing) -> None:
    bad = FakeMessage(1, b"{broken", b"key", partition=1)
    await signing.run(chunk(0, 3, FakeMessage(0, page(1)), bad), seconds=20)
    (letter_topic, letter_partition, letter), (log, _, record) = signing.publisher.arrived
    assert (letter_topic, letter_partition, log) == ("pages-dlt", 1, "index.bands.0")
    key, value, headers, _ = letter
    assert (key, value) == (b"key", b"{broken")
    named = dict(headers)
    assert named["__connect.errors.topic"] == b"pages"
    assert named["__connect.errors.partition"] == b"1"
    assert named["__connect.errors.offset"] == b"1"
    assert named["streamer.code"] == b"invalid_json"
    assert named["streamer.index"] == b"index"
    covering = unpack_record(record[1] or b"", IDENTITY)
    assert (covering.start, covering.end, covering.numbers.tolist()) == (0, 3, [0])


async def test_a_chunk_without_pages_is_published_as_an_empty_interval(signing: Signing) -> None:
    await signing.run(chunk(4, 9, FakeMessage(6, None), FakeMessage(8, b"")), seconds=20)
    ((_, _, message),) = signing.publisher.arrived
    record = unpack_record(message[1] or b"", IDENTITY)
    assert (record.source, record.start, record.end) == ("pages:1", 4, 9)
    assert isinstance(record.items, Pages)
    assert len(record.items) == 0


@pytest.mark.parametrize("takes", [False, True])
def test_tombstones_are_records_of_their_own_at_their_places(*, takes: bool) -> None:
    signer = ChunkSigner(PageParser(), native_signer, IDENTITY, takes_tombstones=takes)
    values = {3: None, 4: None, 6: page(6), 7: None, 8: page(8), 9: page(9), 12: None}
    messages = [FakeMessage(offset, value, b"%d" % offset) for offset, value in values.items()]
    signed = signer.sign(chunk(2, 14, *messages))
    records = [unpack_record(data, IDENTITY) for data in signed.records]
    apart = [
        (2, 6, [3, 4], True), (6, 7, [6], False), (7, 8, [7], True), (8, 12, [8, 9], False),
        (12, 14, [12], True),
    ]  # fmt: skip
    assert [
        (each.start, each.end, each.numbers.tolist(), isinstance(each.items, Forget))
        for each in records
    ] == (apart if takes else [(2, 14, [6, 8, 9], False)])
    assert records[0].items == Forget([("url", b"3"), ("url", b"4")]) or not takes
    assert (signed.pages, signed.skipped) == (3, {"deletion": 4})


async def test_records_are_published_in_the_order_of_the_chunks(signing: Signing) -> None:
    chunks = [
        chunk(10 * n, 10 * n + 10, *(FakeMessage(10 * n + i, page(i)) for i in range(10)))
        for n in range(20)
    ]
    await signing.run(*chunks, seconds=20)
    records = [unpack_record(m[1] or b"", IDENTITY) for _, _, m in signing.publisher.arrived]
    assert [record.start for record in records] == [10 * n for n in range(20)]
    assert signing.consumer.acknowledged == chunks


async def test_a_carried_field_that_no_page_has_is_warned_of_once_after_enough_pages() -> None:
    signing = Signing(carry=("url", "body", "scroe"), window=10_000)
    with capture_logs() as logs:
        await signing.run(pages_from(0, MISSING_AFTER_PAGES - 1), seconds=20)
        assert logs == []
        for start in (MISSING_AFTER_PAGES - 1, MISSING_AFTER_PAGES):
            await signing.run(pages_from(start, 1), seconds=20)
    assert [(line["event"], line["fields"], line["pages"]) for line in logs] == [
        ("carried_fields_missing", ["scroe"], MISSING_AFTER_PAGES)
    ]
    assert signing.failures == []


async def test_nothing_is_signed_while_too_much_is_open_but_a_rebalance_is_not_held_up() -> None:
    signing = Signing(window=10)
    signing.flow.note_published("pages:0", 10, 10)
    one = chunk(0, 1, FakeMessage(0, page(1)))
    await signing.run(one)
    assert signing.publisher.asked == []
    signing.flow.note_gauge(Gauge(1, {"pages:0": 10}, ""))
    await signing.run(one, seconds=20)
    assert signing.consumer.acknowledged == [one]
    signing.flow.note_published("pages:0", 20, 10)
    signing.app.app.rebalancing = True
    await signing.run(one, seconds=20)
    assert len(signing.consumer.acknowledged) == 2


@pytest.mark.parametrize(
    ("committed", "mark", "first", "start"),
    [
        (0, 0, 0, Start(0, 0)),
        (7, 3, 0, Start(7, 7, 7)),
        (0, 3, 0, Start(3, 3, 3)),  # its offsets are lost: shard 0 knows how far it is
        (0, 0, 5, Start(5, 0, 0)),  # expired before anything was read: covered from 0 on
        (20, 0, 5, Start(20, 20, 20)),
    ],
)
async def test_reading_begins_at_what_is_committed_or_known_or_at_the_beginning(
    signing: Signing, committed: int, mark: int, first: int, start: Start
) -> None:
    signing.consumer.first, signing.consumer.end = first, 20
    signing.flow.note_gauge(Gauge(0, {"pages:1": mark}, ""))
    assert await signing.starts(committed) == start
    assert signing.failures == []


async def test_a_position_that_is_not_in_the_topic_ends_the_process(signing: Signing) -> None:
    signing.consumer.first, signing.consumer.end = 10, 20
    signing.flow.note_gauge(Gauge(0, {"pages:1": 21}, ""))
    await signing.starts(21)
    await signing.starts(9)
    assert [type(failure) for failure in signing.failures] == [StoreMismatch] * 2
    assert "ends at 20, but 21 was reached" in str(signing.failures[0])
    assert "1 messages have expired unread" in str(signing.failures[1])
    signing.app._settings = load_settings(accept_loss=True)  # noqa: SLF001 - as the operator says
    assert await signing.starts(9) == Start(10, 9, 9)
    assert len(signing.failures) == 2


@pytest.mark.parametrize(
    ("page_bytes", "key", "value", "kept"),
    [
        (4 << 20, None, b"v" * 4_000_000, (None, 4_000_000)),  # as it is
        (4 << 20, b"k", b"v" * 40_000_000, (1, 40_000_000)),  # compressed
        (4 << 20, b"k" * 3_000_000, b"v" * 3_000_000, (3_000_000, 3_000_000)),
        (4 << 20, b"k", b"v" * 70_000_000, (1, 65_536)),  # too large for whoever reads it
        (4 << 20, None, NOISE, (None, 65_536)),  # compressed it is no smaller
        (4 << 20, NOISE, b"{broken", (65_536, 7)),
        (4 << 20, NOISE[:3_000_000], NOISE[:3_000_000], (65_536, 65_536)),
        (1000, NOISE, NOISE, (22_178, 22_178)),  # a third of what the topic takes
    ],
)
def test_a_dead_letter_holds_the_original_or_how_it_begins(
    page_bytes: int, key: bytes | None, value: bytes, kept: tuple[int | None, int]
) -> None:
    detail = "detail " * 10_000
    rejected = RejectedRecord(7, "record_too_large", detail, key, value[:10], len(value))
    bytes_max = dead_letter_bytes_max(page_bytes)
    message = dead_letter_message(rejected, FakeMessage(7, value, key), NAMES, bytes_max)
    assert message[0] == (None if key is None else key[: kept[0]])
    assert message[1] == value[: kept[1]]
    named = dict(message[2])
    cut = (message[0], message[1]) != (key, value)
    reported = (b"%d" % len(key or b""), b"%d" % len(value)) if cut else (None, None)
    assert (named.get("streamer.key_bytes"), named.get("streamer.value_bytes")) == reported
    assert named["__connect.errors.offset"] == b"7"

    async def pack() -> list[Any]:
        publisher = Publisher({"bootstrap_servers": "nowhere:1"})
        packed = publisher.batches([message], bytes_max)
        await publisher.stop()
        return packed

    (batch,) = asyncio.run(pack())
    assert len(batch._build()) <= bytes_max  # noqa: SLF001 - as the client does


@pytest.mark.parametrize(("sent", "reported"), [(b"2", b"2"), (b"many", None), (b"1" * 19, None)])
def test_a_dead_letter_counts_how_often_it_was_resent(sent: bytes, reported: bytes | None) -> None:
    rejected = RejectedRecord(7, "invalid_json", "", None, b"{", 1)
    original = FakeMessage(7, b"{", headers=(("streamer.retries", sent), ("other", b"1")))
    headers = dict(dead_letter_message(rejected, original, NAMES, 1 << 20)[2])
    assert headers.get("streamer.retries") == reported
    assert headers["other"] == b"1"


def test_a_dead_letter_has_the_headers_of_its_original_as_far_as_there_is_room() -> None:
    given = [("url", b"u" * 20_000), ("large", b"x" * 20_000), ("null", None), ("etag", b"1")]
    original = FakeMessage(7, b"{", headers=tuple(given))  # type: ignore[arg-type]  # as brokers send
    rejected = RejectedRecord(7, "invalid_json", "", None, b"{", 1)
    headers = dead_letter_message(rejected, original, NAMES, 1 << 20)[2]
    assert [each for each in headers if "." not in each[0]] == [given[0], given[3]]


async def test_a_too_large_record_is_cut(signing: Signing, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [FakeMessage(10 + 2 * n, page(n), b"k%d" % n) for n in range(9)]
    one = chunk(5, 40, *pages, FakeMessage(39, b"{broken"))
    await signing.run(one, seconds=20)
    ((_, _, whole),) = signing.publisher.arrived[1:]
    limit = len(whole[1] or b"") // 3
    monkeypatch.setattr("streamer.kafka.signing.RECORD_BYTES_MAX", limit)
    again = Signing()
    await again.run(one, seconds=20)
    sent = [message[1] or b"" for _, _, message in again.publisher.arrived[1:]]
    assert max(map(len, sent)) <= limit
    records = [unpack_record(data, IDENTITY) for data in sent]
    bounds = [(record.start, record.end) for record in records]
    assert (bounds[0][0], bounds[-1][1]) == (5, 40)
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    found: list[tuple[int, bytes | None]] = []
    for record in records:
        assert isinstance(record.items, Pages)
        assert all(record.start <= number < record.end for number in record.numbers)
        found += zip(record.numbers.tolist(), record.items.message_keys, strict=True)
    assert found == [(each.offset, each.key) for each in pages]
    assert again.consumer.acknowledged == [one]


async def test_a_page_with_a_huge_key_is_judged_as_one_without(signing: Signing) -> None:
    messages = [FakeMessage(n, page(n), b"k" * (65_536 + n)) for n in range(2)]
    await signing.run(chunk(0, 2, *messages), seconds=20)
    ((_, _, message),) = signing.publisher.arrived
    record = unpack_record(message[1] or b"", IDENTITY)
    assert isinstance(record.items, Pages)
    assert record.items.message_keys == [b"k" * 65_536, None]


LOG = TP("index.bands.0", 0)


class Beginning(Signing):
    """Signers of a partition of 20 messages, of which so many are committed.

    They begin where they say, and again after a seek, as the consumer does in one.
    """

    def __init__(self, committed: int, log_end: int, first: int = 0) -> None:
        super().__init__()
        self.committed, self.began = committed, Start(0, 0)
        self.consumer = FakeConsumer(first, 20, {LOG: log_end})
        self.app.app.chunks, seeking = self.consumer, cast("Any", self.consumer)
        seeking.perform_seek = self.seek

    async def seek(self) -> None:
        self.began = await self.starts(self.committed)

    def tell(self, position: int, *reached: int) -> None:
        """Have shard 0 say where in its log it stands, and up to where it has the partition."""
        positions = dict.fromkeys(["pages:1"], *reached) if reached else {}
        self.flow.note_gauge(Gauge(position, positions, ""))


async def test_a_committed_offset_that_the_log_does_not_have_begins_where_shard_0_stands() -> None:
    signing = Beginning(committed=7, log_end=5)
    await signing.seek()
    assert signing.consumer.held, "nothing is known of shard 0"
    signing.tell(4, 3)
    await settle()
    assert signing.consumer.held, "the log may have more"
    signing.tell(5, 3)
    await until(lambda: not signing.consumer.held)
    assert signing.began == Start(3, 3, 3)
    assert signing.failures == []


async def test_a_committed_offset_that_the_log_has_stays() -> None:
    signing = Beginning(committed=7, log_end=5)
    signing.tell(4, 3)
    await signing.seek()
    signing.tell(6, 7)
    await until(lambda: not signing.consumer.held)
    assert signing.began == Start(7, 7, 7)


async def test_an_assignment_ends_the_comparison_of_the_one_before() -> None:
    signing = Beginning(committed=7, log_end=5)
    await signing.seek()
    assert signing.consumer.held
    assert await signing.app._starts({}) == {}  # noqa: SLF001 - Faust calls it
    assert not signing.consumer.held
    signing.tell(5, 3)
    await settle()
    assert signing.began == Start(7, 7, 7), "no seek"


async def test_pages_that_the_log_has_lost_and_the_topic_too_are_refused() -> None:
    signing = Beginning(committed=7, log_end=1, first=5)
    signing.tell(1)
    await signing.seek()
    await until(lambda: signing.failures)
    (failure,) = signing.failures
    assert isinstance(failure, StoreMismatch)
    assert "begins at 5, but 0 was reached only" in str(failure)
    assert "--accept-loss" in str(failure)


async def test_brokers_are_asked_once_for_all_partitions() -> None:
    """Each answer comes behind that to a fetch: one by one, 16 partitions took a minute."""
    signing, asked = Signing(lanes=16), list[tuple[TP, ...]]()
    answer = signing.consumer.highwaters

    async def highwaters(*places: TP) -> dict[TP, int]:
        asked.append(places)
        return await answer(*places)

    signing.consumer.highwaters = highwaters  # type: ignore[method-assign]
    starts = await signing.app._starts({TP(NAMES.pages, n): n for n in range(16)})  # noqa: SLF001 - what Faust asks
    assert len(starts) == 16
    assert [len(places) for places in asked] == [16, 16], "partitions of pages, and logs"


def test_a_silent_shard_that_holds_up_pages_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    signing = Signing(window=5)
    with capture_logs() as logs:
        for seconds, pages in ((-1, 1), (-1, 9), (-1, 0), (-1, 9), (60, 9), (-1, 9)):
            monkeypatch.setattr("streamer.kafka.sign_app.SILENT_SECONDS", seconds)
            signing.flow.note_gauge(Gauge(1, {"pages:0": 100}, ""))
            signing.flow.note_published("pages:0", 101, pages)
            signing.app._warn_of_silence(set())  # noqa: SLF001 - else the test waits for a minute
            signing.app._warn_of_silence({0})  # noqa: SLF001 - as above
    assert [(each["event"], each["shard"]) for each in logs] == [("shard_silent", 0)] * 2


async def test_a_partition_just_added_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch of topics names it; until then the brokers are asked again."""
    monkeypatch.setattr("streamer.kafka.sign_app.WATCH_SECONDS", 0.0)
    signing = Signing(lanes=2)
    signing.app.joined, signing.consumer.assigned = True, {TP(NAMES.pages, 2)}
    with pytest.raises(KafkaTimeoutError):
        await signing.app._starts({TP(NAMES.pages, 2): 0})  # noqa: SLF001 - what Faust asks
    watching = begin_task(signing.app._watch(), signing.failures.append)  # noqa: SLF001 - what start() begins
    await settle()
    watching.cancel()
    assert not [each for each in signing.failures if isinstance(each, IndexError)]
