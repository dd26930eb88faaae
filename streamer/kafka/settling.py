"""How much of an index is still on its way: read by no worker, or not committed."""

from __future__ import annotations

import asyncio
import time

from streamer.kafka.names import Names
from streamer.kafka.reader import Reader

POLL_SECONDS = 0.3
QUIET_ROUNDS = 2


async def left(reader: Reader, names: Names, shards: int) -> int:
    """Return how many messages are still to be taken and committed, of pages and of all logs.

    It can be 0 for a moment while a shard still has to send something to another one.
    """
    behind = await _behind(reader, names.sign_group, names.pages)
    for shard in range(shards):
        behind += await _behind(reader, names.shard_group(shard), names.log(shard))
    return behind


async def wait_until_settled(reader: Reader, names: Names, shards: int, seconds: float) -> None:
    """Wait until nothing is left, twice in a row, but no longer than so many seconds."""
    deadline = time.monotonic() + seconds
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < deadline:
        quiet = 0 if await left(reader, names, shards) else quiet + 1
        await asyncio.sleep(POLL_SECONDS)


async def _behind(reader: Reader, group: str, topic: str) -> int:
    committed = await reader.committed(group, topic)
    behind = 0
    for partition in await reader.partitions(topic):
        start, end = await reader.bounds(topic, partition)
        behind += end - committed.get(partition, start)
    return behind
