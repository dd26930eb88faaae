"""Every metric of a worker, named, typed and explained in one place.

A `Metrics` object owns its registry, so that a test has its own and a worker has one for all its
roles: signers carry no label, shards have the label `shard`. Labels take their values
from short closed lists, or are numbers of partitions and shards; a URL or an error's text never
becomes one. streamer/kafka/role_metrics.py sets the metrics, a chunk at a time; docs/metrics.md
explains them to the operator, and a test holds the two together.
"""

from __future__ import annotations

import os
import threading
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from streamer.version import __version__

STAGE_SECONDS = (0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)
LATENCY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Stage(StrEnum):
    """What a worker spends its time on: values of the label `stage`."""

    PARSE_SIGN = "parse_sign"
    PUBLISH_BANDS = "publish_bands"
    APPLY = "apply"
    PUBLISH_VERDICTS = "publish_verdicts"
    FLUSH = "flush"


UPKEEP = ("freeze", "merge", "sweep")  # values of the label `work`


class PageHistogram(Collector):
    """A histogram that takes many pages at once: the client's own costs a call for each."""

    def __init__(
        self, name: str, documentation: str, edges: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._edges = np.array(edges)
        self._counts = np.zeros(len(edges) + 1, np.int64)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, values: npt.NDArray[np.float64], pages: npt.NDArray[np.int64]) -> None:
        """Count pages[i] pages under values[i]; a bucket holds what is <= its edge."""
        buckets = np.searchsorted(self._edges, values)
        counts = np.bincount(buckets, pages, len(self._counts)).astype(np.int64)
        with self._lock:
            self._counts += counts
            self._sum += float(values @ pages)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Yield the family without its samples, as the registry asks for it."""
        yield HistogramMetricFamily(self._name, self._documentation)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the family with its cumulative buckets."""
        with self._lock:
            cumulative, total = np.cumsum(self._counts).tolist(), self._sum
        names = [*map(str, self._edges.tolist()), "+Inf"]
        buckets = list(zip(names, cumulative, strict=True))
        yield HistogramMetricFamily(self._name, self._documentation, buckets, total)


class SigningMetrics:
    """What the signers of a process do, all partitions together."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.records_read = counter(
            "streamer_records_read_total",
            "Records read from the input: pages, dead letters and skipped records.",
        )
        self.pages_signed = counter("streamer_pages_signed_total", "Pages signed.")
        self.dead_letters = counter(
            "streamer_dead_letters_total", "Records that became dead letters.", ["code"]
        )
        self.skipped_records = counter(
            "streamer_skipped_records_total",
            "Records that are not pages by the rules of the input.",
            ["code"],
        )
        self.pages_alone = counter(
            "streamer_pages_alone_total",
            "Pages whose key is their URL, or that have none, with an index for each partition.",
        )
        self.lag_records = gauge(
            "streamer_sign_lag_records",
            "Records of the input that are not signed yet.",
            ["partition"],
        )
        self.gauge_pages = gauge(
            "streamer_gauge_pages",
            "Pages open at the shards as last reported, plus those sent and not yet taken.",
        )
        self.paused = gauge(
            "streamer_signing_paused", "1 while signers wait for a shard, or learn sites, else 0."
        )
        self.paused_seconds = counter(
            "streamer_signing_paused_seconds_total", "Seconds that signers have waited."
        )


class IndexMetrics:
    """What the shards of a process do, and what their indexes hold."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, labelnames=["shard"], registry=registry)
        self._counters(registry)
        self._log(gauge)
        self._index(gauge)
        self.latency = PageHistogram(
            "streamer_verdict_latency_seconds",
            "Seconds from a page's timestamp in Kafka to the publishing of its verdict.",
            LATENCY_SECONDS,
            registry,
        )

    def _counters(self, registry: CollectorRegistry) -> None:
        self.verdicts = Counter(
            "streamer_verdicts_total",
            "Verdicts published.",
            ["shard", "verdict", "basis"],
            registry=registry,
        )
        self.changes = Counter(
            "streamer_changes_total",
            "Verdicts published on pages that were compared with the last version of their URL.",
            ["shard", "change"],
            registry=registry,
        )
        self.upkeep_failures = Counter(
            "streamer_shard_upkeep_failures_total",
            "Failed freezes, merges and sweeps of the index.",
            ["shard", "work"],
            registry=registry,
        )
        counter = partial(Counter, labelnames=["shard"], registry=registry)
        self.records_applied = counter(
            "streamer_shard_records_applied_total",
            "Records of the log that were applied or ignored.",
        )
        self.records_skipped = counter(
            "streamer_shard_records_passed_over_total",
            "Records of the log that were ignored: repeated, or after a hole.",
        )
        self.postings_refused = counter(
            "streamer_shard_postings_refused_total",
            "Postings left out because their bucket was full.",
        )
        self.wrong_dates = counter(
            "streamer_shard_wrong_dates_total",
            "Pages dated more than a day after the log, and not confirmed by the pages after them.",
        )

    def _log(self, gauge: partial[Gauge]) -> None:
        self.log_position = gauge(
            "streamer_shard_log_position", "Offset in the log of the next record to apply."
        )
        self.log_committed = gauge(
            "streamer_shard_log_committed_offset",
            "Offset in the log below which all outputs are published.",
        )
        self.flushed_offset = gauge(
            "streamer_shard_flushed_offset", "Offset in the log below which everything is on disk."
        )
        self.lag_records = gauge(
            "streamer_shard_lag_records", "Records of the log that are not applied yet."
        )
        self.holes = gauge(
            "streamer_shard_holes",
            "Sources with records missing from the log; records after these are not judged.",
        )

    def _index(self, gauge: partial[Gauge]) -> None:
        self.head_entries = gauge(
            "streamer_shard_head_entries",
            "Pages in memory: kept, and forgotten since the last flush.",
        )
        self.head_fill = gauge(
            "streamer_shard_head_fill_ratio",
            "Pages that a flush would move to disk, as a share of the number that makes it due.",
        )
        self.kept_pages = gauge(
            "streamer_shard_kept_pages",
            "Pages in the index, including those forgotten since the last flush.",
        )
        self.key_table_postings = gauge(
            "streamer_shard_key_table_postings", "Postings of flushed pages in the key table."
        )
        self.frozen_postings = gauge(
            "streamer_shard_frozen_postings",
            "Postings on disk, for which the key table has no room.",
        )
        self.key_table_bytes = gauge(
            "streamer_shard_key_table_bytes",
            "Memory of the key table, and of the filters of frozen postings.",
        )
        self.index_bytes = gauge(
            "streamer_shard_index_bytes", "Disk space of the index at the last flush."
        )
        self.disk_free_bytes = gauge(
            "streamer_shard_disk_free_bytes", "Free space on the index's disk at the last flush."
        )
        self.snapshot_timestamp = gauge(
            "streamer_shard_snapshot_timestamp_seconds",
            "Time of the newest snapshot of this process, in seconds since 1970.",
        )
        self.snapshot_failures = gauge(
            "streamer_shard_snapshot_failures",
            "Snapshots that failed since the last successful one.",
        )


class CopyMetrics:
    """How the copying of kept pages to a topic goes (`--kept-topic`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.copied = Counter(
            "streamer_kept_copies_total",
            "Kept pages copied to the topic of kept pages.",
            registry=registry,
        )
        self.expired = Counter(
            "streamer_kept_expired_total",
            "Kept pages that expired before they were copied.",
            registry=registry,
        )
        self.lag = Gauge(
            "streamer_kept_lag_records",
            "Verdicts whose pages are not copied yet.",
            ["partition"],
            registry=registry,
        )


@dataclass(slots=True)
class WorkerCounts:
    """What a worker has done since its start, and what is left, as its log and its page say it.

    Lags of signers are by partition of the pages; what shards have done is by shard. `newest_dead`
    is by code, as TOPIC/PARTITION@OFFSET.
    """

    read: int = 0
    signed: int = 0
    dead: Counts[str] = field(default_factory=Counts)
    skipped: Counts[str] = field(default_factory=Counts)
    lag: Counts[int] = field(default_factory=Counts)
    judged: Counts[int] = field(default_factory=Counts)
    kept: Counts[int] = field(default_factory=Counts)
    applied: Counts[int] = field(default_factory=Counts)
    log_lag: Counts[int] = field(default_factory=Counts)
    is_paused: bool = field(default=False, compare=False)
    newest_dead: dict[str, str] = field(default_factory=dict, compare=False)


class Metrics:
    """All metrics of a process, in a registry of their own; `counts` are some as plain numbers."""

    def __init__(self) -> None:
        # A creation time for each counter would double the series.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves it untyped
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, processor time, open files
        self.counts = WorkerCounts()
        self.signing = SigningMetrics(registry)
        self.shards = IndexMetrics(registry)
        self.copying = CopyMetrics(registry)
        self.stage_seconds = Histogram(
            "streamer_stage_seconds",
            "Seconds that a chunk or a flush took; empty shard for signers.",
            ["shard", "stage"],
            buckets=STAGE_SECONDS,
            registry=registry,
        )
        self.ready = Gauge(
            "streamer_ready", "1 if the worker is ready (/health/ready), else 0.", registry=registry
        )
        self.brokers_reachable = Gauge(
            "streamer_brokers_reachable", "1 while a broker answers, else 0.", registry=registry
        )
        Gauge(
            "streamer_memory_limit_bytes",
            "Memory limit of this process: that of its container, or the machine's memory.",
            registry=registry,
        ).set(memory_limit_bytes())
        Info("streamer_build", "Version of streamer.", registry=registry).info(
            {"version": __version__}
        )


def memory_limit_bytes(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int:
    """Return the least limit of this process' control groups, or the machine's memory.

    In a container the path in `own` may be one of the host, where nothing is: then the root of
    `groups` is the container's.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError):  # no Linux
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in {"", "memory"}:  # version 2 names none
                continue
            root, file = (
                (groups / "memory", "memory.limit_in_bytes")
                if controllers
                else (groups, "memory.max")
            )
            folder = root / path.lstrip("/")
            for each in (folder, *folder.parents):
                with suppress(OSError, ValueError):  # not there; "max"
                    limits.append(int((each / file).read_text()))
                if each == root:
                    break
    return min(limits)
