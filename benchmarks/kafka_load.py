"""Pages of a file into a topic with lz4, as fast as this library can: before anything is measured.

The library compresses lz4 at level 9, as a broker would; here it is level 3, to wait less. Both are
read at the same speed.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer, codec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.record import default_records

BATCH_BYTES = 512 << 10
MESSAGE_BYTES = 4 << 20


def make_topic(brokers: str, topic: str, partitions: int) -> None:
    """Make a topic of pages."""

    async def make() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        await admin.start()
        config = {"max.message.bytes": str(MESSAGE_BYTES), "retention.ms": "-1"}
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
        await admin.close()

    asyncio.run(make())


def load(brokers: str, topic: str, file: Path, partitions: int, pages: int) -> None:
    """Send the first `pages` lines of `file`, batch by batch to one partition after another."""
    records: Any = default_records
    for module in (records, getattr(records, "_crecords", None)):
        if module is not None and hasattr(module, "lz4_encode"):
            module.lz4_encode = partial(codec.lz4_encode, level=3)
    asyncio.run(_load(brokers, topic, file, partitions, pages))


async def _load(brokers: str, topic: str, file: Path, partitions: int, pages: int) -> None:
    places = itertools.cycle(range(partitions))
    async with AIOKafkaProducer(
        bootstrap_servers=brokers,
        acks="all",
        compression_type="lz4",
        max_batch_size=BATCH_BYTES,
        max_request_size=MESSAGE_BYTES,
    ) as producer:
        batch = producer.create_batch()
        with file.open("rb") as lines:
            for line in itertools.islice(lines, pages):
                value = line.rstrip(b"\n")
                if batch.append(key=None, value=value, timestamp=None) is None:
                    await producer.send_batch(batch, topic, partition=next(places))
                    batch = producer.create_batch()
                    batch.append(key=None, value=value, timestamp=None)
        await producer.send_batch(batch, topic, partition=next(places))
        await producer.flush()
