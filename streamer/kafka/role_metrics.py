"""Metrics of signers and shards: counts by the chunk, states by the flush.

One object for the signers of a process, one for each shard; they know the columns of verdicts and
the attributes of a shard, so that streamer/metrics.py need not. What is called for each chunk costs
microseconds. Files are counted and their sizes asked for after flushes only.

A shard's own totals are part of its state and go back with it after a kill. Counters must not: they
take what was added since the process began.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt
import structlog

from streamer.errors import StreamerError
from streamer.index.messages import Verdicts
from streamer.index.rule import BASIS_NAMES
from streamer.index.shard import Shard
from streamer.index.url_versions import count_changes
from streamer.metrics import UPKEEP, Metrics, Stage
from streamer.model import Decision
from streamer.stored.lookup import StoredLookup
from streamer.upkeep.snapshots import Report, Taken

_log = structlog.get_logger()
_OUTCOMES = [(verdict, basis) for basis in BASIS_NAMES for verdict in Decision]  # unique first


class SignMetrics:
    """What the signers of this process show; `clock` returns seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics, self.counts = metrics.signing, metrics.counts
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
        metrics, read = self._metrics, pages + dead.total() + skipped.total()
        self.counts.read += read
        self.counts.signed += pages
        self.counts.dead += dead
        self.counts.skipped += skipped
        metrics.records_read.inc(read)
        metrics.pages_signed.inc(pages)
        metrics.pages_alone.inc(alone)
        for code, count in dead.items():
            metrics.dead_letters.labels(code).inc(count)
        for code, count in skipped.items():
            metrics.skipped_records.labels(code).inc(count)

    def observe_lag(self, partition: int, records: int) -> None:
        """Set how many records of a partition are not signed, published and committed."""
        self._metrics.lag_records.labels(partition).set(records)
        self.counts.lag[partition] = records

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the lags of partitions that another process reads from now on."""
        for partition in partitions:
            self._metrics.lag_records.remove(partition)
            self.counts.lag.pop(partition, None)

    def observe_gauge(self, pages: int, *, paused: bool) -> None:
        """Set the gauge as last heard, and whether signers wait; often enough for its seconds."""
        now = self._clock()
        if self._paused_since is not None:
            self._metrics.paused_seconds.inc(now - self._paused_since)
        self._paused_since = now if paused else None
        self.counts.is_paused = paused
        self._metrics.gauge_pages.set(pages)
        self._metrics.paused.set(paused)


class ShardMetrics:
    """What one shard of this process shows; `head_pages` are kept pages that make a flush due."""

    def __init__(self, metrics: Metrics, shard: Shard, number: int, head_pages: int) -> None:
        self._metrics, self._counts, self._number = metrics.shards, metrics.counts, number
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
        self._counts.judged[self._number] += len(outcomes)
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
            self._counts.applied[self._number] += totals[0] - self._totals[0]
            self._totals = totals
            # What is being flushed is counted neither in the memtable nor, yet, in the store.
            self._kept = max(self._kept, self._flushed_rows + shard.unflushed_rows)
            self._counts.kept[self._number] = self._kept
        metrics.holes.labels(name).set(len(shard.missing))
        metrics.head_entries.labels(name).set(shard.memtable.count)
        metrics.head_fill.labels(name).set(shard.unflushed_rows / self._head_pages)
        metrics.kept_pages.labels(name).set(self._kept)

    def observe_log(self, position: int, end: int, committed: int | None) -> None:
        """Set the offsets of the log: next to apply, end, committed (None: nothing is, so far)."""
        metrics, name = self._metrics, self._name
        metrics.log_position.labels(name).set(position)
        metrics.lag_records.labels(name).set(end - position)
        self._counts.log_lag[self._number] = end - position
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
