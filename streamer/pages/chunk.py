"""A run of consecutive records of one source: as it is read, and as it is parsed.

A chunk covers the ordinals [start, end) of its source. Every ordinal is in exactly one place: a
line, a message, a WARC record, a dead letter, or a count in `skipped` (for Kafka also in a gap of
the offsets). Lines lie in one block of memory, without an object each, because reading them must
cost next to nothing; whatever cannot be a line (too long, torn off) therefore makes up a chunk of
its own. Its content alone determines where a chunk ends, so a resumed run cuts the same chunks.

A batch is what a chunk is parsed into. It covers the same ordinals, and each is in exactly one
place again: a page, a dead letter, a count in `skipped`, or a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import InvalidPage
from streamer.model import SEQUENCE_BITS
from streamer.pages.archives import Version
from streamer.pages.bytestream import Mark
from streamer.text.slices import Slices
from streamer.text.visible import Buffer

if TYPE_CHECKING:
    from streamer.pages.program_pages import GivenPage  # which imports this module

CHUNK_RECORDS_MAX = 4_000
CHUNK_BYTES_MAX = 8 << 20  # 2,000 pages of 4 kB: which share what a batch costs
PAGE_BYTES_MAX = 16 << 20  # of one record, and of whatever its body expands to
HEAD_BYTES_MAX = 64 << 10  # of a stream, by which it is known again,
HEAD_RECORDS_MAX = 64  # or so many records
KEPT_BYTES_MAX = 64 << 10  # of a record that is over the limit: enough to recognise it

PAGE_FILE = "file"

Message = tuple[int, bytes | None, bytes | None]
"""An ordinal, a key and a value, as a topic has them."""
MessageHeaders = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record on its way to the dead letters: its bytes as read (maybe cut), and why."""

    sequence: int
    code: str
    detail: str
    key: bytes | None
    value: bytes
    value_bytes: int


@dataclass(frozen=True, slots=True)
class WarcPage:
    """A WARC record that may be a page, or a file that is one, of the kind PAGE_FILE.

    `headers` are the record's own, names in lower case, first value of each; `block` is what
    follows them: for a response the HTTP headers and the body, as stored. `head` is the
    record's own headers as bytes: `head` and `block` are the record.
    """

    sequence: int
    kind: str
    headers: dict[str, str]
    block: bytes
    head: bytes = b""


Outcome = WarcPage | RejectedRecord | str
"""What becomes of a record: a page, a dead letter, or the code that it is skipped with."""


class Part(NamedTuple):
    """All records of a small file in a chunk of several: the records [first, end) of the chunk.

    `mark` and `amount` are as in a chunk of the file alone, `status` as in `ByteStream`.
    """

    source: int
    first: int
    end: int
    amount: int
    mark: Mark
    status: tuple[int, ...]


@dataclass(slots=True)
class Chunk:
    """Consecutive records [start, end) of source number `source`: lines, messages, or WARC records.

    Attributes:
        amount: how much is read when it is, for progress only: bytes as stored, compressed or not.
        lines: line i has the ordinal start + i; where there are lines, there is nothing else.
        messages: ascending; offsets may have gaps.
        given: page i has the ordinal start + i, as of lines.
        dead, skipped: what cannot be a record of the three.
        mark: where in the expanded stream the chunk ends, as the catalogue keeps it; nothing for a
            topic, whose offsets name the same messages as long as it has the same id.
        heads: where the first records of the stream end, as far as they are in it.
        times: those of the messages in milliseconds, where a topic has them.
        headers: those of the messages, where a topic has them.
        is_raw: the value of a message is the body of its page, as its parser knows.
        expected_pages: the ordinals of what must be a page, where that is known.
        tombstones: ordinals of messages without a value that mean to forget, and their keys.
        archives: those that its records were read from by a list of their places, by key.
        parts: the small files of which it holds all records, one after the other. Its ordinals
            count the records of all of them, and `source` is not used.
        held_bytes: what the records hold in memory that were taken one by one (`add`).
    """

    start: int
    end: int
    amount: int = 0
    lines: Slices = field(default_factory=Slices.joined)
    messages: list[Message] = field(default_factory=list)
    given: list[GivenPage] = field(default_factory=list)
    pages: list[WarcPage] = field(default_factory=list)
    dead: list[RejectedRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    mark: Mark = field(default_factory=Mark)
    heads: list[Mark] = field(default_factory=list)
    source: int = -1
    times: list[int] = field(default_factory=list)
    headers: list[MessageHeaders] = field(default_factory=list)
    is_raw: bool = False
    expected_pages: list[int] | None = None
    tombstones: list[tuple[int, bytes]] = field(default_factory=list)
    archives: dict[str, Version] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    held_bytes: int = 0

    def add(self, outcome: Outcome, mark: Mark, amount: int) -> None:
        """Take what becomes of the next record, which ends at `mark`; `amount` is read by then."""
        if isinstance(outcome, str):
            self.skipped[outcome] += 1
        elif isinstance(outcome, RejectedRecord):
            self.dead.append(outcome)
            self.held_bytes += len(outcome.value)
        else:
            self.pages.append(outcome)
            self.held_bytes += len(outcome.block)
        self.end += 1
        self.mark, self.amount = mark, amount
        if self.end <= HEAD_RECORDS_MAX and (self.end == 1 or mark.offset <= HEAD_BYTES_MAX):
            self.heads.append(mark)

    @property
    def is_full(self) -> bool:
        """Whether it has as many records as a chunk holds, or as many bytes."""
        return self.held_bytes >= CHUNK_BYTES_MAX or self.end - self.start >= CHUNK_RECORDS_MAX

    @property
    def table(self) -> int:
        """The table of sites that learns its pages: one for each partition of a topic, else 0."""
        return self.source + 1 if self.times else 0

    def refs(self) -> npt.NDArray[np.uint64]:
        """Return the page refs of all records of small files."""
        parts = np.array([part[:3] for part in self.parts], np.int64).reshape(-1, 3)
        sources, firsts, ends = parts.T
        own = np.repeat((sources << SEQUENCE_BITS) - firsts, ends - firsts)
        return (own + np.arange(len(own))).astype(np.uint64)


_LISTS = "sequences", "message_keys", "urls", "flags", "carried", "times", "scopes"  # of a batch


@dataclass(slots=True)
class PageBatch:
    """Pages as parallel lists, one entry a page, ascending by `sequences`.

    `urls` are UTF-8. `bodies` are too (as far as the source is honest), marked by `flags` as
    text/visible.py has them, best in one block; `carried` holds one JSON object a page as bytes,
    empty where nothing is carried. `times` are milliseconds since 1970, 0 where nothing says: of a
    message in a topic its own, else when the page was fetched. `by_rule` are the ordinals of pages
    that a rule leaves out. `scopes` holds the scope of each page, and nothing if there is only one.
    `headers` are those of messages by ordinal, where a message's value is the body of its page.
    `lost` is what a wrong charset has lost of the characters in each of the first pages, and how
    many there are.
    """

    start: int
    end: int
    sequences: list[int] = field(default_factory=list)
    message_keys: list[bytes | None] = field(default_factory=list)
    urls: list[bytes] = field(default_factory=list)
    bodies: Sequence[Buffer] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    carried: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    dead: list[RejectedRecord] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    by_rule: list[int] = field(default_factory=list)
    scopes: list[bytes] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    headers: dict[int, MessageHeaders] | None = None

    def __len__(self) -> int:
        return len(self.sequences)

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Leave out all pages but the `kept` ones from the lists; `bodies` are the caller's."""
        if not kept.all():
            for name in _LISTS:
                setattr(self, name, list(compress(getattr(self, name), kept.tolist())))


@dataclass(slots=True)
class Ending:
    """How the reading of a source ended.

    Attributes:
        damage: why the rest of it cannot be read, and where; "" where all was read.
        unended_bytes: of a last line that has no end yet and was left for that.
    """

    damage: str = ""
    unended_bytes: int = 0


def rejected(
    sequence: int, fault: InvalidPage, value: bytes, key: bytes | None = None, size: int = -1
) -> RejectedRecord:
    """Return the dead letter of a record of `size` bytes that begins with `value`, or is that."""
    kept, size = (value, len(value)) if size < 0 else (value[:KEPT_BYTES_MAX], size)
    return RejectedRecord(sequence, fault.code, fault.detail, key, kept, size)


def over_limit(
    sequence: int, head: bytes, value_bytes: int, key: bytes | None = None
) -> RejectedRecord:
    """Return the dead letter of a record that is over the page limit; `head` is how it begins."""
    fault = InvalidPage("record_too_large", f"{value_bytes} bytes")
    return rejected(sequence, fault, bytes(head), key, value_bytes)
