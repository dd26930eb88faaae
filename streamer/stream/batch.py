"""The unit of work between the stages: a run of consecutive records of one source.

A batch covers [start, end) of its source's own sequence. Every sequence number in it ends in
exactly one place: `pages`, `dead`, or a count in `skipped` (for Kafka also in a gap of the
offsets).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamer.text.visible import Buffer


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record on its way to the dead letters: its bytes as read (maybe cut), and why."""

    sequence: int
    code: str
    detail: str
    key: bytes | None
    value: bytes
    value_bytes: int


@dataclass(slots=True)
class PageBatch:
    """Pages as parallel lists, one entry a page, ascending by `sequences`.

    `urls` are UTF-8. `bodies` are too (as far as the source is honest), marked by `flags` as
    text/form.py has them, best in one block; `carried` holds one JSON object a page as bytes, empty
    where nothing is carried.
    """

    start: int
    end: int
    sequences: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    urls: list[bytes] = field(default_factory=list)
    bodies: Sequence[Buffer] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    carried: list[bytes] = field(default_factory=list)
    dead: list[Rejected] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.sequences)
