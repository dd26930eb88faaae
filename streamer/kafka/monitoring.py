"""What the worker's two roles tell the metrics: counts by the chunk, states by the flush.

One object for the signers of a process, one for each shard; they know the columns of verdicts and
the attributes of a shard, so that streamer/metrics.py need not. What is called for
each chunk costs microseconds. Files are counted and their sizes asked for after flushes only.

A shard's own totals are part of its state and go back with it after a kill. Counters must not: they
take what was added since the process began.

What a worker's log says of its progress, and of what is wrong with its input: once a minute.

The numbers are those of the metrics, so that a log alone is enough where nobody collects these. A
minute in which nothing has changed has no line, but ten of them have one.

The worker's HTTP: is it alive, is it ready, and what do its metrics say.

Alive means that the event loop turns: the server runs in the worker's own loop and asks nothing of
Kafka, so that an orchestrator never kills a worker because its brokers are away. Ready is what the
worker says of itself when asked. There is no authentication and nothing secret; it listens where it
is told, which is the loopback interface by default.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import structlog
from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.metrics_core import Metric

from streamer.errors import SettingsError, StreamerError
from streamer.index.messages import Verdicts
from streamer.index.rule import BASIS_NAMES
from streamer.index.shard import Shard
from streamer.index.url_versions import count_changes
from streamer.kafka.status_page import status_page
from streamer.metrics import UPKEEP, Metrics, Stage
from streamer.model import Decision
from streamer.stored.lookup import StoredLookup
from streamer.upkeep.snapshots import Report, Taken
from streamer.web_server import WebServer

_log = structlog.get_logger()
_OUTCOMES = [(verdict, basis) for basis in BASIS_NAMES for verdict in Decision]  # unique first


class SignMetrics:
    """What the signers of this process show; `clock` tells seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics.signing
        self._stages = metrics.stage_seconds
        self._clock = clock
        self._paused_since: float | None = None
        self.newest_dead: dict[str, str] = {}  # by code, as TOPIC/PARTITION@OFFSET

    def stage(self, stage: Stage) -> AbstractContextManager[object]:
        """Return a context that counts its seconds as those of `stage`."""
        return self._stages.labels("", stage).time()

    def count_chunk(self, pages: int, dead: Counter[str], skipped: Counter[str]) -> None:
        """Count what became of a chunk's records, once it is published: the last two by code."""
        metrics = self._metrics
        metrics.records_read.inc(pages + dead.total() + skipped.total())
        metrics.pages_signed.inc(pages)
        for code, count in dead.items():
            metrics.dead_letters.labels(code).inc(count)
        for code, count in skipped.items():
            metrics.skipped_records.labels(code).inc(count)

    def count_alone(self, pages: int) -> None:
        """Count pages that share no key with others."""
        self._metrics.pages_alone.inc(pages)

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
        self._shard = shard
        self._head_pages = head_pages
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
        self._failures = {
            work: self._metrics.upkeep_failures.labels(self._name, work) for work in UPKEEP
        }
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

    def observe_store(self, rows: int, index_bytes: int, lookup: StoredLookup) -> None:
        """Show what is on disk: when an index was opened, and after each flush."""
        metrics, name = self._metrics, self._name
        self._flushed_rows = rows
        metrics.key_table_postings.labels(name).set(lookup.table.count)
        metrics.frozen_postings.labels(name).set(lookup.frozen.note.count)
        metrics.key_table_bytes.labels(name).set(lookup.memory_bytes)
        metrics.index_bytes.labels(name).set(index_bytes)
        self.observe_state()

    def observe_disk(self, flushed_offset: int, free_bytes: int) -> None:
        """Set up to where the disk has the log, and what is left of it; as `observe_store`."""
        self._metrics.flushed_offset.labels(self._name).set(flushed_offset)
        self._metrics.disk_free_bytes.labels(self._name).set(free_bytes)


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


TELL_SECONDS = 60.0
SILENT_SECONDS_MAX = 600.0
MOSTLY = 0.5  # dead letters, as a share of what was read since the line before
RECORDS_MIN = 10  # fewer say nothing


class _Collector(Protocol):
    def collect(self) -> Any: ...  # noqa: ANN401 - an iterable of families, which the client types loosely


@dataclass(frozen=True, slots=True)
class _MetricValues:
    """What the metrics say at a moment; counters since the start of the process."""

    read: int
    signed: int
    judged: int
    kept: int
    applied: int
    lag: int
    log_lag: int
    dead: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


class ProgressLog:
    """Tells of the progress of a worker that signs, or owns shards, or both."""

    def __init__(
        self,
        metrics: Metrics,
        signing: SignMetrics,
        *,
        signs: bool,
        owns: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._signing = signing
        self._signs = signs
        self._owns = owns
        self._clock = clock
        self._before = self._counts()
        self._looked_at = self._told_at = clock()

    async def run(self) -> None:
        """Tell each minute; never returns."""
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self.tell()

    def tell(self) -> None:
        """Log what was done since the last look, if anything was, and warn of what looks wrong."""
        now, counts, before = self._clock(), self._counts(), self._before
        if counts != before or now - self._told_at >= SILENT_SECONDS_MAX:
            done = counts.judged - before.judged if self._owns else counts.signed - before.signed
            rate = done / (now - self._looked_at)
            _log.info("worker_progress", pages_per_second=round(rate, 1), **self._shown(counts))
            self._told_at = now
        for event, fields in self._warnings(counts, before):
            _log.warning(event, **fields)
        self._before, self._looked_at = counts, now

    def _shown(self, counts: _MetricValues) -> dict[str, int]:
        shown: dict[str, int] = {}
        if self._owns:
            shown |= {"judged": counts.judged, "kept": counts.kept}
            shown |= {"log_lag_records": counts.log_lag}
        if self._signs:
            shown |= {"signed": counts.signed, "dead_letters": counts.dead.total()}
            shown |= {"skipped": counts.skipped.total(), "lag_records": counts.lag}
        return shown

    def _warnings(
        self, now: _MetricValues, before: _MetricValues
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is wrong: an event, and its values."""
        read, dead = now.read - before.read, now.dead - before.dead
        if read >= RECORDS_MIN and dead.total() > MOSTLY * read:
            code, count = dead.most_common(1)[0]
            yield (
                "mostly_dead_letters",
                {
                    "reason": f"{dead.total():,} of {read:,} records read since the last look "
                    f"became dead letters, {count:,} of them for {code}. Check --fields and "
                    "--preset; docs/dead-letters.md explains the code.",
                    "code": code,
                    "example": self._signing.newest_dead.get(code, ""),
                },
            )
        elif read >= RECORDS_MIN and now.signed == before.signed:
            code = (now.skipped - before.skipped).most_common(1)[0][0]
            yield (
                "nothing_judged",
                {
                    "reason": f"None of {read:,} records read since the last look was a page; "
                    f"most were skipped for {code}. Check that this is the topic of pages.",
                    "code": code,
                },
            )
        if now.lag and before.lag and now.read == before.read:
            yield "nothing_judged", {"reason": self._why_not_read(), "lag_records": now.lag}
        if now.log_lag and before.log_lag and now.applied == before.applied:
            yield (
                "nothing_judged",
                {
                    "reason": "No record of the log was applied since the last look, and there are "
                    "some. See that the brokers are up and the disk is not full.",
                    "log_lag_records": now.log_lag,
                },
            )

    def _why_not_read(self) -> str:
        if _total(self._metrics.signing.paused):
            return (
                "The signers wait for a shard that has too many pages open. See that the owners "
                "of all shards are up, and whether they keep up."
            )
        return "No record was read since the last look, and there are some. See the brokers."

    def _counts(self) -> _MetricValues:
        signing, shards = self._metrics.signing, self._metrics.shards
        return _MetricValues(
            read=_total(signing.records_read),
            signed=_total(signing.pages_signed),
            judged=_total(shards.verdicts),
            kept=_total(shards.kept_pages),
            applied=_total(shards.records_applied),
            lag=_total(signing.lag_records),
            log_lag=_total(shards.lag_records),
            dead=_by_code(signing.dead_letters),
            skipped=_by_code(signing.skipped_records),
        )


def _total(metric: _Collector) -> int:
    """Return the sum of a metric's values over all labels."""
    return int(sum(sample.value for family in metric.collect() for sample in family.samples))


def _by_code(metric: _Collector) -> Counter[str]:
    families: list[Metric] = list(metric.collect())
    samples = (sample for family in families for sample in family.samples)
    return Counter({sample.labels["code"]: int(sample.value) for sample in samples})


STOP_SECONDS_MAX = 1.0  # that a request in progress may take to end

Ready = Callable[[], list[str]]


class HealthServer:
    """Serve /health/live, /health/ready, /metrics, and a page of them; with port 0 nothing at all.

    `ready` returns the reasons why the worker is not ready, in words; it is called in the event
    loop, for each question, and must not wait. `about` is what the page says of the worker.
    """

    def __init__(
        self,
        host: str,
        port: int,
        ready: Ready,
        metrics: Metrics,
        about: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._host = host
        self._port = port
        self._ready = ready
        self._metrics = metrics
        self._about = about
        self._server: WebServer | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            SettingsError: the address cannot be had.
        """
        if not self._port:
            return
        self._metrics.ready.set_function(lambda: not self._ready())
        server = WebServer(self._application(), shutdown_timeout=STOP_SECONDS_MAX)
        try:
            await server.start(self._host, self._port)
        except (OSError, UnicodeError) as error:  # the latter of a name that is none
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(
                f"Health and metrics cannot be served at {self._host}:{self._port}: {reason}. "
                "Give another --health-port or --health-host; --health-port 0 serves none."
            ) from error
        self._server = server

    async def stop(self) -> None:
        """Close all connections, and listen no more."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/", self._answer_page)
        application.router.add_get("/health/live", self._answer_live)
        application.router.add_get("/health/ready", self._answer_ready)
        application.router.add_get("/metrics", make_aiohttp_handler(self._metrics.registry))
        return application

    async def _answer_page(self, request: web.Request) -> web.Response:
        del request
        page = status_page(self._about, self._ready())
        return web.Response(text=page, content_type="text/html", charset="utf-8")

    async def _answer_live(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"live": True})

    async def _answer_ready(self, request: web.Request) -> web.Response:
        del request
        reasons = self._ready()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=status)
