"""Dates of pages as logs have them: with pauses, wrong ones, and pages without any."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from streamer.index import log_time

AHEAD = 5_000


@contextmanager
def few_dates(width: int, ahead: int = AHEAD) -> Iterator[None]:
    """Have the median of so many dates count, and dates believed that are so much ahead."""
    with patch.object(log_time, "DATES", width), patch.object(log_time, "AHEAD_MAX_MS", ahead):
        yield


def dates_of(random: Random, count: int, ahead: int = AHEAD) -> list[int]:
    """Return dates with pauses, early and late ones, undated pages, and dates at the limit."""
    now, dates = random.choice([0, ahead // 5, ahead, 1_000_000]), list[int]()
    for _ in range(count):
        pause = random.choice([ahead, ahead + 1, 90_000])
        now += random.choice([0, 1, ahead // 2, *[ahead // 10] * 7, pause])
        wrong = random.choice([1, now // 2, now + ahead, now + ahead + 1, 100_000_000])
        dates.append(random.choices([now, 0, wrong], [12, 1, 3])[0])
    return dates
