"""Verdicts as messages: co-partitioned with the pages, keyed as they were, with their number.

The header `streamer.sequence` holds SHARD:NUMBER. Numbers rise within a partition; where they fall
back, a restarted owner repeats the same bytes. Most readers need no header: they upsert by page.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from streamer.index.records import Verdicts
from streamer.kafka.publisher import Message
from streamer.model import Location, split_ref
from streamer.stream.stages import Locate, verdicts

SEQUENCE = "streamer.sequence"

_encode = msgspec.json.Encoder().encode


def topic_locator(topic: str) -> Locate:
    """Return a function from a page ref to its place: a source's number is its partition's."""

    def locate(ref: int) -> Location:
        partition, offset = split_ref(ref)
        return Location(topic, partition, offset)

    return locate


def verdict_messages(
    block: Verdicts, shard: int, start: int, locate: Locate, fingerprint: str, partitions: int
) -> dict[int, list[Message]]:
    """Return the messages of a block by partition; `start` is the number of its first verdict."""
    result: dict[int, list[Message]] = defaultdict(list)
    numbered = enumerate(
        zip(
            verdicts(block, locate, fingerprint),
            block.pages.message_keys,
            block.pages.urls,
            strict=True,
        ),
        start,
    )
    for number, (verdict, key, url) in numbered:
        headers = [(SEQUENCE, b"%d:%d" % (shard, number))]
        message = (url if key is None else key, _encode(verdict), headers, None)
        result[verdict.page.partition % partitions].append(message)
    return result
