"""Turn messages into records of a shard's log: parse and sign a chunk of one partition.

The record covers [start, end) of the partition: everything that was read, including dead letters,
deletions and gaps. It is written even if no page is left, since a reader takes no record after a
hole.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamer.index.messages import Forget, Headers, Pages, Record, source_records
from streamer.kafka.publisher import headers_within
from streamer.kafka.reader import Fetched
from streamer.kafka.topics import LOG_BYTES_MAX
from streamer.kafka.wire import LogIdentity, pack_record
from streamer.pages.chunk import Chunk, PageBatch, RejectedRecord
from streamer.pages.parse import PageParser, tombstones_in
from streamer.pages.schema_registry import add_frame
from streamer.run.stages import OneAThread, sign
from streamer.sketch.signer import PageSigner
from streamer.sketch.site_memory import SiteMemory
from streamer.sketch.site_signer import SiteSigner

KEY_BYTES_MAX = 64 << 10  # of a page's key that is carried to its verdict
HEADERS_MAX = 32  # of a page that are passed on
PASSED_BYTES_MAX = 8 << 10  # of these, names included: what W3C's baggage may have at least
RECORD_BYTES_MAX = LOG_BYTES_MAX - (64 << 10)  # the batch around it


@dataclass(frozen=True, slots=True)
class Signed:
    """What became of a chunk: its records for the log, one as a rule, and what is no page.

    `dead` holds each rejected record with the message that it was; `table` has learned of its sites
    in `turn`;
    `alone` is how many pages have no key that others may share: none, or their own URL.
    """

    records: list[bytes]
    partition: int
    end: int
    pages: int
    dead: list[tuple[RejectedRecord, Any]]
    skipped: Counter[str]
    timestamp: int | None  # of the oldest message, in milliseconds
    alone: int = 0
    table: SiteMemory | None = None
    turn: int = 0


@dataclass
class ChunkSigner:
    """Signs chunks; safe to use from several threads, each of which gets a signer of its own."""

    parser: PageParser
    _make_signer: Callable[[], PageSigner]
    _identity: LogIdentity
    takes_tombstones: bool = False
    pass_headers: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._signers = OneAThread(self._make_signer)

    def _parse(self, chunk: Fetched) -> PageBatch:
        messages = Chunk(chunk.start, chunk.end)
        for each in chunk.records:
            key = each.key if len(each.key or b"") <= KEY_BYTES_MAX else None
            messages.messages.append((each.offset, key, add_frame(each.value, each.headers)))
            messages.times.append(max(0, each.timestamp))
            messages.headers.append(each.headers)
        return self.parser.parse(messages)

    def learn(self, chunk: Fetched, table: SiteMemory) -> None:
        """Have a table learn the pages of a chunk, which are signed already."""
        batch, signer = self._parse(chunk), self._signers.get()
        assert isinstance(signer, SiteSigner), "there is a table"
        signer.in_turn(table, 0).learn(batch.bodies, batch.flags, batch.urls)

    def sign(self, chunk: Fetched, table: SiteMemory | None = None, turn: int = 0) -> Signed:
        """Parse and sign a chunk, which a table learns in its turn.

        A page with a key over KEY_BYTES_MAX is taken for one without a key.
        """
        batch = self._parse(chunk)
        signer = self._signers.get()
        if table is not None and isinstance(signer, SiteSigner):
            signer = signer.in_turn(table, turn)
        pages = sign(signer, chunk.partition, batch)
        if self.pass_headers:
            given = {each.offset: each.headers for each in chunk.records if each.headers}
            own = (given.get(at, ()) for at in batch.sequences)
            passed = [select_headers(each, self.pass_headers) for each in own]
            pages.headers = passed if any(passed) else None
        messages = ((each.offset, each.key, each.value) for each in chunk.records)
        gone = tombstones_in(messages) if self.takes_tombstones else []
        records = source_records(chunk.partition, chunk.start, chunk.end, pages, gone)
        keys = zip(pages.message_keys, pages.urls, strict=True)
        alone = sum(key is None or key == url for key, url in keys)
        originals = {message.offset: message for message in chunk.records} if batch.dead else {}
        return Signed(
            [packed for each in records for packed in pack_records(each, self._identity)],
            chunk.partition,
            chunk.end,
            len(pages),
            [(letter, originals[letter.sequence]) for letter in batch.dead],
            batch.skipped,
            min((message.timestamp for message in chunk.records), default=None),
            alone if self._identity.per_partition else 0,
            table,
            turn,
        )


def pack_records(record: Record, identity: LogIdentity) -> list[bytes]:
    """Return a record as bytes, cut in two as often as it is larger than the log takes."""
    packed, items = pack_record(record, identity), record.items
    half = len(record.numbers) // 2
    if len(packed) <= RECORD_BYTES_MAX or not half:
        return [packed]
    middle = int(record.numbers[half])
    assert isinstance(items, Pages | Forget), type(items)
    first, second = range(half), range(half, len(record.numbers))
    first_half = replace(record, end=middle, numbers=record.numbers[:half], items=items.take(first))
    second_half = replace(
        record, start=middle, numbers=record.numbers[half:], items=items.take(second)
    )
    return pack_records(first_half, identity) + pack_records(second_half, identity)


def select_headers(headers: Iterable[tuple[str, bytes | None]], names: Collection[str]) -> Headers:
    """Return the headers of these names that have a value, in order.

    One that is over HEADERS_MAX, or for which PASSED_BYTES_MAX have no room, is left out.
    """
    own = (each for each in headers if each[0] in names)
    return headers_within(own, PASSED_BYTES_MAX)[:HEADERS_MAX]
