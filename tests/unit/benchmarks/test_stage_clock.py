"""The instruments of the throughput benchmark: whose time is whose."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from benchmarks.stage_clock import STAGES, StageClock


class Clock:
    """A thread's processor time, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.thread_time", clock)
    return clock


def stage(number: int) -> str:
    return STAGES[number].name


def test_the_time_in_an_inner_stage_is_not_counted_for_the_outer_one(clock: Clock) -> None:
    stages = StageClock()
    inner = stages.timed(stage(1), lambda: clock.work(2))

    def work() -> None:
        clock.work(1)
        inner()
        clock.work(4)
        inner()

    stages.timed(stage(0), work)()
    assert stages.seconds()[stage(0)] == 5
    assert stages.seconds()[stage(1)] == 4


def test_a_stage_within_a_stage_within_a_stage_is_counted_once(clock: Clock) -> None:
    stages = StageClock()

    def around(number: int, inside: Callable[[], object]) -> Callable[[], object]:
        def work() -> None:
            clock.work(1)
            inside()

        return stages.timed(stage(number), work)

    around(0, around(1, around(0, lambda: clock.work(8))))()
    assert stages.seconds()[stage(0)] == 10
    assert stages.seconds()[stage(1)] == 1


def test_the_time_of_a_stage_that_fails_counts_too(clock: Clock) -> None:
    stages = StageClock()

    def fail() -> None:
        clock.work(3)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        stages.timed(stage(0), fail)()
    stages.timed(stage(0), lambda: clock.work(1))()
    assert stages.seconds()[stage(0)] == 4


def test_all_threads_count(clock: Clock) -> None:
    stages = StageClock()
    work = stages.timed(stage(2), lambda: clock.work(1))
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    work()
    assert stages.seconds()[stage(2)] == 4


def test_the_functions_are_wrapped_within_the_block_only() -> None:
    def functions() -> list[object]:
        return [getattr(owner, name) for one in STAGES for owner, name in one.functions]

    before = functions()
    with StageClock().installed():
        within = functions()
    assert functions() == before
    assert not set(map(id, before)) & set(map(id, within))


def test_the_wrapping_costs_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr("time.thread_time", lambda: float(next(ticks)))
    stages = StageClock()
    assert stages.overhead_seconds() == 0
    for _ in range(5):
        stages.timed(stage(0), lambda: None)()
    # An empty call looks at the clock twice: it costs two ticks.
    assert stages.overhead_seconds() == pytest.approx(10, rel=0.01)
