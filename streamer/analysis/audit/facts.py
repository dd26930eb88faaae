"""What an audit knows of an index: who it is, and up to where its topics are read.

The order in which the ends are noted makes an audit of a running index sound: first what is
committed, then the ends of what has causes (verdicts, log items), then the ends of the causes. So
whatever is read has its cause among what is read, and what was committed has all of its effects.

And what an audit notes down: how often each promise is broken, and what is known of each page.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from streamer.index.messages import FORGET, Record
from streamer.kafka.owner import SEQUENCE
from streamer.kafka.topics import Names
from streamer.kafka.wire import LogIdentity
from streamer.model import SEQUENCE_BITS, SEQUENCE_MASK, Location, page_ref
from streamer.pages.parse import PageParser
from streamer.run.reference_indexes import ReferenceIndexes

EXAMPLES_MAX = 5

Incoming: TypeAlias = Any
"""A message of a topic, as the client library has it."""


@dataclass(slots=True)
class PromiseCheck:
    """One promise: what it says, how much was looked at, and what breaks it."""

    promise: str
    looked_at: int = 0
    violations: int = 0
    examples: list[str] = field(default_factory=list)

    def violate(self, example: str, count: int = 1) -> None:
        """Count violations; the first few examples are kept."""
        self.violations += count
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(example)


class AuditReport:
    """The checks by name, and other counts; `settled` is there only if it is asked for.

    Counts break nothing, as repeats after a crash or pages that are still on their way. Only checks
    make an audit fail.
    """

    def __init__(self, *, settled: bool = False) -> None:
        self.outcomes = PromiseCheck("each record has a verdict, or a dead letter, or is skipped")
        self.existing = PromiseCheck("each verdict and dead letter is of a record that exists")
        self.repeats = PromiseCheck("repeats of a verdict are byte-identical")
        self.places = PromiseCheck("each verdict is in the partition of its page")
        self.representatives = PromiseCheck(
            "representatives are kept, indexed earlier, similar enough"
        )
        self.kept_pairs = PromiseCheck("no two kept pages match")
        self.verdict_bytes = PromiseCheck("verdicts are those that a fresh fold of the logs gives")
        self.numbers = PromiseCheck("the verdicts of each shard are numbered without gaps")
        self.holes = PromiseCheck("each log covers its sources without holes")
        self.settled = PromiseCheck("no page is open") if settled else None
        self.counts: Counter[str] = Counter()

    @property
    def checks(self) -> dict[str, PromiseCheck]:
        """Return all checks by name, in the order in which they are shown."""
        return {
            name: value for name, value in vars(self).items() if isinstance(value, PromiseCheck)
        }

    @property
    def broken(self) -> list[str]:
        """Return the names of the checks with violations."""
        return [name for name, check in self.checks.items() if check.violations]

    def as_json(self) -> dict[str, Any]:
        """Return what the report is as JSON."""
        return {"clean": not self.broken, "checks": self.checks, "counts": self.counts}


Progress = Callable[[str, int, int], None]  # what is read, how much so far, of how much; 0: unknown
Kind = TypeVar("Kind", bound=np.generic)


class Column(Generic[Kind]):
    """A growing array of one kind."""

    def __init__(self, kind: type[Kind]) -> None:
        self._kind = kind
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self.array())

    def append(self, values: npt.ArrayLike) -> None:
        """Add values at the end, while nobody holds the array."""
        self._bytes += np.asarray(values, self._kind).tobytes()

    def array(self) -> npt.NDArray[Kind]:
        """Return all values."""
        return np.frombuffer(self._bytes, self._kind)


RECORD = 1  # the record is in the topic
DEAD = 2  # it has a dead letter
VERDICT = 4  # it has a verdict
UNIQUE = 8  # ... which says unique
ARRIVED = 16  # it is in a log
JUDGED = 32  # a fold of the logs gives its verdict
OWED = 64  # ... from a record that is committed: it must be published

Places = npt.NDArray[np.int64]


def page_name(ref: int) -> str:
    """Return how a page is named in examples."""
    return f"partition {ref >> SEQUENCE_BITS}, offset {ref & SEQUENCE_MASK}"


class PageTable:
    """Columns over all records below the `ends` of the partitions, 21 bytes a page.

    Offsets below the first one that the topic still has count as well, since the verdicts name
    them; the system gives memory only to columns that are written.

    `flags` as above; `digests` of the first verdict; `representatives` hold a place plus 1,
    `arrivals` a rank plus 1, and 0 for none. `name_of` names a page ref in examples.
    """

    def __init__(self, ends: Mapping[int, int], name_of: Callable[[int], str] = page_name) -> None:
        self._name_of = name_of
        partitions = max(ends, default=-1) + 1
        self._ends = np.array([ends.get(i, 0) for i in range(partitions)] + [0], np.int64)
        self._bases = np.cumsum(self._ends) - self._ends
        total = int(self._ends.sum())
        self.flags = np.zeros(total, np.uint8)
        self.digests = np.zeros(total, np.uint64)
        self.representatives = np.zeros(total, np.int64)
        self.arrivals = np.zeros(total, np.uint32)

    def place(self, partition: int, offset: int) -> int:
        """Return the place of a record, or -1 if there cannot be one."""
        known = 0 <= partition < len(self._ends) - 1 and 0 <= offset < self._ends[partition]
        return int(self._bases[partition]) + offset if known else -1

    def places(self, refs: npt.NDArray[np.uint64]) -> Places:
        """Return the places of page refs, -1 where there cannot be a record."""
        partitions = (refs >> np.uint64(SEQUENCE_BITS)).astype(np.int64)
        offsets = (refs & np.uint64(SEQUENCE_MASK)).astype(np.int64)
        partitions = np.minimum(partitions, len(self._ends) - 1)
        found = np.where(offsets < self._ends[partitions], self._bases[partitions] + offsets, -1)
        return found.astype(np.int64)

    def ref(self, place: int) -> int:
        """Return the page ref of the record at a place."""
        partition = int(np.searchsorted(self._bases[:-1], place, "right")) - 1
        return page_ref(partition, place - int(self._bases[partition]))

    def name(self, place: int) -> str:
        """Return how the record at a place is named in examples."""
        return self._name_of(self.ref(place))

    def mark(self, places: Places, flag: int) -> None:
        """Set a flag of the pages at `places`; those of -1 are skipped."""
        self.flags[places[places >= 0]] |= np.uint8(flag)


def place_name(place: Incoming | Location) -> str:
    """Return how a place in a topic is named in examples."""
    return f"partition {place.partition}, offset {place.offset}"


_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """An index at one moment.

    Attributes:
        page_bounds: by partition of the pages' topic, the first offset there is, and the end.
        verdict_partitions: how many partitions the topic of verdicts has.
        signed: by partition, up to where the signers have committed.
        applied: by shard, up to where its owner has committed.
        settled: whether a page that is still on its way is a violation.
        references: the other indexes that pages were compared with.
    """

    names: Names
    identity: LogIdentity
    bands: int
    page_bounds: Mapping[int, tuple[int, int]]
    verdict_partitions: int
    signed: Mapping[int, int]
    applied: Sequence[int]
    parser: PageParser
    settled: bool = False
    references: ReferenceIndexes | None = None


def digest(*parts: bytes | None) -> int:
    """Return 64 bits that differ between messages; None is not b""."""
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        found.update(b"-" if part is None else b"%d:" % len(part))
        found.update(part or b"")
    return int.from_bytes(found.digest(), "little")


def message_digest(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]
) -> int:
    """Return 64 bits that differ between messages of verdicts; their number is in none of them."""
    passed = (pair for pair in headers if pair[0] != SEQUENCE)
    return digest(key, value, *(part for name, own in passed for part in (name.encode(), own)))


class LogReading:
    """How far a log covers each of its sources, by the rule of intervals, apart from the shard.

    A record that was seen before is a repeat and harmless. A record after the mark's end is a
    hole: harmless if a later record fills it, as after a failed publish, and a loss if none does.
    """

    def __init__(self) -> None:
        self.records = 0
        self.repeats = 0
        self.ahead = 0  # records that came after a hole
        self._marks: dict[str, int] = {}
        self._furthest: dict[str, int] = {}

    def accept(self, record: Record) -> int | None:
        """Return the place of the first item that counts, or None for a record to skip."""
        self.records += 1
        if record.source == FORGET:
            return 0
        mark = self.mark(record.source)
        if record.start <= mark < record.end:
            self._marks[record.source] = record.end
            return int(np.searchsorted(record.numbers, mark))
        if record.start > mark:
            self.ahead += 1
            self._furthest[record.source] = max(self._furthest.get(record.source, 0), record.end)
        else:
            self.repeats += 1
        return None

    def mark(self, source: str) -> int:
        """Return up to where a source is covered."""
        return self._marks.get(source, 0)

    @property
    def sources(self) -> int:
        """Return how many sources there are."""
        return len({*self._marks, *self._furthest})

    def unfilled(self) -> list[tuple[str, int, int]]:
        """Return (source, mark, furthest end) of each source with a hole that nothing fills."""
        return [
            (source, self.mark(source), end)
            for source, end in sorted(self._furthest.items())
            if end > self.mark(source)
        ]
