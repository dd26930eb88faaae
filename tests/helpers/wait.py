"""Waiting for what another process does."""

import time
from collections.abc import Callable

PATIENCE_S = 240  # for what comes in seconds: tests share two processors
POLL_S = 0.2


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until `true` says so, and fail if it does not in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(POLL_S)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
