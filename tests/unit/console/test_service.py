from __future__ import annotations

import time

import pytest

from streamer.console.service import SILENT_SECONDS, with_gauge
from streamer.console.state import Pace, ServiceState
from streamer.kafka.gauge import Gauge

STATE = ServiceState("streamer", "pages", "localhost:9092", as_of="2026-01-31T12:00:00Z")
GAUGE = Gauge(position=5, open_pages=7, positions={})


def test_the_pace_is_the_mean_of_the_last_seconds() -> None:
    pace = Pace()
    rates = []
    for now, count in [(0, 100), (1, 110), (2, 130), (12, 230), (13, 230), (30, 230), (31, 5)]:
        pace.note(count, now)
        rates.append(pace.rate)
    assert rates == [None, 10, 15, 10, pytest.approx(100 / 11), 0, None]


@pytest.mark.parametrize("seconds", [1.0, SILENT_SECONDS + 1])
def test_shard_0_that_is_silent_is_warned_of(seconds: float) -> None:
    found = with_gauge(STATE, GAUGE, time.time() - seconds)
    assert found.open_pages == 7
    assert (found.is_alive, bool(found.warnings)) == (seconds < SILENT_SECONDS, seconds > 1)
    assert with_gauge(STATE, None, 0.0) == STATE


def test_one_cause_is_named_and_not_what_follows_from_it() -> None:
    for state in (
        ServiceState("a", "b", "c", warnings=["Shard 0 has no owner."]),
        ServiceState("a", "b", "c", unreachable_since="2026-01-31T12:00:00Z"),
    ):
        assert with_gauge(state, GAUGE, 0.0).warnings == state.warnings
