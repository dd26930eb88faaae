"""What an audit is told of an index: who it is, and up to where its topics are read.

The order in which the ends are noted makes an audit of a running index sound: first what is
committed, then the ends of what has causes (verdicts, log items), then the ends of the causes. So
whatever is read has its cause among what is read, and what was committed has all of its effects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamer.kafka.names import Names
from streamer.kafka.wire import LogIdentity
from streamer.stream.parse import PageParser

_DIGEST_BYTES = 8


class Incoming(Protocol):
    """A message as it was read."""

    @property
    def partition(self) -> int:
        """Return the partition that it is in."""

    @property
    def offset(self) -> int:
        """Return its offset."""

    @property
    def key(self) -> bytes | None:
        """Return its key."""

    @property
    def value(self) -> bytes | None:
        """Return its value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Return its headers."""


@dataclass(frozen=True, slots=True)
class Scene:
    """An index at one moment.

    Attributes:
        page_bounds: by partition of the pages' topic, the first offset there is, and the end.
        verdict_partitions: how many partitions the topic of verdicts has.
        signed: by partition, up to where the signers have committed.
        applied: by shard, up to where its owner has committed.
        judged_ends: by shard, the end of its log when the ends of effects were noted: items of
            other shards behind it may be ahead of the logs that they come from.
        settled: whether a page that is still on its way is a violation.
    """

    names: Names
    identity: LogIdentity
    shards: int
    bands: int
    page_bounds: Mapping[int, tuple[int, int]]
    verdict_partitions: int
    signed: Mapping[int, int]
    applied: Sequence[int]
    judged_ends: Sequence[int]
    parser: PageParser
    settled: bool = False


def digest(*parts: bytes | None) -> int:
    """Return 64 bits that tell messages apart; None is not b""."""
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        found.update(b"-" if part is None else b"%d:" % len(part))
        found.update(part or b"")
    return int.from_bytes(found.digest(), "little")
