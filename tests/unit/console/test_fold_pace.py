import pytest

from streamer.console.fold import Pace


def test_the_pace_is_the_mean_of_the_last_seconds() -> None:
    pace = Pace()
    rates = []
    for now, count in [(0, 100), (1, 110), (2, 130), (12, 230), (13, 230), (30, 230), (31, 5)]:
        pace.note(count, now)
        rates.append(pace.rate)
    assert rates == [None, 10, 15, 10, pytest.approx(100 / 11), 0, None]
