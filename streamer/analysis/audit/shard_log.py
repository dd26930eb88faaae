"""One shard's log under audit: read by the rule, folded afresh, and all that it gives noted down.

The fold tells which verdict has which number, and what other shards are told. For each pair of
shards, what a fold sends is held against what a log holds.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.analysis.audit.folded import ExpectedVerdicts, FoldedVerdicts
from streamer.analysis.audit.kept_pages import KeptPages
from streamer.analysis.audit.scene import (
    ARRIVED,
    AuditReport,
    AuditTarget,
    Column,
    LogReading,
    PageTable,
    PromiseCheck,
    digest,
    message_digest,
)
from streamer.errors import StoreMismatch
from streamer.index.forgetting import REF, REPLACED, RETIRED
from streamer.index.memtable import HEAD_PAGES
from streamer.index.messages import (
    Decisions,
    Forget,
    Output,
    Pages,
    Record,
    Verdicts,
    shard_name,
)
from streamer.index.settings import IndexSettings
from streamer.kafka.owner import topic_locator, verdict_messages
from streamer.kafka.wire import unpack_record
from streamer.run.index_folder import Identity
from streamer.run.judge import LOG_FLUSHES, Judge, JudgeOptions
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.stored.store import Store

Digests = npt.NDArray[np.uint64]


_SHARD = shard_name(0)[:-1]  # what the name of a shard as a source begins with
_KEPT_BIT = np.uint64(63)  # of a page ref; no topic has so many partitions


def item_digests(items: Pages | Decisions | Forget) -> Digests:
    """Return 64 bits an item, over all that the receiving shard makes use of."""
    if isinstance(items, Forget):
        terms = [digest(repr(term).encode(), items.ask.encode()) for term in items.terms]
        return np.array(terms, np.uint64)
    if isinstance(items, Decisions):
        decided: Digests = items.refs ^ (items.kept.astype(np.uint64) << _KEPT_BIT)
        return decided
    numbers = zip(
        items.refs, items.keys, items.sketches, items.distinct, items.tokens, items.text_bytes,
        items.times, items.watermarks, strict=True,
    )  # fmt: skip
    sets = [None] * len(items) if items.shingles is None else items.shingles
    main = [None] * len(items) if items.main is None else [m.tobytes() for m in items.main]
    renews = [None] * len(items) if items.renews is None else [r.tobytes() for r in items.renews]
    matches = [None if not each else repr(each).encode() for each in items.matches or ()]
    held = items.replacements
    arrived = [None] * len(items) if held is None else [each.tobytes() for each in held]
    passed = [None if not each else repr(each).encode() for each in items.headers or ()]
    passed = passed or [None] * len(items)
    texts = zip(
        items.urls,
        items.message_keys,
        items.carried,
        main,
        sets,
        arrived,
        passed,
        renews,
        matches or [None] * len(items),
        strict=True,
    )
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

    def note_sent(
        self, source: int, to: int, items: Pages | Decisions | Forget, *, owed: bool
    ) -> None:
        """Take what the fold of `source` emits; `owed` if that was committed."""
        stream = self._streams[source, to]
        stream.sent.append(item_digests(items))
        if owed:
            stream.owed = len(stream.sent)

    def note_received(
        self, source: int, to: int, items: Pages | Decisions | Forget, *, judged: bool
    ) -> None:
        """Take the items of a record in the log of `to` that count."""
        stream = self._streams[source, to]
        stream.received.append(item_digests(items))
        if judged:
            stream.judged = len(stream.received)

    def compare(self, check: PromiseCheck) -> None:
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


class FreshShard(Judge):
    """Folds records into an index in `folder`, which must be empty.

    It needs no key, since signatures come from the log. Flushes keep its memory bounded, and their
    moments show in no output.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        shards: int,
        bands: int,
        head_pages: int = HEAD_PAGES,
        references: ReferenceIndexes | None = None,
    ) -> None:
        store = Store.open(folder / "store")
        identity: Identity = {"bands": bands, "shards": shards}
        options = JudgeOptions(LOG_FLUSHES, head_pages, references=references)
        super().__init__(store, identity, [number], options)

    def take(self, record: Record) -> list[Output]:
        """Apply a record; return what it makes the shard emit.

        Raises:
            StoreMismatch: as `Shard.apply`.
            StoreUnavailable: the scratch disk refuses.
        """
        outputs = self.apply(record)
        if self.flush_is_due:
            self.begin_flush(lambda: b"")
        return outputs


class LogAudit:
    """Audits the log of shard `number`, with its scratch index in `folder`."""

    def __init__(
        self,
        scene: AuditTarget,
        number: int,
        folder: Path,
        table: PageTable,
        streams: Streams,
        kept: KeptPages,
    ) -> None:
        self.reading = LogReading()
        self._scene = scene
        self._number = number
        self._table = table
        self._streams = streams
        self._kept = kept
        self._fresh = FreshShard(
            folder, number, scene.shards, scene.bands, references=scene.references
        )
        self._locate = topic_locator(scene.names.pages)
        self._folded = FoldedVerdicts(number, scene.shards, table, kept)

    def take(self, offset: int, data: bytes) -> None:
        """Take the record at `offset`, which follows the one before.

        Raises:
            StoreMismatch: it is not a record of this index, or the log has no beginning.
        """
        record = unpack_record(data, self._scene.identity)
        items = record.items
        if isinstance(items, IndexSettings) and items.shards != self._scene.shards:
            return  # the log ends: the index was given other shards, and logs of their own
        first = self.reading.accept(record)
        before = self._folded.arrived
        if first is not None:
            self._note_taken(record, first, judged=offset < self._scene.judged_ends[self._number])
        owed = offset < self._scene.applied[self._number]
        for output in self._fresh.take(record):
            if isinstance(output.items, Verdicts):
                self._note_verdicts(output.items, output.start, before, owed=owed)
            else:
                self._streams.note_sent(self._number, output.destination, output.items, owed=owed)
                if isinstance(output.items, Forget):
                    own = [
                        term for term in output.items.terms if term[0] in {REPLACED, RETIRED, REF}
                    ]
                    self._kept.forget(self._folded.kept_before, own)

    def _note_taken(self, record: Record, first: int, *, judged: bool) -> None:
        items = record.items
        if isinstance(items, IndexSettings):
            self._folded.note_settings(items)
            return
        if self._fresh.shard.settings is None:
            raise StoreMismatch(
                f"The log of shard {self._number} does not begin with settings: its beginning is "
                "lost. Restore it, or use another --index-name."
            )
        if isinstance(items, Pages) and items.matches is None:  # others have arrived before
            places = self._folded.note_arrived(items.refs[first:])
            if self._number == 0:
                self._table.mark(places, ARRIVED)
        elif isinstance(items, Forget):
            self._kept.forget(self._folded.kept_before, items.terms[first:])
        if record.source.startswith(_SHARD):
            source = int(record.source.removeprefix(_SHARD))
            self._streams.note_received(
                source, self._number, items.take(range(first, len(items))), judged=judged
            )

    def _note_verdicts(self, block: Verdicts, start: int, before: int, *, owed: bool) -> None:
        """Note verdicts, numbered from `start` on; `before`: pages that came in earlier records."""
        scene = self._scene
        by_partition = verdict_messages(
            block, self._number, start, self._locate, scene.identity.fingerprint,
            scene.verdict_partitions,
        )  # fmt: skip
        digests = np.zeros(len(block), np.uint64)
        for messages in by_partition.values():
            for key, value, headers, _ in messages:
                number = int(headers[0][1].partition(b":")[2])
                digests[number - start] = message_digest(key, value, headers)
        self._folded.note_verdicts(block, digests, before, owed=owed)
        self._note_retired_late(block.pages)

    def _note_retired_late(self, pages: Pages) -> None:
        """Note which pages that were held had their URLs replaced before they were kept."""
        if pages.replacements is None:
            return
        forgetting = self._fresh.shard.forgetting
        columns = zip(pages.urls, pages.refs.tolist(), pages.replacements.tolist(), strict=True)
        late = [(REF, ref) for url, ref, at in columns if forgetting.is_replaced_since(url, at)]
        self._kept.forget(self._folded.kept_before, late)

    def close(self) -> None:
        """Release the scratch index."""
        self._fresh.close()

    def finish(self, report: AuditReport) -> ExpectedVerdicts:
        """Report on the log itself; return the verdicts that must be out."""
        reading = self.reading
        report.holes.looked_at += reading.sources
        for source, mark, end in reading.unfilled():
            report.holes.violate(
                f"the log of shard {self._number} lacks {source} from {mark} on; there is more up "
                f"to {end}"
            )
        report.counts["log records"] += reading.records
        report.counts["log records skipped, seen before"] += reading.repeats
        report.counts["log records skipped, behind a hole"] += reading.ahead
        self._kept.note_refused(self._number, self._fresh.shard.refused)
        return self._folded.finish()
