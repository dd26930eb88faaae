"""Where the dates of pages move the time of a log; tests/property/test_log_time.py has the rest."""

import numpy as np
import pytest

from streamer.index.codec import TimeState
from streamer.index.forgetting import BEFORE
from streamer.index.log_time import AHEAD_MAX_MS, DATES, JUMPS, LogTime
from streamer.index.messages import Forget

DAY = AHEAD_MAX_MS
NOW, WRONG = 20_000 * DAY, 400_000 * DAY
HALF = DATES // 2


def taken(log: LogTime, dates: list[int], age: int = DAY) -> tuple[list[int], list[int]]:
    times, oldest = log.advance(np.array(dates), np.arange(len(dates)).astype(np.uint64), age)
    return times.tolist(), oldest.tolist()


def settled() -> LogTime:
    """Return a log whose last pages have one date."""
    return LogTime(TimeState(NOW, [(NOW, NOW, 0)] * DATES))


def test_dates_a_day_apart_are_believed_and_the_time_never_goes_back() -> None:
    times, oldest = taken(settled(), [NOW + DAY, NOW, 0, NOW + 2 * DAY])
    assert times == [NOW + DAY, NOW + DAY, NOW + DAY, NOW + 2 * DAY]
    assert oldest == [NOW, NOW, NOW, NOW + DAY]


def test_a_date_more_than_a_day_ahead_moves_the_time_by_a_millisecond() -> None:
    log = settled()
    assert taken(log, [NOW + DAY + 1, NOW])[0] == [NOW + 1, NOW + 1]
    assert log.suspects() == [], "by now it would be believed"
    assert taken(settled(), [WRONG, NOW + DAY + 1])[0] == [NOW + 1, NOW + DAY + 1]


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


@pytest.mark.parametrize("first", [1, NOW - 5_000 * DAY, WRONG])
def test_the_first_date_may_be_wrong(first: int) -> None:
    log = LogTime(TimeState())
    times, _ = taken(log, [first, *[NOW] * (HALF - 1)])
    assert max(times) <= HALF
    assert (log.suspects(), log.now) == ([], times[-1]), "nothing is known yet"
    times, oldest = taken(log, [NOW, NOW])
    assert times == [NOW, NOW]
    assert oldest == [0, 0], "the pages before answer, too"
    assert len(log.suspects()) == (first == WRONG)


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


def before(log: LogTime, moment: int) -> int:
    [(kind, value)] = log.terms_by_rows(Forget([(BEFORE, moment)])).terms
    assert kind == BEFORE
    assert isinstance(value, int)
    return value


def test_what_is_older_than_a_moment_is_known_by_the_times_of_rows() -> None:
    log = LogTime(TimeState())
    times, _ = taken(log, [NOW + n for n in range(HALF)])
    assert [before(log, NOW + n) for n in range(HALF)] == times, "of each page that came before"
    assert before(log, NOW + HALF) == NOW + HALF
    taken(log, [NOW + HALF] * 2)
    assert before(log, NOW) == 0, "all that came before count as of the first time"
    assert before(log, NOW + HALF + 1) == NOW + HALF + 1
