"""Tests that are coroutines; fixtures of those that read a topic without brokers."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from streamer.kafka import topic_input
from streamer.kafka.topic_input import WaitingLoop
from tests.helpers.topic_doubles import Topics


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(test := pyfuncitem.obj):
        return None
    given = pyfuncitem.funcargs
    asyncio.run(test(**{name: given[name] for name in inspect.signature(test).parameters}))
    return True


@pytest.fixture(scope="module")
def loop() -> Iterator[WaitingLoop]:
    with WaitingLoop() as turning:
        yield turning


@pytest.fixture
def topics(loop: WaitingLoop, monkeypatch: pytest.MonkeyPatch) -> Topics:
    async def topic_id(_admin: object, topic: str) -> str:
        return "topic-id" if topic == "pages" else "log-id"

    monkeypatch.setattr(topic_input, "topic_id", topic_id)
    return Topics(loop)
