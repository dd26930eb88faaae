"""What a worker's log says of its progress, and of what is wrong with its input: once a minute.

The numbers are those of the metrics, so that a log alone is enough where nobody collects these. A
minute in which nothing has changed has no line, but ten of them have one.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from streamer.metrics import Metrics

LOG_SECONDS = 60.0
SILENT_SECONDS_MAX = 600.0
MOSTLY = 0.5  # dead letters, as a share of what was read since the line before
RECORDS_MIN = 10  # fewer say nothing

# By metric the name of its sum here: what is logged of owners of shards, of signers, and not.
_OF_OWNERS = {
    "streamer_verdicts_total": "judged", "streamer_shard_kept_pages": "kept",
    "streamer_shard_lag_records": "log_lag_records",
}  # fmt: skip
_OF_SIGNERS = {
    "streamer_pages_signed_total": "signed", "streamer_dead_letters_total": "dead_letters",
    "streamer_skipped_records_total": "skipped", "streamer_sign_lag_records": "lag_records",
}  # fmt: skip
_OF_NEITHER = {
    "streamer_records_read_total": "read", "streamer_shard_records_applied_total": "applied",
}  # fmt: skip
_COUNTED = _OF_OWNERS | _OF_SIGNERS | _OF_NEITHER
_Counts = Mapping[str, Counter[str]]

_log = structlog.get_logger()


@dataclass
class ProgressLog:
    """Logs the progress of a worker that signs, or owns shards, or both."""

    _metrics: Metrics
    signs: bool
    owns: bool
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._before = self._look()
        self._looked_at = self._logged_at = self.clock()

    def _look(self) -> _Counts:
        """Return what is counted, each by code; under "" what has none."""
        found = {name: Counter[str]() for name in _COUNTED.values()}
        families = self._metrics.registry.collect()
        for sample in (each for family in families for each in family.samples):
            if name := _COUNTED.get(sample.name):
                found[name][sample.labels.get("code", "")] += int(sample.value)
        return found

    async def run(self) -> None:
        """Log each minute, of what is done from now on; never returns."""
        self.__post_init__()
        while True:
            await asyncio.sleep(LOG_SECONDS)
            self.log()

    def log(self) -> None:
        """Log what was done since the last look, if anything was, and warn of what looks wrong."""
        now, counts, before = self.clock(), self._look(), self._before
        if counts != before or now - self._logged_at >= SILENT_SECONDS_MAX:
            done = "judged" if self.owns else "signed"
            rate = (counts[done].total() - before[done].total()) / (now - self._looked_at)
            _log.info("worker_progress", pages_per_second=round(rate, 1), **self.figures())
            self._logged_at = now
        self._warn(counts, before)
        self._before, self._looked_at = counts, now

    def figures(self) -> dict[str, int]:
        """Return what this worker's roles have done, and what is left."""
        counts = self._look()
        owners, signers = _OF_OWNERS if self.owns else {}, _OF_SIGNERS if self.signs else {}
        return {name: counts[name].total() for name in (owners | signers).values()}

    def _warn(self, now: _Counts, before: _Counts) -> None:
        """Warn of what looks wrong in what was done since `before`."""
        new = {name: counts - before[name] for name, counts in now.items()}
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
        if (lag := now["lag_records"].total()) and before["lag_records"].total() and not read:
            why = "No record was read since the last look, and there are some. See the brokers."
            if self._metrics.registry.get_sample_value("streamer_signing_paused"):
                why = (
                    "The signers wait for a shard that has too many pages open. See that the "
                    "owners of all shards are up, and whether they keep up."
                )
            _log.warning("nothing_judged", reason=why, lag_records=lag)
        lag, lag_before = (each["log_lag_records"].total() for each in (now, before))
        if lag and lag_before and not new["applied"]:
            _log.warning(
                "nothing_judged", log_lag_records=lag,
                reason="No record of the log was applied since the last look, and there are some. "
                "See that the brokers are up and the disk is not full.",
            )  # fmt: skip
