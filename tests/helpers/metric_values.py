"""The values of metrics, and a store to take some of them from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.index.store import Store
from streamer.index.stored_lookup import StoredLookup
from tests.helpers.stored_rows import flush

if TYPE_CHECKING:
    from pathlib import Path

    from streamer.kafka.measures import ShardMeasures
    from streamer.metrics import Metrics


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


def observe(measures: ShardMeasures, store: Store) -> None:
    assert store.meta is not None
    table = StoredLookup(store, 0).table
    measures.observe_store(store.meta.shards[0], store.size_bytes(), table)
    measures.observe_disk(7, 1 << 30)
