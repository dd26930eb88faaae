"""Metrics of signers and shards: counts by the chunk, states by the flush.

One object for the signers of a process, one for each shard; they know the columns of verdicts and
the attributes of a shard, so that streamer/metrics.py need not. What is called for each chunk costs
microseconds. Files are counted and their sizes asked for after flushes only.

A shard's own totals are part of its state and go back with it after a kill. Counters must not: they
take what was added since the process began.

Once a minute, a worker's log says the numbers of its progress, and what is wrong with its input, so
that a log alone is enough where nobody collects the metrics. A minute in which nothing has changed
has no line, but ten of them have one.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import structlog
from prometheus_client.metrics import MetricWrapperBase

from streamer.errors import StreamerError
from streamer.index.messages import Verdicts
from streamer.index.rule import BASIS_NAMES
from streamer.index.shard import Shard
from streamer.index.url_versions import count_changes
from streamer.metrics import UPKEEP, Metrics, Stage
from streamer.model import Decision
from streamer.stored.lookup import StoredLookup
from streamer.upkeep.snapshots import Report, Taken

LOG_SECONDS = 60.0
SILENT_SECONDS_MAX = 600.0
MOSTLY = 0.5  # dead letters, as a share of what was read since the line before
RECORDS_MIN = 10  # fewer say nothing
_OF_SHARDS = "judged", "kept", "log_lag_records"
_OF_SIGNERS = "signed", "dead_letters", "skipped", "lag_records"

_Counts = dict[str, Counter[str]]
_log = structlog.get_logger()
_OUTCOMES = [(verdict, basis) for basis in BASIS_NAMES for verdict in Decision]  # unique first


class SignMetrics:
    """What the signers of this process show; `clock` returns seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics, self.newest_dead = metrics.signing, metrics.newest_dead
        self._stages = metrics.stage_seconds
        self._clock = clock
        self._paused_since: float | None = None

    def stage(self, stage: Stage) -> AbstractContextManager[object]:
        """Return a context that counts its seconds as those of `stage`."""
        return self._stages.labels("", stage).time()

    def count_chunk(
        self, pages: int, dead: Counter[str], skipped: Counter[str], alone: int = 0
    ) -> None:
        """Count what became of a chunk's records, once it is published: `dead`, `skipped` by code.

        So many pages are `alone`: they share no key with others.
        """
        metrics = self._metrics
        metrics.records_read.inc(pages + dead.total() + skipped.total())
        metrics.pages_signed.inc(pages)
        metrics.pages_alone.inc(alone)
        for code, count in dead.items():
            metrics.dead_letters.labels(code).inc(count)
        for code, count in skipped.items():
            metrics.skipped_records.labels(code).inc(count)

    def observe_lag(self, partition: int, records: int) -> None:
        """Set how many records of a partition are not signed, published and committed."""
        self._metrics.lag_records.labels(partition).set(records)

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the lags of partitions that another process reads from now on."""
        for partition in partitions:
            self._metrics.lag_records.remove(partition)

    def observe_gauge(self, pages: int, *, paused: bool) -> None:
        """Set the gauge as last heard, and whether signers wait; often enough for its seconds."""
        now = self._clock()
        if self._paused_since is not None:
            self._metrics.paused_seconds.inc(now - self._paused_since)
        self._paused_since = now if paused else None
        self._metrics.gauge_pages.set(pages)
        self._metrics.paused.set(paused)


class ShardMetrics:
    """What one shard of this process shows; `head_pages` are kept pages that make a flush due."""

    def __init__(self, metrics: Metrics, shard: Shard, number: int, head_pages: int) -> None:
        self._metrics = metrics.shards
        self._stages = metrics.stage_seconds
        self._shard, self._head_pages = shard, head_pages
        self._flushed_rows = self._kept = 0
        self._name = str(number)
        self._verdicts = [self._metrics.verdicts.labels(self._name, *each) for each in _OUTCOMES]
        self._counters = [
            counter.labels(self._name)
            for counter in (
                self._metrics.records_applied,
                self._metrics.records_skipped,
                self._metrics.postings_refused,
                self._metrics.wrong_dates,
            )
        ]
        failures = self._metrics.upkeep_failures
        self._failures = {work: failures.labels(self._name, work) for work in UPKEEP}
        self._totals = self._own_totals()
        self._observing = threading.Lock()  # the shard is shown after chunks, and after flushes

    def _own_totals(self) -> tuple[int, int, int, int]:
        shard = self._shard
        return shard.applied, shard.skipped_records, shard.refused, shard.time.wrong

    def stage(self, stage: Stage) -> AbstractContextManager[object]:
        """Return a context that counts its seconds as those of `stage`."""
        return self._stages.labels(self._name, stage).time()

    def count_failure(self, work: str) -> None:
        """Count a freeze, merge or sweep that failed; from any thread."""
        self._failures[work].inc()

    def count_verdicts(self, block: Verdicts) -> None:
        """Count verdicts, once they are published."""
        outcomes = 2 * block.basis.astype(np.int64) + (block.similarities >= 0)
        counts = np.bincount(outcomes, minlength=len(_OUTCOMES)).tolist()
        for counter, count in zip(self._verdicts, counts, strict=True):
            counter.inc(count)
        for change, count in count_changes(block.changes):
            self._metrics.changes.labels(self._name, change).inc(count)

    def count_latency(
        self, timestamps_ms: npt.NDArray[np.int64], pages: npt.NDArray[np.int64], now_ms: int
    ) -> None:
        """Count how old pages[i] pages with timestamps_ms[i] were when their verdicts were out.

        A timestamp below 0 is none; one later than now is by another host's clock, and counts as 0.
        """
        known = timestamps_ms >= 0
        seconds = np.maximum(now_ms - timestamps_ms[known], 0) / 1000
        self._metrics.latency.observe(seconds, pages[known])

    def observe_state(self) -> None:
        """Show the shard as it is, in any thread: once a chunk, and after each flush."""
        shard, metrics, name = self._shard, self._metrics, self._name
        with self._observing:
            totals = self._own_totals()
            for counter, total, before in zip(self._counters, totals, self._totals, strict=True):
                counter.inc(total - before)
            self._totals = totals
            # What is being flushed is counted neither in the memtable nor, yet, in the store.
            self._kept = max(self._kept, self._flushed_rows + shard.unflushed_rows)
        metrics.holes.labels(name).set(len(shard.missing))
        metrics.head_entries.labels(name).set(shard.memtable.count)
        metrics.head_fill.labels(name).set(shard.unflushed_rows / self._head_pages)
        metrics.kept_pages.labels(name).set(self._kept)

    def observe_log(self, position: int, end: int, committed: int | None) -> None:
        """Set the offsets of the log: next to apply, end, committed (None: nothing is, so far)."""
        metrics, name = self._metrics, self._name
        metrics.log_position.labels(name).set(position)
        metrics.lag_records.labels(name).set(end - position)
        if committed is not None:
            metrics.log_committed.labels(name).set(committed)

    def observe_store(
        self, rows: int, index_bytes: int, lookup: StoredLookup, flushed_offset: int, free: int
    ) -> None:
        """Show what is on disk: when an index was opened, and after each flush.

        It has the log up to `flushed_offset`, and so many bytes are `free`.
        """
        metrics, name = self._metrics, self._name
        self._flushed_rows = rows
        metrics.key_table_postings.labels(name).set(lookup.table.count)
        metrics.frozen_postings.labels(name).set(lookup.frozen.note.count)
        metrics.key_table_bytes.labels(name).set(lookup.memory_bytes)
        metrics.index_bytes.labels(name).set(index_bytes)
        metrics.flushed_offset.labels(name).set(flushed_offset)
        metrics.disk_free_bytes.labels(name).set(free)
        self.observe_state()


def snapshot_report(metrics: Metrics, shard: int, folder: str) -> Report:
    """Return what shows, and logs, what becomes of the snapshots of a shard."""
    failures = metrics.shards.snapshot_failures.labels(str(shard))
    timestamp = metrics.shards.snapshot_timestamp.labels(str(shard))

    def report(outcome: Taken | StreamerError) -> None:
        if isinstance(outcome, StreamerError):
            failures.inc()
            _log.error("snapshot_failed", shard=shard, reason=str(outcome))
            return
        made = outcome.snapshot
        failures.set(0)
        timestamp.set(made.made.timestamp())
        _log.info(
            "snapshot_taken", shard=shard, number=made.number, pages=made.pages,
            bytes=made.size, copied_bytes=outcome.size, folder=folder,
        )  # fmt: skip

    return report


# ---- the log of a worker's progress --------------------------------------------------------------


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
