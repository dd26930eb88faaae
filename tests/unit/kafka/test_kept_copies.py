"""Sessions of the copying of kept pages, and verdicts that expire during one; shown by doubles."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from prometheus_client import CollectorRegistry

from streamer.errors import StoreMismatch, StreamerError
from streamer.kafka import kept_copies
from streamer.kafka.kept_copies import KeptThread
from streamer.kafka.kept_topic import KeptTopic
from streamer.kafka.owner import SEQUENCE
from streamer.kafka.page_fetcher import PageFetcher
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from streamer.metrics import CopyMetrics
from streamer.model import Decision, Location
from tests.helpers.kafka_doubles import FakeMessage
from tests.helpers.ports import free_port

SECONDS = 20.0


def kept_topic(*, skips_expired: bool = False) -> KeptTopic:
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

    thread = KeptThread({}, kept_topic(), CopyMetrics(CollectorRegistry()), fail)
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
    topic, fetcher = kept_topic(skips_expired=skips_expired), PageFetcher(None, "pages")
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
