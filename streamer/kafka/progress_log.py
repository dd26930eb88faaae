"""What a worker's log says of its progress, and of what is wrong with its input: once a minute.

The numbers are those of the metrics, so that a log alone is enough where nobody collects these. A
minute in which nothing has changed has no line, but ten of them have one.
"""

import asyncio
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import structlog

from streamer.metrics import WorkerCounts

LOG_SECONDS = 60.0
SILENT_SECONDS_MAX = 600.0
MOSTLY = 0.5  # dead letters, as a share of what was read since the line before
RECORDS_MIN = 10  # fewer say nothing

_log = structlog.get_logger()


@dataclass
class ProgressLog:
    """Logs the progress of a worker that signs, or owns shards, or both."""

    _counts: WorkerCounts
    signs: bool
    owns: bool
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._before = deepcopy(self._counts)
        self._looked_at = self._logged_at = self.clock()

    async def run(self) -> None:
        """Log each minute, of what is done from now on; never returns."""
        self.__post_init__()
        while True:
            await asyncio.sleep(LOG_SECONDS)
            self.log()

    def log(self) -> None:
        """Log what was done since the last look, if anything was, and warn of what looks wrong."""
        now, counts, before = self.clock(), deepcopy(self._counts), self._before
        if counts != before or now - self._logged_at >= SILENT_SECONDS_MAX:
            done = counts.signed - before.signed
            if self.owns:
                done = counts.judged.total() - before.judged.total()
            rate = done / (now - self._looked_at)
            _log.info("worker_progress", pages_per_second=round(rate, 1), **self.figures())
            self._logged_at = now
        self._warn(counts, before)
        self._before, self._looked_at = counts, now

    def figures(self) -> dict[str, int]:
        """Return what this worker's roles have done, and what is left."""
        counts, figures = self._counts, dict[str, int]()
        if self.owns:
            figures |= {"judged": counts.judged.total(), "kept": counts.kept.total()}
            figures |= {"log_lag_records": counts.log_lag.total()}
        if self.signs:
            figures |= {"signed": counts.signed, "dead_letters": counts.dead.total()}
            figures |= {"skipped": counts.skipped.total(), "lag_records": counts.lag.total()}
        return figures

    def _warn(self, now: WorkerCounts, before: WorkerCounts) -> None:
        """Warn of what looks wrong in what was done since `before`."""
        read, dead = now.read - before.read, now.dead - before.dead
        if read >= RECORDS_MIN and dead.total() > MOSTLY * read:
            code, count = dead.most_common(1)[0]
            _log.warning(
                "mostly_dead_letters", code=code, example=now.newest_dead.get(code, ""),
                reason=f"{dead.total():,} of {read:,} records read since the last look became dead "
                f"letters, {count:,} of them for {code}. Check --fields and --preset; "
                "docs/dead-letters.md explains the code.",
            )  # fmt: skip
        elif read >= RECORDS_MIN and now.signed == before.signed:
            code = (now.skipped - before.skipped).most_common(1)[0][0]
            _log.warning(
                "nothing_judged", code=code,
                reason=f"None of {read:,} records read since the last look was a page; most were "
                f"skipped for {code}. Check that this is the topic of pages.",
            )  # fmt: skip
        if (lag := now.lag.total()) and before.lag.total() and now.read == before.read:
            _log.warning("nothing_judged", reason=self._why_not_read(), lag_records=lag)
        is_behind = now.log_lag.total() and before.log_lag.total()
        if is_behind and now.applied == before.applied:
            _log.warning(
                "nothing_judged", log_lag_records=now.log_lag.total(),
                reason="No record of the log was applied since the last look, and there are some. "
                "See that the brokers are up and the disk is not full.",
            )  # fmt: skip

    def _why_not_read(self) -> str:
        if self._counts.is_paused:
            return (
                "The signers wait for a shard that has too many pages open. See that the owners "
                "of all shards are up, and whether they keep up."
            )
        return "No record was read since the last look, and there are some. See the brokers."
