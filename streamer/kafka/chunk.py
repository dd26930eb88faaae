"""A run of consecutive messages of one partition: what is fetched, signed and acknowledged as one.

A chunk covers the offsets [start, end) that were *read*. Offsets without a message lie in it too:
where a transaction ended, or where a message was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

RECORDS_MAX = 2000
BYTES_MAX = 8 << 20  # what a chunk costs beside its pages is spread


@dataclass(frozen=True, slots=True)
class Chunk:
    """The messages at [start, end) of a partition; `records` are the client library's."""

    topic: str
    partition: int
    start: int
    end: int
    records: Sequence[Any]


def cut(
    topic: str, partition: int, start: int, end: int, records: Sequence[Any]
) -> Iterator[Chunk]:
    """Yield chunks of RECORDS_MAX messages and about BYTES_MAX at most, covering [start, end)."""
    first, size = 0, 0
    for place, record in enumerate(records):
        if place > first and (place - first >= RECORDS_MAX or size >= BYTES_MAX):
            yield Chunk(topic, partition, start, record.offset, records[first:place])
            start, first, size = record.offset, place, 0
        size += record.serialized_value_size
    yield Chunk(topic, partition, start, end, records[first:])
