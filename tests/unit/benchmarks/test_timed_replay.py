"""The spans of a timed replay, and their rates."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.timed_replay import Span, Stopwatch
from tests.helpers.benchmark_results import RUN
from tests.unit.benchmarks.test_stage_clock import Clock


def test_a_last_part_that_is_short_has_no_rate() -> None:
    spans = [Span(100, 1.0), Span(100, 2.0)]
    short = Span(10, 5.0)
    run = msgspec.structs.replace(RUN, spans=[*spans, short])
    assert run.rates == [100, 50]


def test_a_span_ends_with_the_report_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    stopwatch = Stopwatch(100)
    with stopwatch.watch([]) as report:
        for seconds, records in ((1, 60), (1, 130), (2, 200), (4, 230), (1, 250)):
            clock.work(seconds)
            report(0, records)
    assert stopwatch.spans() == [Span(130, 2), Span(100, 6), Span(20, 1)]
