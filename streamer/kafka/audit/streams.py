"""What shards tell each other: for each pair of them, what a fold sends against what a log holds.

An item is 64 bits here. Sent are the items that the fold of the sender's log gives; received are
those that the receiver's log holds, by the rule of intervals. The sender owes what it emitted at
records that are committed, since it commits after it has published.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from streamer.index.records import Decisions, Pages
from streamer.kafka.audit.columns import Column
from streamer.kafka.audit.report import Check
from streamer.kafka.audit.scene import digest

Digests = npt.NDArray[np.uint64]

_KEPT_BIT = np.uint64(63)  # of a page ref; no topic has so many partitions


def item_digests(items: Pages | Decisions) -> Digests:
    """Return 64 bits an item, over all that the receiving shard makes use of."""
    if isinstance(items, Decisions):
        decided: Digests = items.refs ^ (items.kept.astype(np.uint64) << _KEPT_BIT)
        return decided
    numbers = zip(
        items.refs, items.keys, items.sketches, items.distinct, items.tokens, items.text_bytes,
        strict=True,
    )  # fmt: skip
    texts = zip(items.urls, items.message_keys, items.carried, strict=True)
    found = [
        digest(b"".join(part.tobytes() for part in columns), *strings)
        for columns, strings in zip(numbers, texts, strict=True)
    ]
    return np.array(found, np.uint64)


class _Stream:
    """The items from one shard to another, and how many of them are beyond doubt.

    `owed` of the sent ones were published before the ends were noted; `judged` of the received ones
    were received before, so that the logs that they come from were read far enough.
    """

    def __init__(self) -> None:
        self.sent = Column(np.uint64)
        self.received = Column(np.uint64)
        self.owed = 0
        self.judged = 0


class Streams:
    """All streams between the shards of an index."""

    def __init__(self) -> None:
        self._streams: dict[tuple[int, int], _Stream] = defaultdict(_Stream)

    def note_sent(self, source: int, to: int, items: Pages | Decisions, *, owed: bool) -> None:
        """Take what the fold of `source` emits; `owed` if that was committed."""
        stream = self._streams[source, to]
        stream.sent.append(item_digests(items))
        if owed:
            stream.owed = len(stream.sent)

    def note_received(
        self, source: int, to: int, items: Pages | Decisions, *, judged: bool
    ) -> None:
        """Take the items of a record in the log of `to` that count."""
        stream = self._streams[source, to]
        stream.received.append(item_digests(items))
        if judged:
            stream.judged = len(stream.received)

    def compare(self, check: Check) -> None:
        """Hold what was received against what was sent."""
        for (source, to), stream in sorted(self._streams.items()):
            sent, received = stream.sent.array(), stream.received.array()
            check.looked_at += len(received)
            both = min(len(sent), len(received))
            name = f"shard {source} to {to}, item"
            for item in np.flatnonzero(sent[:both] != received[:both]).tolist():
                check.violate(f"{name} {item}: another than the fold gives")
            if stream.owed > len(received):
                missing = stream.owed - len(received)
                check.violate(f"{name} {len(received)} and on: {missing} not in the log", missing)
            if stream.judged > len(sent):
                more = stream.judged - len(sent)
                check.violate(f"{name} {len(sent)} and on: {more} that the fold lacks", more)
