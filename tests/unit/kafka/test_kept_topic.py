"""Copies of kept pages: which topics may have them, how they are made, how far they have come."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from prometheus_client import CollectorRegistry

from streamer.errors import SettingsError, StoreMismatch, StreamerError
from streamer.kafka import kept_copies
from streamer.kafka.dead_letters import INDEX
from streamer.kafka.kept_copies import KeptThread
from streamer.kafka.kept_topic import (
    CopyProgress,
    KeptTopic,
    check_kept_topic,
    decode_progress,
    has_copies,
)
from streamer.kafka.owner import SEQUENCE
from streamer.kafka.page_fetcher import PageFetcher
from streamer.kafka.reader import Fetched, open_reader
from streamer.kafka.topics import Names, dead_letter_bytes_max, kept_topic
from streamer.metrics import CopyMetrics
from streamer.model import Decision, Location
from tests.helpers.kafka_doubles import FakeMessage
from tests.helpers.ports import free_port

NAMES = Names("streamer", "pages")


OURS = ["pages", "pages-dlt", "streamer.verdicts", "streamer.gauge", "streamer.bands.11"]


@pytest.mark.parametrize("name", [*OURS, "", ".", "a b", "x" * 201])
def test_a_topic_of_the_index_and_a_name_that_kafka_does_not_take_are_refused(name: str) -> None:
    said = "this index reads or writes" if name in OURS else "--kept-topic cannot be"
    with pytest.raises(SettingsError, match=said):
        check_kept_topic(NAMES, name)


def test_copies_keep_their_time_and_have_room_for_headers() -> None:
    check_kept_topic(NAMES, "unique")
    topic = kept_topic("unique", 3, dead_letter_bytes_max(1000), 2)
    assert (topic.partitions, topic.replicas) == (3, 2)
    assert topic.config["max.message.bytes"] == str(1000 + (64 << 10))
    assert topic.config["message.timestamp.type"] == "CreateTime"
    assert "cleanup.policy" not in topic.config, "it may be compacted"


def take(progress: CopyProgress, number: bytes | None) -> bool | None:
    return progress.advance([("other", b"0:0"), (SEQUENCE, number)])


def test_a_repeated_verdict_is_no_new_one_at_any_shard() -> None:
    progress = CopyProgress("verdicts", "log")
    numbers = [b"0:3", b"0:5", b"1:0", b"0:3", b"0:5", b"1:0", b"0:6", b"1:9", b"1:8"]
    assert [take(progress, each) for each in numbers] == [
        True, True, True, False, False, False, True, True, False,
    ]  # fmt: skip
    assert progress.following == {0: 7, 1: 10}


@pytest.mark.parametrize("number", [None, b"", b"x:1", b"1:", b"1", b"-1:2"])
def test_a_message_without_a_number_is_no_verdict(number: bytes | None) -> None:
    progress = CopyProgress("verdicts", "log")
    assert take(progress, number) is None
    assert progress.advance([]) is None
    assert progress.following == {}


def test_progress_is_committed_as_a_short_text() -> None:
    progress = CopyProgress("v" * 32, "l" * 32, dict.fromkeys(range(48), 1 << 40))
    text = progress.encode()
    assert decode_progress(text) == progress
    assert len(text) < 4096, "brokers take no more: offset.metadata.max.bytes"


@pytest.mark.parametrize("text", [None, "", "copied by hand", "{}", "[1]"])
def test_what_another_program_committed_says_nothing(text: str | None) -> None:
    assert decode_progress(text) is None


class CopiesReader:
    """A topic with the copies of indexes by partition and offset; notes which ranges are read."""

    def __init__(
        self, bounds: Sequence[tuple[int, int]], copies: Mapping[tuple[int, int], str]
    ) -> None:
        self._bounds = bounds
        self._copies = copies
        self.ranges: list[tuple[int, int, int]] = []

    async def partitions(self, _topic: str) -> list[int]:
        return list(range(len(self._bounds)))

    async def bounds(self, _topic: str, partition: int) -> tuple[int, int]:
        return self._bounds[partition]

    async def read(
        self, topic: str, partition: int, start: int, end: int
    ) -> AsyncIterator[Fetched]:
        self.ranges.append((partition, start, end))
        records = [
            FakeMessage(offset, b"page", headers=((INDEX, b"of the page"), (INDEX, index.encode())))
            for (where, offset), index in self._copies.items()
            if where == partition and start <= offset < end
        ]
        yield Fetched(topic, partition, start, end, records)


def looked(reader: Any) -> bool:
    return asyncio.run(has_copies(reader, "unique", "ours"))


@pytest.mark.parametrize("offset", [20, 700, 899, 900, 999])
def test_a_copy_is_found_behind_what_hides_it(offset: int) -> None:
    """Aborted transactions leave offsets without messages, and other indexes their copies."""
    others = {(1, each): "other" for each in range(20, 1000, 3)}
    assert looked(CopiesReader([(0, 0), (20, 1000)], {**others, (1, offset): "ours"}))


def test_a_search_for_copies_goes_back_in_growing_steps_and_ends_at_the_start() -> None:
    reader = CopiesReader([(0, 0), (20, 1000), (5, 6)], {(1, 990): "other"})
    assert not looked(reader)
    assert reader.ranges == [
        (1, 900, 1000), (1, 700, 900), (1, 300, 700), (1, 20, 300), (2, 5, 6),
    ]  # fmt: skip


SECONDS = 20.0


def unique_topic(*, skips_expired: bool = False) -> KeptTopic:
    names = Names("streamer", "pages")
    return KeptTopic("unique", names, 1, 1 << 20, ("verdicts", "log"), None, skips_expired)


class FakeMember:
    """Meets the next of `errors` in each session, as it connects or later; copies in the last."""

    errors: ClassVar[list[tuple[str, Exception | None]]]
    copying: ClassVar[threading.Event]

    def __init__(self, *_: object) -> None:
        self._when, self._error = self.errors.pop(0) if self.errors else ("", None)

    async def connect(self, stack: AsyncExitStack) -> None:
        if self._when == "unreachable":  # by the true client
            options = {"bootstrap_servers": f"localhost:{free_port()}"}
            await stack.enter_async_context(open_reader(options))
        if self._when == "connect" and self._error:
            raise StreamerError("The brokers refused.") from self._error

    async def join(self, _: AsyncExitStack) -> None:
        if self._when == "join" and self._error:
            raise self._error

    async def copy_round(self, stopping: threading.Event) -> None:
        if self._when == "copy" and self._error:
            raise self._error
        self.copying.set()
        await asyncio.to_thread(stopping.wait)


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> type[FakeMember]:
    monkeypatch.setattr(kept_copies, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(kept_copies, "_Member", FakeMember)
    FakeMember.copying = threading.Event()
    return FakeMember


def copied(member: type[FakeMember], *errors: tuple[str, Exception | None]) -> list[BaseException]:
    """Return what ended the worker, in sessions that meet `errors`."""
    member.errors = list(errors)
    failures: list[BaseException] = []

    def fail(error: BaseException) -> None:
        failures.append(error)
        member.copying.set()

    thread = KeptThread({}, unique_topic(), CopyMetrics(CollectorRegistry()), fail)
    assert member.copying.wait(SECONDS)
    asyncio.run(thread.leave())
    return failures


def test_an_outage_over_several_restarts_of_copying_passes(member: type[FakeMember]) -> None:
    lost = ("copy", KafkaConnectionError("lost"))
    assert copied(member, lost, ("unreachable", None), ("unreachable", None), lost) == []
    assert member.errors == [], "each session was begun"


@pytest.mark.parametrize("when", ["connect", "join", "copy"])
def test_what_the_brokers_refuse_ends_the_worker(member: type[FakeMember], when: str) -> None:
    (failure,) = copied(member, (when, TopicAuthorizationFailedError("unique")))
    assert isinstance(failure, StreamerError)
    assert "Cannot copy kept pages to unique: " in str(failure)
    assert "Check the rights of this user" in str(failure)


def test_an_error_without_a_refusal_of_the_brokers_ends_the_worker(
    member: type[FakeMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> None:
        raise StreamerError("Damaged.")

    monkeypatch.setattr(member, "connect", refuse)
    (failure,) = copied(member)
    assert str(failure) == "Damaged."


class FakeProducer:
    """Notes the offsets of its transactions."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield

    async def send_offsets_to_transaction(
        self, offsets: dict[TopicPartition, Any], _group: str
    ) -> None:
        self.offsets += [each.offset for each in offsets.values()]


class FakeBounds:
    """Verdicts from offset `start` on; counts how often it is asked for them."""

    def __init__(self, start: int) -> None:
        self._start = start
        self.asked = 0

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        assert (topic, partition) == ("streamer.verdicts", 0)
        self.asked += 1
        return self._start, 1000


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    reported = FakeProducer()
    monkeypatch.setattr(kept_copies, "AIOKafkaProducer", lambda **_: reported)
    return reported


def verdict(offset: int) -> FakeMessage:
    page = Location("pages", 0, offset)
    value = msgspec.json.encode({"page": page, "verdict": Decision.DUPLICATE})
    return FakeMessage(offset, value, headers=((SEQUENCE, b"0:%d" % offset),))


def copy(reader: Any, *rounds: Sequence[int], skips_expired: bool = False) -> None:
    """Copy what the verdicts at these offsets name, all duplicates, from offset 10 on."""
    topic, fetcher = unique_topic(skips_expired=skips_expired), PageFetcher(None, "pages")
    copier = kept_copies._Copier({}, topic, 0, fetcher, CopyMetrics(CollectorRegistry()))  # noqa: SLF001 - what a member calls
    copier.begin((10, ""), (0, 1000))

    async def copy_all() -> None:
        for offsets in rounds:
            await copier.copy([verdict(each) for each in offsets], reader)

    asyncio.run(copy_all())


def test_verdicts_that_follow_each_other_cost_no_question(producer: FakeProducer) -> None:
    verdicts = FakeBounds(0)
    copy(verdicts, range(10, 15), [15], range(16, 20))
    assert producer.offsets == [15, 16, 20]
    assert verdicts.asked == 0


@pytest.mark.parametrize("start", [0, 15])
def test_offsets_without_a_message_have_not_expired(producer: FakeProducer, start: int) -> None:
    """Transactions end with a marker, which has an offset and is no message."""
    verdicts = FakeBounds(start)
    copy(verdicts, range(10, 15), range(16, 20))
    assert producer.offsets == [15, 20]
    assert verdicts.asked == 1


def test_verdicts_that_expire_during_a_session_stop_the_worker(producer: FakeProducer) -> None:
    lost = "streamer.verdicts has lost verdicts .* partition 0, offsets 15 to 39"
    with pytest.raises(StoreMismatch, match=lost):
        copy(FakeBounds(40), range(10, 15), range(40, 45), range(45, 50))
    assert producer.offsets == [15]


@pytest.mark.parametrize("start", [40, 42])
def test_verdicts_that_may_be_skipped_are_told(producer: FakeProducer, start: int) -> None:
    """Those in hand are copied, also if they have expired since."""
    with structlog.testing.capture_logs() as logs:
        copy(FakeBounds(start), range(10, 15), range(40, 45), [45], skips_expired=True)
    (reported,) = (each for each in logs if each["event"] == "kept_verdicts_expired")
    assert (reported["topic"], reported["start"], reported["end"]) == ("streamer.verdicts", 15, 40)
    assert producer.offsets == [15, 45, 46]
