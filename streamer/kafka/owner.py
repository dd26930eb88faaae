"""The owner of a shard: its log folded into an index on disk, and what that emits as messages.

What is stored at a flush is a state of the log at one position. After any end the owner goes on
from that position; records before the group's committed offset are applied, and what they emit is
out already. Whether a store fits its log is checked before anything is read.

Verdicts are co-partitioned with the pages, keyed as they were, with their number: the header
`streamer.sequence` holds SHARD:NUMBER. Numbers rise within a partition; where they fall back, a
restarted owner repeats the same bytes. Most readers need no header: they upsert by page.

Nothing here talks to Kafka: messages are made here, and sent by shard_app.py.
"""

# The first record of each log is a CONFIG record with the fingerprint and the id of the pages'
# topic, so a worker with another key, other settings or recreated pages is refused before it
# writes. If two workers race, the interval rule ignores the second record. Headers that pass to
# verdicts are a column of the log, since owners never see messages; a traceparent takes 70 bytes of
# log a page. Records carry the timestamp of their oldest page, for the latency of verdicts.

import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from streamer.errors import StreamerError, on_failure
from streamer.index.codec import Entry
from streamer.index.messages import Output, Pages, Record, Verdicts
from streamer.index.ports import FlushedRows, Found
from streamer.kafka import wire
from streamer.kafka.publisher import Message
from streamer.kafka.reader import Fetched
from streamer.kafka.role_metrics import ShardMetrics
from streamer.model import Location, split_ref
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import LOG_FLUSHES, Judge, JudgeOptions
from streamer.run.stages import verdicts
from streamer.sketch.settings import SignatureSettings
from streamer.upkeep.snapshots import RegularSnapshots

SEQUENCE = "streamer.sequence"

ReadRecord = tuple[Record, Found | None]  # a record of the log, and what was found for its pages
Emitted = tuple[Any, Output | None]  # a message of the log, and the verdicts that it leads to

_OPTIONS = JudgeOptions(LOG_FLUSHES)
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger()


class Owner(Judge):
    """The judge of one shard, whose state is that of its log, in the index folder `path`.

    `read` may run in any thread, some chunks ahead of the judgement; all else is for one thread, in
    the order of the log. `snapshots` are taken of flushes, and cause one when they are due.

    Raises:
        StoreMismatch: the folder belongs to another shard, another log or other settings.
        StoreUnavailable: it is in use, or the disk refuses.
    """

    def __init__(
        self,
        path: Path,
        log: wire.ShardLog,
        signature: SignatureSettings,
        key_file: Path,
        options: JudgeOptions = _OPTIONS,
        snapshots: RegularSnapshots | None = None,
    ) -> None:
        self.number, self.identity, self.log_id = log.number, log.identity, log.topic_id
        self._path = path
        self._newest = b""  # record that was applied
        self._snapshots = snapshots
        folder = IndexFolder.open(path, signature, key_file)
        self.fingerprint, meta = folder.fingerprint, folder.store.meta
        wanted = wire.LogPosition(log.identity.origin, log.topic_id, log.number)
        with on_failure(folder.store.close):
            self._at = wire.fitting_position(path, meta.owner, wanted) if meta else wanted
            super().__init__(folder.store, folder.identity, options, folder.secret)

    @property
    def offset(self) -> int:
        """Return the offset of the first record of the log that is not applied."""
        return self._at.offset

    @property
    def stored_offset(self) -> int:
        """Return the offset up to which the store on disk is; all before it has been emitted."""
        meta = self.store.meta
        found = wire.read_position(meta.owner) if meta else None
        return found.offset if found else 0

    def holes(self) -> list[str]:
        """Return where records are missing from the log, a sentence for each source."""
        shard = self.shard
        return [
            f"shard {self.number} misses records of {source} from {shard.positions.get(source, 0)} "
            f"on, and judges none of those up to {end}"
            for source, end in shard.missing.copy().items()
        ]

    def check(self, bounds: wire.LogBounds) -> None:
        """See that the log goes on where this store is.

        Raises:
            StoreMismatch: it begins later, ends before, or holds another record there.
        """
        wire.check_bounds(self._path, self._at, bounds)

    def show_in(self, metrics: ShardMetrics) -> None:
        """Show what is on disk, now and after each flush, and work on it that fails."""

        def show() -> None:
            rows = self.store.meta.rows if self.store.meta else 0
            try:
                size, free = self.store.size_bytes(), shutil.disk_usage(self._path).free
                metrics.observe_store(rows, size, self.lookup, self.stored_offset, free)
            except OSError as error:
                _log.warning("metrics_incomplete", shard=self.number, reason=str(error))

        self.store.failed = metrics.count_failure
        self.observe(metrics.stage, show)
        show()

    def read(self, chunk: Fetched) -> list[ReadRecord]:
        """Unpack a chunk's records, and look up what their pages will ask for; in any thread.

        Raises:
            StoreMismatch: a record is of another version, or not of this index.
        """
        records = [wire.unpack_record(message.value, self.identity) for message in chunk.records]
        return [
            (record, self.shard.look_up(pages) if isinstance(pages, Pages) and len(pages) else None)
            for record, pages in ((each, each.items) for each in records)
        ]

    def fold(self, chunk: Fetched, read: Sequence[ReadRecord]) -> list[Emitted]:
        """Apply a chunk that is read; return its messages, each with what it leads to.

        What is applied already is skipped, and left out.

        Raises:
            StreamerError: records between what is applied and this chunk were not delivered.
            StoreMismatch: a CONFIG record asks for what this program does not have.
        """
        if chunk.start > self.offset:
            raise StreamerError(
                f"The log of shard {self.number} was delivered from {chunk.start} on, the "
                f"index is at {self.offset}. Start the worker again."
            )
        emitted = []
        for message, (record, found) in zip(chunk.records, read, strict=True):
            if message.offset >= self.offset:
                end = message.offset + 1
                emitted.append((message, self.apply(record, found, end - self.offset)))
                self._at.offset, self._newest = end, message.value
        return emitted

    @property
    def flush_is_due(self) -> bool:
        """Return whether a flush is due, by the judge's rules or for a snapshot."""
        return super().flush_is_due or self._snapshot_is_due(changed=self.changed)

    def _snapshot_is_due(self, *, changed: bool) -> bool:
        meta = self.store.meta
        flush = meta.seq if meta else 0
        return self._snapshots is not None and self._snapshots.is_due(flush, changed=changed)

    def _flush(
        self, flushed: FlushedRows, owner_state: Callable[[], bytes], notes: Sequence[Entry] = ()
    ) -> None:
        super()._flush(flushed, owner_state, notes)
        if self._snapshots is not None and self._snapshot_is_due(changed=False):
            self._snapshots.begin(self.store)

    def stop(self) -> None:
        """End the threads of flushes and snapshots."""
        super().stop()
        if self._snapshots is not None:
            self._snapshots.stop()

    def state(self) -> bytes:
        """Return where the index is in its log, for a flush that begins now."""
        if self._newest:
            self._at.digest = wire.record_digest(self._newest)
        return msgspec.msgpack.encode(self._at)


def verdict_messages(
    block: Verdicts, shard: int, start: int, topic: str, fingerprint: str, partitions: int
) -> dict[int, list[Message]]:
    """Return the messages of a block by partition; `start` is the number of its first verdict.

    `topic` is that of the pages.
    """

    def locate(ref: int) -> Location:
        partition, offset = split_ref(ref)  # a source's number is its partition's
        return Location(topic, partition, offset)

    result: dict[int, list[Message]] = defaultdict(list)
    pages, headers = block.pages, block.pages.headers or [[]] * len(block)
    found = verdicts(block, locate, fingerprint)
    rows = zip(found, pages.message_keys, pages.urls, headers, strict=True)
    for number, (verdict, key, url, passed) in enumerate(rows, start):
        own = [(SEQUENCE, b"%d:%d" % (shard, number)), *passed]
        message = (url if key is None else key, _encode(verdict), own, None)
        result[verdict.page.partition % partitions].append(message)
    return result
