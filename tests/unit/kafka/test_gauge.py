"""What is read of the gauge's topic, whatever stands in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from streamer.kafka.gauge import ANSWER, Answer, Gauge, answer_in, gauge_in, last_gauge, pack
from streamer.kafka.reader import Fetched
from tests.helpers.kafka_doubles import ToldMessage, in_loop

GAUGE = Gauge(5, 2, {"pages:0": 7})
GARBAGE = [b"\x00\xff random", b"", None, pack([1, 2]), pack(["a", 1, {}]), b"\x91" * 100_000]


class TopicOf:
    """A reader of a topic with these messages."""

    def __init__(self, *messages: ToldMessage) -> None:
        self._messages = messages

    async def bounds(self, *_place: object) -> tuple[int, int]:
        return 0, len(self._messages)

    async def read(self, topic: str, *_range: object) -> AsyncIterator[Fetched]:
        yield Fetched(topic, 0, 0, len(self._messages), self._messages)


@pytest.mark.parametrize("value", GARBAGE, ids=lambda value: repr(value)[:20])
@in_loop
async def test_a_message_that_is_no_gauge_is_passed_over_with_a_warning(
    value: bytes | None,
) -> None:
    told = [ToldMessage(0, pack(GAUGE)), ToldMessage(1, value)]
    reader: Any = TopicOf(*told)
    with capture_logs() as logs:
        assert await last_gauge(reader, "index.gauge") == GAUGE
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("gauge_passed_over", "warning")
    assert (line["topic"], line["offset"]) == ("index.gauge", 1)


def test_an_answer_is_no_gauge_and_a_gauge_no_answer() -> None:
    gauge = ToldMessage(0, pack(GAUGE))
    answer = ToldMessage(1, pack(Answer("ask", 0, 3)), ANSWER)
    assert (gauge_in(gauge), answer_in(gauge)) == (GAUGE, None)
    assert (gauge_in(answer), answer_in(answer)) == (None, Answer("ask", 0, 3))
    with capture_logs() as logs:
        assert answer_in(replace(answer, value=b"\xff")) is None
    assert [line["event"] for line in logs] == ["gauge_passed_over"]
