"""One shard's log under audit: read by the rule, folded afresh, and all that it gives noted down.

The fold tells which verdict has which number, and what other shards are told. When a page arrived
at a shard is its rank there: a representative must have come before the page itself, or, where the
page was held back, before its verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.index.records import Decisions, Pages, Record, Verdicts, shard_name
from streamer.index.settings import IndexSettings
from streamer.kafka.audit.columns import Column
from streamer.kafka.audit.fold import FreshShard
from streamer.kafka.audit.pairs import KeptPages
from streamer.kafka.audit.reading import LogReading
from streamer.kafka.audit.report import Report
from streamer.kafka.audit.scene import Scene, digest
from streamer.kafka.audit.streams import Streams
from streamer.kafka.audit.table import ARRIVED, JUDGED, OWED, PageTable, Places
from streamer.kafka.verdict_messages import topic_locator, verdict_messages
from streamer.kafka.wire import unpack_record
from streamer.model import SIMILARITY_ONE

_SHARD = shard_name(0)[:-1]  # what the name of a shard as a source begins with


@dataclass(slots=True)
class ExpectedVerdicts:
    """The verdicts that the fold of one shard gives, by number, in columns.

    Attributes:
        digests: uint64, over key and value.
        limits: uint32, of the ranks that a representative may have at the shard: below that.
        least: int32, the similarity that a duplicate must have, in ten-thousandths.
        owed: whether it was emitted at a record that is committed.
        seen: whether it was found published.
    """

    digests: npt.NDArray[np.uint64]
    limits: npt.NDArray[np.uint32]
    least: npt.NDArray[np.int32]
    owed: npt.NDArray[np.bool_]
    seen: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.digests)


class ShardLog:
    """Audits the log of shard `number`, with its scratch index in `folder`."""

    def __init__(
        self,
        scene: Scene,
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
        self._fresh = FreshShard(folder, number, scene.shards, scene.bands)
        self._locate = topic_locator(scene.names.pages)
        self._arrived = 0
        self._least = SIMILARITY_ONE  # that any settings so far have asked for
        self._digests = Column(np.uint64)
        self._limits = Column(np.uint32)
        self._leasts = Column(np.int32)
        self._owed = Column(np.bool_)

    def take(self, offset: int, data: bytes) -> None:
        """Take the record at `offset`, which follows the one before.

        Raises:
            StoreMismatch: it is not a record of this index, or the log has no beginning.
        """
        record = unpack_record(data, self._scene.identity)
        first = self.reading.accept(record)
        before = self._arrived
        if first is not None:
            self._note_taken(record, first, judged=offset < self._scene.judged_ends[self._number])
        owed = offset < self._scene.applied[self._number]
        for output in self._fresh.apply(record):
            if isinstance(output.items, Verdicts):
                self._note_verdicts(output.items, output.start, before, owed=owed)
            else:
                to = int(output.destination.removeprefix(_SHARD))
                self._streams.note_sent(self._number, to, output.items, owed=owed)

    def _note_taken(self, record: Record, first: int, *, judged: bool) -> None:
        items = record.items
        if isinstance(items, IndexSettings):
            self._kept.note_settings(items)
            self._least = min(self._least, items.similarity_min)
            return
        if self._fresh.shard.settings is None:
            raise StoreMismatch(
                f"The log of shard {self._number} does not begin with settings: its beginning is "
                "lost. Restore it, or use another --index-name."
            )
        if isinstance(items, Pages):
            places = self._table.places(items.refs[first:])
            ranks = np.arange(self._arrived + 1, self._arrived + 1 + len(places))
            known = places >= 0
            self._table.arrivals[self._number][places[known]] = ranks[known]
            self._arrived += len(places)
            if self._number == 0:
                self._table.mark(places, ARRIVED)
        if record.source.startswith(_SHARD):
            source = int(record.source.removeprefix(_SHARD))
            self._streams.note_received(source, self._number, _from(items, first), judged=judged)

    def _note_verdicts(self, block: Verdicts, start: int, before: int, *, owed: bool) -> None:
        """Note verdicts, numbered from `start` on; `before`: pages that came in earlier records."""
        scene, count = self._scene, len(block)
        places = self._table.places(block.pages.refs)
        self._table.mark(places, JUDGED | OWED if owed else JUDGED)
        by_partition = verdict_messages(
            block, self._number, start, self._locate, scene.identity.fingerprint,
            scene.verdict_partitions,
        )  # fmt: skip
        digests = np.zeros(count, np.uint64)
        for messages in by_partition.values():
            for key, value, headers, _ in messages:
                digests[int(headers[0][1].partition(b":")[2]) - start] = digest(key, value)
        ranks = self._ranks(places)
        held = ranks <= before
        settings = self._fresh.shard.settings
        assert settings is not None, "a verdict before any settings"
        self._digests.append(digests)
        self._limits.append(np.where(held, self._arrived + 1, ranks))
        self._leasts.append(np.where(held, self._least, settings.similarity_min))
        self._owed.append(np.full(count, owed))
        self._kept.add(block.pages.take(np.flatnonzero(block.similarities < 0)))

    def _ranks(self, places: Places) -> npt.NDArray[np.int64]:
        """Return the ranks plus 1 of pages at this shard; 0 for what cannot be a page."""
        ranks, known = np.zeros(len(places), np.int64), places >= 0
        ranks[known] = self._table.arrivals[self._number][places[known]]
        return ranks

    def close(self) -> None:
        """Release the scratch index."""
        self._fresh.close()

    def finish(self, report: Report) -> ExpectedVerdicts:
        """Report on the log itself; return the verdicts that must be out."""
        reading = self.reading
        report.holes.looked_at += reading.sources
        for source, mark, end in reading.unfilled():
            report.holes.violate(
                f"the log of shard {self._number} lacks {source} from {mark} on; there is more up "
                f"to {end}"
            )
        report.counts["log records"] += reading.records
        report.counts["log records passed over, seen before"] += reading.repeats
        report.counts["log records passed over, behind a hole"] += reading.ahead
        self._kept.note_refused(self._number, self._fresh.shard.refused)
        return ExpectedVerdicts(
            self._digests.array(), self._limits.array(), self._leasts.array(), self._owed.array(),
            np.zeros(len(self._digests), np.bool_),
        )  # fmt: skip


def _from(items: Pages | Decisions, first: int) -> Pages | Decisions:
    """Return the items from the place `first` on."""
    if isinstance(items, Pages):
        return items.take(range(first, len(items)))
    return Decisions(items.refs[first:], items.kept[first:])
