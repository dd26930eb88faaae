"""The time of a log is that of its definition, however it is cut, and after restarts."""

from random import Random
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index import log_time
from streamer.index.codec import TimeState
from streamer.index.forgetting import BEFORE
from streamer.index.log_time import LogTime
from streamer.index.messages import Forget
from tests.helpers.dates import AHEAD, dates_of, few_dates
from tests.oracles.log_time import PlainTime

seeds, widths = st.integers(0, 2**32), st.sampled_from([3, 5, 9, 101])


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(1, 250), widths, st.sampled_from([AHEAD, 10]))
def test_times_are_those_of_the_definition(seed: int, count: int, width: int, ahead: int) -> None:
    random = Random(seed)
    dates, age = dates_of(random, count, ahead), random.choice([0, 100, 4_000, 15_000, 500_000])
    with few_dates(width, ahead), patch.object(log_time, "JUMPS", count):
        own, plain, times, at = LogTime(TimeState()), PlainTime(), list[int](), 0
        while at < count:
            part = dates[at : at + random.choice([1, 2, 30, 120])]
            refs = np.arange(at, at + len(part)).astype(np.uint64)
            found, oldest = (each.tolist() for each in own.advance(np.array(part), refs, age))
            for date, time, least in zip(part, found, oldest, strict=True):
                times.append(time)
                assert plain.take(date) == time
                answers = [each >= least for each in times]
                assert answers == [plain.age(page) <= age for page in range(len(times))]
            at += len(part)
            own = LogTime(own.state()) if random.random() < 0.3 else own
            assert own.wrong + len(own.suspects()) == plain.wrong
            moment = random.choice([*dates, *plain.counts]) + random.choice([0, 1])
            [(_, value)] = own.terms_by_rows(Forget([(BEFORE, moment)])).terms
            named = [plain.is_before(page, moment) for page in range(at)]
            assert [each < int(value) for each in times] == named
