"""The time of a log: where the dates of its pages move it. It never goes back, and asks no clock.

A date that is at most a day after the time so far is believed: the time moves there. A later one
may be wrong, so it moves the time only as far as the median of the last DATES dates, and from there
to those of them that follow by a day at most. Before more than half as many have come, the time is
not known, and nothing expires.

So after a pause in the log the time moves late, by half of DATES. The pages until then have the
time from before the pause. Once the time has moved (a jump), they count as of the new time, and
expire with the pages after them; so do all pages before the first time that is known. Each doubted
date moves the time by a millisecond, which distinguishes these pages from those before.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from streamer.index.codec import TimeState
from streamer.index.forgetting import BEFORE
from streamer.index.messages import Forget, Term, Times

DATES = 101  # whose median may move the time
JUMPS = 101  # that are remembered
AHEAD_MAX_MS = 86_400_000  # by which a date may be later than the time so far

Refs = npt.NDArray[np.uint64]


class LogTime:
    """The time of a log, and what decides where the next date moves it.

    Attributes:
        now: no page to come has an earlier time.
        wrong: how many dates were too late to be believed, except those of `suspects`.
        last_wrong: the ref of the last such page.
    """

    def __init__(self, state: TimeState) -> None:
        self.now = state.now
        self._recent = deque(state.recent, DATES)
        self._jumps = deque(state.jumps, JUMPS)
        self.wrong, self.last_wrong = state.wrong, state.last_wrong

    def state(self) -> TimeState:
        """Return all of it."""
        return TimeState(self.now, [*self._recent], [*self._jumps], self.wrong, self.last_wrong)

    def advance(self, dates: Times, refs: Refs, age: int) -> tuple[Times, Times]:
        """Take the dates of pages, 0 where there is none.

        Return the time of each page, and the time that a row must have to answer it at this age.
        """
        times = np.maximum(np.maximum.accumulate(dates), self.now)
        steps = np.diff(times, prepend=self.now)
        if not self._ahead(0) and (steps <= AHEAD_MAX_MS).all():  # as a rule
            last = np.flatnonzero(dates)[-DATES:]
            columns = dates[last].tolist(), times[last].tolist(), refs[last].tolist()
            self._recent.extend(zip(*columns, strict=True))
            self.now = int(times[-1])
            return times, self._bound_all_by_rows(times - age)
        oldest = np.empty_like(times)
        for i, (date, ref) in enumerate(zip(dates.tolist(), refs.tolist(), strict=True)):
            if date:
                self._advance(date, ref)
            times[i], oldest[i] = self.now, self.by_rows(self.now - age)
        return times, oldest

    @property
    def _is_known(self) -> bool:
        return len(self._recent) > DATES // 2

    def _advance(self, date: int, ref: int) -> None:
        """Move the time by the date of one page."""
        recent, before = self._recent, self.now
        if len(recent) == DATES:
            leaving, _, its_ref = recent.popleft()
            if leaving > before + AHEAD_MAX_MS:
                self.wrong, self.last_wrong = self.wrong + 1, its_ref
        if date <= before + AHEAD_MAX_MS:
            self.now = max(before, date)
        else:
            self._doubt(date)
        recent.append((date, self.now, ref))

    def _doubt(self, date: int) -> None:
        """Move the time by a date that may be wrong."""
        before, recent = self.now, self._recent
        self.now += 1
        dates = sorted([date, *(each for each, _, _ in recent)])
        median = dates[(len(dates) - 1) // 2]
        if len(dates) > DATES // 2 and median > before:
            self.now = max(self.now, min(date, median))
            for each in dates:  # the others are now believed, or not, as if they came next
                if each <= self.now + AHEAD_MAX_MS:
                    self.now = max(self.now, each)
            first = next((own for each, own, _ in recent if each > before), self.now)
            is_first = not self._jumps and before < AHEAD_MAX_MS  # nothing was known until now
            self._jumps.append((0 if is_first else first, self.now))

    def _ahead(self, by: int) -> list[int]:
        """Return the refs of the last pages whose dates are later than the time by more."""
        return [ref for date, _, ref in self._recent if date > self.now + by]

    def suspects(self) -> list[int]:
        """Return the refs of the last pages whose dates are too late, but may yet be believed."""
        return self._ahead(AHEAD_MAX_MS) if self._is_known else []

    def by_rows(self, time: int) -> int:
        """Return which time all rows have at least that count as of this time, or a later one."""
        return min((first for first, to in self._jumps if first < time <= to), default=time)

    def _bound_all_by_rows(self, times: Times) -> Times:
        found = times.copy()
        for first, to in self._jumps:
            if first < times[-1] and times[0] <= to:
                found[(first < times) & (times <= to) & (first < found)] = first
        return found

    def terms_by_rows(self, forget: Forget) -> Forget:
        """Return what is to be forgotten, by the times that rows have.

        While the time is not known, a row counts as of the latest date so far.
        """
        terms: list[Term] = []
        for kind, value in forget.terms:
            if kind == BEFORE and isinstance(value, int):
                rows = self._recent if not self._is_known else ()
                first = next((own for date, own, _ in rows if date >= value), value)
                terms.append((kind, min(first, self.by_rows(value))))
            else:
                terms.append((kind, value))
        return Forget(terms, forget.ask)
