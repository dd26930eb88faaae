"""The time of a log by its definition: every page keeps the time that it counts as."""

from statistics import median_low

from streamer.index import log_time


class PlainTime:
    """The time of a log; `counts` is what each page counts as so far, undated ones included."""

    def __init__(self) -> None:
        self.now = 0
        self.counts: list[int] = []
        self._dates_max, self._ahead_max = log_time.DATES, log_time.AHEAD_MAX_MS
        self._dated: list[tuple[int, int]] = []  # date and number of each page that has a date
        self._latest: list[int] = []  # date up to each page
        self._left_wrong = 0
        self._has_jumped = False

    def take(self, date: int) -> int:
        """Take the date of the next page, 0 for none; return the time."""
        page = len(self.counts)
        self.counts.append(0)
        self._latest.append(max(date, *self._latest[-1:], 0))
        if date:
            self._take(date, page)
        self.counts[page] = self.now
        return self.now

    def _take(self, date: int, page: int) -> None:
        before, limit = self.now, self.now + self._ahead_max
        if len(self._dated) >= self._dates_max:
            self._left_wrong += self._dated[-self._dates_max][0] > limit
        self._dated.append((date, page))
        self.now = max(before, date)
        if date <= limit:
            return
        self.now = before + 1
        last = self._dated[-self._dates_max :]
        median = median_low([each for each, _ in last])
        if self._is_known and median > before:
            self.now = max(self.now, min(date, median))
            while later := [x for x, _ in last if self.now < x <= self.now + self._ahead_max]:
                self.now = max(later)
            first = next(number for each, number in last if each > before)
            if before < self._ahead_max and not self._has_jumped:
                first = 0
            self._has_jumped = True
            for number in range(first, page):
                self.counts[number] = max(self.counts[number], self.now)

    @property
    def _is_known(self) -> bool:
        return 2 * len(self._dated) > self._dates_max

    def age(self, page: int) -> int:
        """Return how old a page is now."""
        return self.now - self.counts[page]

    def is_before(self, page: int, moment: int) -> bool:
        """Return whether a page is older than a moment, where what is older is forgotten."""
        return (self.counts if self._is_known else self._latest)[page] < moment

    @property
    def wrong(self) -> int:
        """Return how many dates are too late to be believed."""
        last = [date for date, _ in self._dated[-self._dates_max :]]
        ahead = sum(date > self.now + self._ahead_max for date in last)
        return self._left_wrong + (ahead if self._is_known else 0)
