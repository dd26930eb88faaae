"""What is read of the gauge's topic, and when signers pause by it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from streamer.kafka.gauge import (
    RECORDS_BEHIND_MAX,
    Answer,
    FlowControl,
    Gauge,
    last_gauges,
    pack,
    told_in,
)
from streamer.kafka.reader import Fetched
from tests.helpers.kafka_doubles import FakeMessage

GAUGE, KEY = Gauge(5, {"pages:0": 7}, ""), b"gauge.0"
GARBAGE = [b"\x00\xff random", b"", None, pack([1, 2]), pack(["a", 1, {}]), b"\x91" * 100_000]


class TopicOf:
    """A reader of a topic with these messages."""

    def __init__(self, *messages: FakeMessage) -> None:
        self._messages = messages

    async def bounds(self, *_place: object) -> tuple[int, int]:
        return 0, len(self._messages)

    async def read(self, topic: str, *_range: object) -> AsyncIterator[Fetched]:
        yield Fetched(topic, 0, 0, len(self._messages), self._messages)


@pytest.mark.parametrize("value", GARBAGE, ids=lambda value: repr(value)[:20])
async def test_what_is_no_gauge_is_passed_over_with_a_warning(value: bytes | None) -> None:
    reported = [FakeMessage(0, pack(GAUGE), KEY), FakeMessage(1, value, KEY), FakeMessage(2, value)]
    reader: Any = TopicOf(*reported)
    with capture_logs() as logs:
        assert await last_gauges(reader, "index.gauge") == [GAUGE]
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("gauge_passed_over", "warning")
    assert (line["topic"], line["offset"]) == ("index.gauge", 1)


def test_an_answer_is_no_gauge_and_a_gauge_no_answer() -> None:
    gauge = FakeMessage(0, pack(GAUGE), KEY)
    answer = FakeMessage(1, pack(Answer("ask", 0, 3)), b"answer.0")
    assert (told_in(gauge), told_in(answer)) == (GAUGE, Answer("ask", 0, 3))
    with capture_logs() as logs:
        assert told_in(replace(answer, value=b"\xff")) is None
    assert [line["event"] for line in logs] == ["gauge_passed_over"]


def test_published_pages_count_until_the_owner_has_taken_them() -> None:
    flow = FlowControl(100, 0)
    flow.note_published("pages:0", 60, 55)
    flow.note_published("pages:1", 50, 45)
    assert flow.open_pages == 100
    assert flow.paused
    flow.note_gauge(Gauge(1, {"pages:1": 50}, ""))
    assert flow.open_pages == 55
    assert not flow.paused
    flow.note_gauge(Gauge(2, {"pages:0": 59, "pages:1": 50}, ""))
    assert flow.open_pages == 55, "an interval that is taken in part"
    flow.note_gauge(Gauge(2, {"pages:0": 90, "pages:1": 50}, ""))
    assert flow.open_pages == 0
    flow.note_published("pages:0", 90, 30)
    assert flow.open_pages == 0, "they were taken before the answer came"


def test_a_signer_that_starts_behind_a_long_log_waits_for_the_owner() -> None:
    flow = FlowControl(100, RECORDS_BEHIND_MAX + 10)
    assert flow.paused
    flow.note_gauge(Gauge(9, {}, ""))
    assert flow.paused
    flow.note_gauge(Gauge(10, {}, ""))
    assert not flow.paused


def test_a_gauge_of_a_log_that_was_made_again_is_ignored() -> None:
    flow = FlowControl(100, 0, "new")
    flow.note_gauge(Gauge(9, {"pages:0": 300}, "deleted"))
    assert not flow.has_reached(1)
    assert flow.positions == {}
    flow.note_gauge(Gauge(1, {"pages:0": 5}, "new"))
    assert flow.has_reached(1)
    assert not flow.has_reached(2)
