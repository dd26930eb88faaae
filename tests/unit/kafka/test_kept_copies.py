"""Sessions of the copying of kept pages, over a member that is told what happens to it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from prometheus_client import CollectorRegistry

from streamer.errors import StreamerError
from streamer.kafka import kept_copies
from streamer.kafka.kept_copies import KeptThread
from streamer.kafka.kept_topic import KeptTopic
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names
from streamer.metrics import CopyMetrics
from streamer.testing.broker import free_port

SECONDS = 20.0


def kept_topic(*, skips_expired: bool = False) -> KeptTopic:
    names = Names("streamer", "pages")
    return KeptTopic("unique", names, 1, 1 << 20, ("verdicts", "log"), None, skips_expired)


class ToldMember:
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

    async def copy_round(self, stopping: asyncio.Event) -> None:
        if self._when == "copy" and self._error:
            raise self._error
        self.copying.set()
        await stopping.wait()


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> type[ToldMember]:
    monkeypatch.setattr(kept_copies, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(kept_copies, "_Member", ToldMember)
    ToldMember.copying = threading.Event()
    return ToldMember


def copied(member: type[ToldMember], *errors: tuple[str, Exception | None]) -> list[BaseException]:
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


def test_an_outage_over_several_restarts_of_the_copying_is_waited_for(
    member: type[ToldMember],
) -> None:
    lost = ("copy", KafkaConnectionError("lost"))
    assert copied(member, lost, ("unreachable", None), ("unreachable", None), lost) == []
    assert member.errors == [], "each session was begun"


@pytest.mark.parametrize("when", ["connect", "join", "copy"])
def test_what_the_brokers_refuse_ends_the_worker(member: type[ToldMember], when: str) -> None:
    (failure,) = copied(member, (when, TopicAuthorizationFailedError("unique")))
    assert isinstance(failure, StreamerError)
    assert "Cannot copy kept pages to unique: " in str(failure)
    assert "Check the rights of this user" in str(failure)


def test_an_error_without_a_refusal_of_the_brokers_ends_the_worker(
    member: type[ToldMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> None:
        raise StreamerError("Damaged.")

    monkeypatch.setattr(member, "connect", refuse)
    (failure,) = copied(member)
    assert str(failure) == "Damaged."
