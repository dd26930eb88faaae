"""What a worker's log says of its progress, and of what is wrong with its input: once a minute.

The numbers are those of the metrics, so that a log alone is enough where nobody collects these. A
minute in which nothing has changed has no line, but ten of them have one.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client.metrics import MetricWrapperBase

from streamer.metrics import Metrics

LOG_SECONDS = 60.0
SILENT_SECONDS_MAX = 600.0
MOSTLY = 0.5  # dead letters, as a share of what was read since the line before
RECORDS_MIN = 10  # fewer say nothing
_OF_SHARDS = "judged", "kept", "log_lag_records"
_OF_SIGNERS = "signed", "dead_letters", "skipped", "lag_records"

_Counts = dict[str, Counter[str]]
_log = structlog.get_logger()


@dataclass
class ProgressLog:
    """Logs the progress of a worker that signs, or owns shards, or both, by its metrics."""

    _metrics: Metrics
    signs: bool
    owns: bool
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._before = self._read()
        self._looked_at = self._logged_at = self.clock()

    async def run(self) -> None:
        """Log each minute, of what is done from now on; never returns."""
        self.__post_init__()
        while True:
            await asyncio.sleep(LOG_SECONDS)
            self.log()

    def log(self) -> None:
        """Log what was done since the last look, if anything was, and warn of what looks wrong."""
        now, counts, before = self.clock(), self._read(), self._before
        if counts != before or now - self._logged_at >= SILENT_SECONDS_MAX:
            done = "judged" if self.owns else "signed"
            rate = (counts[done].total() - before[done].total()) / (now - self._looked_at)
            _log.info("worker_progress", pages_per_second=round(rate, 1), **self.figures())
            self._logged_at = now
        self._warn(counts, before)
        self._before, self._looked_at = counts, now

    def _read(self) -> _Counts:
        signing, shards = self._metrics.signing, self._metrics.shards
        metrics = {
            "judged": shards.verdicts,
            "kept": shards.kept_pages,
            "applied": shards.records_applied,
            "log_lag_records": shards.lag_records,
            "read": signing.records_read,
            "signed": signing.pages_signed,
            "dead_letters": signing.dead_letters,
            "skipped": signing.skipped_records,
            "lag_records": signing.lag_records,
        }
        return {name: _values(metric) for name, metric in metrics.items()}

    def figures(self) -> dict[str, int]:
        """Return what this worker's roles have done, and what is left."""
        counts = self._read()
        names = (_OF_SHARDS if self.owns else ()) + (_OF_SIGNERS if self.signs else ())
        return {name: counts[name].total() for name in names}

    def _warn(self, now: _Counts, before: _Counts) -> None:
        """Warn of what looks wrong in what was done since `before`."""
        new = {name: now[name] - before[name] for name in now}
        read, dead = new["read"].total(), new["dead_letters"]
        if read >= RECORDS_MIN and dead.total() > MOSTLY * read:
            code, count = dead.most_common(1)[0]
            _log.warning(
                "mostly_dead_letters", code=code, example=self._metrics.newest_dead.get(code, ""),
                reason=f"{dead.total():,} of {read:,} records read since the last look became dead "
                f"letters, {count:,} of them for {code}. Check --fields and --preset; "
                "docs/dead-letters.md explains the code.",
            )  # fmt: skip
        elif read >= RECORDS_MIN and not new["signed"]:
            code = new["skipped"].most_common(1)[0][0]
            _log.warning(
                "nothing_judged", code=code,
                reason=f"None of {read:,} records read since the last look was a page; most were "
                f"skipped for {code}. Check that this is the topic of pages.",
            )  # fmt: skip
        lag, log_lag = now["lag_records"].total(), now["log_lag_records"].total()
        if lag and before["lag_records"].total() and not read:
            _log.warning("nothing_judged", reason=self._why_not_read(), lag_records=lag)
        if log_lag and before["log_lag_records"].total() and not new["applied"]:
            _log.warning(
                "nothing_judged", log_lag_records=log_lag,
                reason="No record of the log was applied since the last look, and there are some. "
                "See that the brokers are up and the disk is not full.",
            )  # fmt: skip

    def _why_not_read(self) -> str:
        if _values(self._metrics.signing.paused).total():
            return (
                "The signers wait for a shard that has too many pages open. See that the owners "
                "of all shards are up, and whether they keep up."
            )
        return "No record was read since the last look, and there are some. See the brokers."


def _values(metric: MetricWrapperBase) -> Counter[str]:
    """Return the values of a metric by its last label."""
    values = Counter[str]()
    for sample in (each for family in metric.collect() for each in family.samples):
        values["".join([*sample.labels.values()][-1:])] += round(sample.value)
    return values
