"""Fixtures of tests that read a topic without brokers."""

from collections.abc import Iterator

import pytest

from streamer.kafka import topic_input
from streamer.kafka.topic_input import WaitingLoop
from tests.helpers.topic_doubles import Topics


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
