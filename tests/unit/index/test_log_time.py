"""What dates are doubted, counted and remembered; property/test_log_time.py has the rest."""

import numpy as np
import pytest

from streamer.index.codec import TimeState
from streamer.index.log_time import AHEAD_MAX_MS, DATES, JUMPS, LogTime

DAY = AHEAD_MAX_MS
NOW, WRONG = 20_000 * DAY, 400_000 * DAY
HALF = DATES // 2


def taken(log: LogTime, dates: list[int], age: int = DAY) -> tuple[list[int], list[int]]:
    times, oldest = log.advance(np.array(dates), np.arange(len(dates)).astype(np.uint64), age)
    return times.tolist(), oldest.tolist()


def settled() -> LogTime:
    """Return a log whose last pages have one date."""
    return LogTime(TimeState(NOW, [(NOW, NOW, 0)] * DATES))


@pytest.mark.parametrize("pause", [DAY + HALF + 1, 5_000 * DAY])
def test_after_a_pause_the_time_moves_with_the_51st_page(pause: int) -> None:
    log = settled()
    times, oldest = taken(log, [NOW + pause] * HALF)
    assert times == [NOW + 1 + n for n in range(HALF)]
    assert oldest == [time - DAY for time in times]
    assert len(log.suspects()) == HALF
    assert taken(log, [NOW + pause]) == ([NOW + pause], [NOW + 1])  # those before it answer, too
    assert [log.by_rows(NOW + pause + n) for n in (0, 1)] == [NOW + 1, NOW + pause + 1]
    assert taken(log, [NOW + pause + DAY])[1] == [NOW + 1]
    assert taken(log, [NOW + pause + DAY + 1])[1] == [NOW + pause + 1]


def test_one_wrong_date_in_a_hundred_moves_nothing_and_each_is_counted_once() -> None:
    log = settled()
    for _ in range(20):
        taken(log, [WRONG, *[NOW] * 99])
    assert NOW < log.now < NOW + 100
    assert (log.wrong, len(log.suspects()), log.last_wrong) == (19, 1, 0)
    taken(log, [NOW] * DATES)
    assert (log.wrong, log.suspects()) == (20, [])
    taken(log, [log.now + DAY + 1, *[NOW] * DATES])
    assert log.wrong == 20, "it is a day ahead in the end"


def test_of_many_jumps_the_last_are_remembered() -> None:
    log = settled()
    for number in range(JUMPS + 5):
        taken(log, [NOW + (2 + 2 * number) * DAY] * (HALF + 1))
    assert len(log.state().jumps) == JUMPS
