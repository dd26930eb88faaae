"""The instruments of the throughput benchmark: whose time is whose."""

from __future__ import annotations

import pytest

from benchmarks.stage_clock import STAGES, StageClock

OUTER, INNER = STAGES[0].name, STAGES[1].name


def test_a_stage_has_its_own_time_without_that_of_inner_stages_and_with_that_of_failed_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.thread_time", lambda: now)
    clock = StageClock()

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    inner = clock.timed(INNER, lambda: work(2))

    def outer() -> None:
        work(1)
        inner()
        work(4)
        raise InterruptedError

    for _ in range(2):
        with pytest.raises(InterruptedError):
            clock.timed(OUTER, outer)()
    assert clock.seconds()[OUTER] == 10
    assert clock.seconds()[INNER] == 4


def test_the_functions_are_wrapped_within_the_block_only() -> None:
    def functions() -> list[object]:
        return [getattr(owner, name) for one in STAGES for owner, name in one.functions]

    before = functions()
    with StageClock().installed():
        within = functions()
    assert functions() == before
    assert not set(map(id, before)) & set(map(id, within))
