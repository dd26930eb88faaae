"""Every metric of a worker, named, typed and explained in one place.

A `Metrics` object owns its registry, so that a test has its own and a worker has one for all its
roles: signers carry no label, shards have the label `shard`. Labels take their values
from short closed lists, or are numbers of partitions and shards; a URL or an error's text never
becomes one. streamer/kafka/role_metrics.py sets the metrics, a chunk at a time; docs/metrics.md
explains them to the operator, and a test holds the two together.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
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

from streamer.docstrings import read_section
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
        self._name, self._documentation = name, documentation
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


class _Maker:
    """Makes metrics with these labels, with the texts that the docstring of a class has."""

    def __init__(self, owner: object, registry: CollectorRegistry, *labels: str) -> None:
        _, described = read_section(owner.__doc__, "Metrics")
        self.texts = {name: each.text for name, each in described.items()}
        self._registry, self._labels = registry, labels

    def counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, self.texts[name], labels or self._labels, registry=self._registry)

    def gauge(self, name: str, *labels: str) -> Gauge:
        return Gauge(name, self.texts[name], labels or self._labels, registry=self._registry)


class SigningMetrics:
    """What the signers of a process do, all partitions together.

    Metrics:
        streamer_records_read_total: Records read from the input: pages, dead letters and skipped
            records.
        streamer_pages_signed_total: Pages signed.
        streamer_dead_letters_total: Records that became dead letters.
        streamer_skipped_records_total: Records that are not pages by the rules of the input.
        streamer_pages_alone_total: Pages whose key is their URL, or that have none, with an index
            for each partition.
        streamer_sign_lag_records: Records of the input that are not signed yet.
        streamer_gauge_pages: Pages open at the shards as last reported, plus those sent and not yet
            taken.
        streamer_signing_paused: 1 while signers wait for a shard, or learn sites, else 0.
        streamer_signing_paused_seconds_total: Seconds that signers have waited.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        make = _Maker(self, registry)
        self.records_read = make.counter("streamer_records_read_total")
        self.pages_signed = make.counter("streamer_pages_signed_total")
        self.dead_letters = make.counter("streamer_dead_letters_total", "code")
        self.skipped_records = make.counter("streamer_skipped_records_total", "code")
        self.pages_alone = make.counter("streamer_pages_alone_total")
        self.lag_records = make.gauge("streamer_sign_lag_records", "partition")
        self.gauge_pages = make.gauge("streamer_gauge_pages")
        self.paused = make.gauge("streamer_signing_paused")
        self.paused_seconds = make.counter("streamer_signing_paused_seconds_total")


class IndexMetrics:
    """What the shards of a process do, and what their indexes hold.

    Metrics:
        streamer_verdict_latency_seconds: Seconds from a page's timestamp in Kafka to the publishing
            of its verdict.
        streamer_verdicts_total: Verdicts published.
        streamer_changes_total: Verdicts published on pages that were compared with the last version
            of their URL.
        streamer_shard_upkeep_failures_total: Failed freezes, merges and sweeps of the index.
        streamer_shard_records_applied_total: Records of the log that were applied or ignored.
        streamer_shard_records_passed_over_total: Records of the log that were ignored: repeated, or
            after a hole.
        streamer_shard_postings_refused_total: Postings left out because their bucket was full.
        streamer_shard_wrong_dates_total: Pages dated more than a day after the log, and not
            confirmed by the pages after them.
        streamer_shard_log_position: Offset in the log of the next record to apply.
        streamer_shard_log_committed_offset: Offset in the log below which all outputs are
            published.
        streamer_shard_flushed_offset: Offset in the log below which everything is on disk.
        streamer_shard_lag_records: Records of the log that are not applied yet.
        streamer_shard_holes: Sources with records missing from the log; records after these are not
            judged.
        streamer_shard_head_entries: Pages in memory: kept, and forgotten since the last flush.
        streamer_shard_head_fill_ratio: Pages that a flush would move to disk, as a share of the
            number that makes it due.
        streamer_shard_kept_pages: Pages in the index, including those forgotten since the last
            flush.
        streamer_shard_key_table_postings: Postings of flushed pages in the key table.
        streamer_shard_frozen_postings: Postings on disk, for which the key table has no room.
        streamer_shard_key_table_bytes: Memory of the key table, and of the filters of frozen
            postings.
        streamer_shard_index_bytes: Disk space of the index at the last flush.
        streamer_shard_disk_free_bytes: Free space on the index's disk at the last flush.
        streamer_shard_snapshot_timestamp_seconds: Time of the newest snapshot of this process, in
            seconds since 1970.
        streamer_shard_snapshot_failures: Snapshots that failed since the last successful one.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        make = _Maker(self, registry, "shard")
        name = "streamer_verdict_latency_seconds"
        self.latency = PageHistogram(name, make.texts[name], LATENCY_SECONDS, registry)
        self.verdicts = make.counter("streamer_verdicts_total", "shard", "verdict", "basis")
        self.changes = make.counter("streamer_changes_total", "shard", "change")
        self.upkeep_failures = make.counter("streamer_shard_upkeep_failures_total", "shard", "work")
        self.records_applied = make.counter("streamer_shard_records_applied_total")
        self.records_skipped = make.counter("streamer_shard_records_passed_over_total")
        self.postings_refused = make.counter("streamer_shard_postings_refused_total")
        self.wrong_dates = make.counter("streamer_shard_wrong_dates_total")
        self.log_position = make.gauge("streamer_shard_log_position")
        self.log_committed = make.gauge("streamer_shard_log_committed_offset")
        self.flushed_offset = make.gauge("streamer_shard_flushed_offset")
        self.lag_records = make.gauge("streamer_shard_lag_records")
        self.holes = make.gauge("streamer_shard_holes")
        self.head_entries = make.gauge("streamer_shard_head_entries")
        self.head_fill = make.gauge("streamer_shard_head_fill_ratio")
        self.kept_pages = make.gauge("streamer_shard_kept_pages")
        self.key_table_postings = make.gauge("streamer_shard_key_table_postings")
        self.frozen_postings = make.gauge("streamer_shard_frozen_postings")
        self.key_table_bytes = make.gauge("streamer_shard_key_table_bytes")
        self.index_bytes = make.gauge("streamer_shard_index_bytes")
        self.disk_free_bytes = make.gauge("streamer_shard_disk_free_bytes")
        self.snapshot_timestamp = make.gauge("streamer_shard_snapshot_timestamp_seconds")
        self.snapshot_failures = make.gauge("streamer_shard_snapshot_failures")


class CopyMetrics:
    """How the copying of kept pages to a topic goes (`--kept-topic`).

    Metrics:
        streamer_kept_copies_total: Kept pages copied to the topic of kept pages.
        streamer_kept_expired_total: Kept pages that expired before they were copied.
        streamer_kept_lag_records: Verdicts whose pages are not copied yet.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        make = _Maker(self, registry)
        self.copied = make.counter("streamer_kept_copies_total")
        self.expired = make.counter("streamer_kept_expired_total")
        self.lag = make.gauge("streamer_kept_lag_records", "partition")


class Metrics:
    """All metrics of a process, in a registry of their own.

    `newest_dead` has the newest dead letter of each code, as TOPIC/PARTITION@OFFSET.

    Metrics:
        streamer_stage_seconds: Seconds that a chunk or a flush took; empty shard for signers.
        streamer_ready: 1 if the worker is ready (/health/ready), else 0.
        streamer_brokers_reachable: 1 while a broker answers, else 0.
        streamer_memory_limit_bytes: Memory limit of this process: that of its container, or the
            machine's memory.
        streamer_build: Version of streamer.
    """

    def __init__(self) -> None:
        # A creation time for each counter would double the series.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves it untyped
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, processor time, open files
        self.newest_dead: dict[str, str] = {}
        self.signing = SigningMetrics(registry)
        self.shards = IndexMetrics(registry)
        self.copying = CopyMetrics(registry)
        make, stage = _Maker(self, registry), "streamer_stage_seconds"
        self.stage_seconds = Histogram(
            stage, make.texts[stage], ["shard", "stage"], buckets=STAGE_SECONDS, registry=registry
        )
        self.ready = make.gauge("streamer_ready")
        self.brokers_reachable = make.gauge("streamer_brokers_reachable")
        make.gauge("streamer_memory_limit_bytes").set(memory_limit_bytes())
        build = Info("streamer_build", make.texts["streamer_build"], registry=registry)
        build.info({"version": __version__})


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
