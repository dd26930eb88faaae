"""The values of metrics, and a store to take some of them from."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from streamer.errors import StoreUnavailable
from streamer.kafka.role_metrics import ShardMetrics, SignMetrics, snapshot_report
from streamer.metrics import Metrics, Stage
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from streamer.upkeep.snapshots import Snapshot, Taken
from tests.helpers.shard_cases import SAME, index, shares
from tests.helpers.signed_pages import made_pages
from tests.helpers.stored_rows import flush


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def value(metrics: Metrics, name: str, *labels: str) -> float:
    return values(metrics, name)[labels]


def store_of(path: Path, *flushes: int) -> Store:
    """Return a store with flushes of so many rows."""
    store = Store.open(path / "store")
    first = 0
    for rows in flushes:
        flush(store, range(first, first + rows))
        first += rows
    return store


def observe(metrics: ShardMetrics, store: Store) -> None:
    assert store.meta is not None
    lookup = StoredLookup(store)
    metrics.observe_store(store.meta.rows, store.size_bytes(), lookup, 7, 1 << 30)


def metrics_in_use(folder: Path) -> Metrics:
    """Return the metrics after everything that a worker reports to them, once."""
    metrics, machine = Metrics(), index(track_changes=True)
    signers, shard = SignMetrics(metrics), ShardMetrics(metrics, machine.shard, 0, 10)
    signers.count_chunk(1, Counter(["invalid_json"]), Counter(["deletion"]))
    signers.observe_lag(0, 1)
    metrics.copying.lag.labels(0).set(1)
    signers.observe_gauge(1, paused=False)
    with signers.stage(Stage.PARSE_SIGN), shard.stage(Stage.APPLY):
        machine.give(made_pages([shares(1, 2, 3, 4)], [SAME]), 0, 1)
    for output in machine.outputs:
        shard.count_verdicts(output.verdicts)
    shard.count_latency(np.array([1]), np.array([1]), 2)
    shard.observe_log(1, 1, 1)
    store = store_of(folder, 3)
    observe(shard, store)
    store.close()
    report = snapshot_report(metrics, 0, "folder")
    report(StoreUnavailable("the disk is full"))
    report(Taken(Snapshot(1, datetime(2026, 1, 2, tzinfo=UTC), 7, 3, "", []), 0, 0))
    return metrics
