"""What the brokers say of an index at work: is it alive, how far it is behind, who does its work.

All of it is looked up with the rights of a reader: ends of topics, committed offsets and members of
consumer groups, and the newest gauge of shard 0. Nothing joins a group, so no worker notices.
What a user may not describe is unknown, and shown as such.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streamer.console.state import PartitionLag, ServiceState, ShardLag, moment
from streamer.kafka.gauge import REPEAT_SECONDS, Gauge
from streamer.kafka.reader import Reader
from streamer.kafka.topics import Names, topic_id

SILENT_SECONDS = 3 * REPEAT_SECONDS  # of shard 0: it publishes its gauge in any case


class Layout(NamedTuple):
    """The topics that are there: partitions of each, ids of those that are folded."""

    partitions: Mapping[str, list[int]]
    ids: Mapping[str, str]

    def shards(self, names: Names) -> int:
        """Return how many shards the index has, by the logs that are there."""
        return next(n for n in itertools.count() if names.log(n) not in self.partitions)

    def places(self, *topics: str) -> list[TopicPartition]:
        """Return all partitions of topics; none of one that is not there."""
        return [
            TopicPartition(topic, each)
            for topic in topics
            for each in self.partitions.get(topic, ())
        ]


async def layout_of(reader: Reader, names: Names) -> Layout:
    """Return which topics there are now; asking makes none of them.

    Raises:
        StreamerError, KafkaError: the brokers are away or refuse.
    """
    found = await reader.admin.describe_topics(None)
    partitions = {
        each["topic"]: sorted(part["partition"] for part in each["partitions"])
        for each in found
        if not each["error_code"]
    }
    folded = [name for name in (names.verdicts, names.dead_letters) if name in partitions]
    return Layout(partitions, {name: await topic_id(reader.admin, name) for name in folded})


async def look(
    reader: Reader, names: Names, layout: Layout, base: ServiceState
) -> tuple[ServiceState, int]:
    """Return the state of the index now, without the gauge, and how many verdicts it has published.

    Raises:
        KafkaError: the brokers are away or refuse.
    """
    logs = [names.log(shard) for shard in range(layout.shards(names))]
    places = layout.places(names.verdicts, names.pages, *logs)
    ends = await reader.consumer.end_offsets(places) if places else {}
    starts = await reader.consumer.beginning_offsets(places) if places else {}
    signed = await _committed(reader, names.sign_group)

    def lag(place: TopicPartition, committed: Mapping[Any, int] | None) -> int | None:
        if committed is None:
            return None
        found: int = ends[place] - committed.get(place, starts[place])
        return max(0, found)

    shards = []
    for shard, log in enumerate(logs):
        place, group = TopicPartition(log, 0), names.shard_group(shard)
        owners = await _members(reader, group)
        shards.append(
            ShardLag(shard, ends[place], lag(place, await _committed(reader, group)), owners)
        )
    partitions = [
        PartitionLag(place.partition, ends[place], lag(place, signed))
        for place in layout.places(names.pages)
    ]
    signers = await _members(reader, names.sign_group)
    state = msgspec.structs.replace(
        base, as_of=moment(time.time()), unreachable_since="", signers=signers,
        partitions=partitions, shards=shards, warnings=_warnings(names, layout, shards, signers),
    )  # fmt: skip
    return state, sum(ends[place] for place in layout.places(names.verdicts))


async def _committed(reader: Reader, group: str) -> dict[TopicPartition, int] | None:
    """Return the offsets that a group has committed; None where that is unknown now."""
    try:
        found = await reader.admin.list_consumer_group_offsets(group)
    except KafkaError:  # not allowed, or the coordinator is being looked for
        return None
    return {place: one.offset for place, one in found.items() if one.offset >= 0}


async def _members(reader: Reader, group: str) -> int | None:
    try:
        (answer,) = await reader.admin.describe_consumer_groups([group])
    except KafkaError:
        return None
    ((code, _, _, _, _, members, *_),) = answer.groups
    return None if code else len([*members])


def _warnings(
    names: Names, layout: Layout, shards: list[ShardLag], signers: int | None
) -> list[str]:
    if names.verdicts not in layout.partitions:
        said = (
            f"There is no topic {names.verdicts}: no worker of the index {names.index} has begun, "
            "or the topic was deleted. Check --index-name and --brokers, or start a worker."
        )
        return [said]
    found = []
    if names.pages not in layout.partitions:
        found.append(f"There is no topic {names.pages}. Name the topic of pages by --input-topic.")
    found += [
        f"Shard {each.shard} has no owner: start a worker that owns it (--own-shards)."
        for each in shards
        if each.owners == 0
    ]
    if signers == 0:
        found.append("Nobody signs pages: start a worker of the role `all` or `sign`.")
    return found


def with_gauge(state: ServiceState, gauge: Gauge | None, heard_at: float) -> ServiceState:
    """Return the state with what shard 0 said last, at `heard_at` in seconds since 1970."""
    if gauge is None:
        return state
    is_alive, warnings = time.time() - heard_at < SILENT_SECONDS, state.warnings
    heard = moment(heard_at)
    if not (is_alive or warnings or state.unreachable_since):
        said = (
            f"Shard 0 was heard of last at {heard}, and publishes every {REPEAT_SECONDS:.0f} "
            "seconds: see the log of its worker, and what its /health/ready says."
        )
        warnings = [said]
    return msgspec.structs.replace(
        state, is_alive=is_alive, heard=heard, open_pages=gauge.open_pages, warnings=warnings
    )
