"""The topics of an index: which there are, and how far behind the signing of pages is.

Reading needs the rights of a reader only. Nothing joins a consumer group, so no worker notices.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streamer.console.state import PartitionLag
from streamer.errors import InputError
from streamer.kafka.reader import Reader
from streamer.kafka.topics import Names, topic_id


class Layout(NamedTuple):
    """The topics that exist: partitions of each, ids of those that are folded."""

    partitions: Mapping[str, list[int]]
    ids: Mapping[str, str]

    def places(self, *topics: str) -> list[TopicPartition]:
        """Return all partitions of topics; none of one that does not exist."""
        return [
            TopicPartition(topic, each)
            for topic in topics
            for each in self.partitions.get(topic, ())
        ]

    def missing(self, names: Names) -> str:
        """Return which topic of the index does not exist, and what to do; '' for none."""
        if names.verdicts not in self.partitions:
            return (
                f"There is no topic {names.verdicts}: no worker of the index {names.index} has "
                "begun, or the topic was deleted. Check --index-name and --brokers, or start a "
                "worker."
            )
        if names.pages not in self.partitions:
            return f"There is no topic {names.pages}. Name the topic of pages by --input-topic."
        return ""


async def layout_of(reader: Reader, names: Names) -> Layout:
    """Return which topics exist now; asking creates none of them.

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


async def verdicts_published(reader: Reader, names: Names, layout: Layout) -> int:
    """Return how many verdicts the index has published.

    Raises:
        KafkaError: the brokers are away or refuse.
    """
    places = layout.places(names.verdicts)
    ends = await reader.consumer.end_offsets(places) if places else {}
    return sum(ends.values())


async def lag_by_partition(reader: Reader, names: Names, layout: Layout) -> list[PartitionLag]:
    """Return how many messages of each partition of pages are not signed yet.

    Raises:
        InputError: the index is of another topic.
        KafkaError: the brokers are away or refuse.
    """
    places = layout.places(names.pages)
    if not places:
        return []
    ends = await reader.consumer.end_offsets(places)
    starts = await reader.consumer.beginning_offsets(places)
    try:
        committed = await reader.admin.list_consumer_group_offsets(names.sign_group)
    except KafkaError:  # not allowed, or the coordinator is being looked for
        return [PartitionLag(place.partition, ends[place], None) for place in places]
    signed = {place: one.offset for place, one in committed.items() if one.offset >= 0}
    topics = {place.topic for place in signed}
    if topics and names.pages not in topics:
        raise InputError(
            f"The workers of {names.index} sign the pages of {', '.join(sorted(topics))}, not of "
            f"{names.pages}. Name the topic of pages by --input-topic."
        )
    return [
        PartitionLag(
            place.partition, ends[place], max(0, ends[place] - signed.get(place, starts[place]))
        )
        for place in places
    ]
