"""A log under audit: read by the rule, folded again, and all that it gives noted down.

The fold shows which verdict has which number.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamer.analysis.audit import facts
from streamer.analysis.audit.folded import ExpectedVerdicts, FoldedVerdicts
from streamer.analysis.audit.kept_pages import KeptPages
from streamer.errors import StoreMismatch
from streamer.index.messages import Items, Pages, Verdicts
from streamer.index.settings import IndexSettings
from streamer.kafka.log_upkeep import FreshShard
from streamer.kafka.owner import verdict_messages
from streamer.kafka.wire import unpack_record


@dataclass
class LogAudit:
    """Audits the log of a shard, by its number, with its scratch index in a folder."""

    _target: facts.AuditTarget
    _number: int
    _folder: Path
    _table: facts.PageTable
    _kept: KeptPages

    def __post_init__(self) -> None:
        target = self._target
        self.reading = facts.LogReading()
        self._fresh = FreshShard(self._folder, target.bands, target.references)
        self._folded = FoldedVerdicts(self._table, self._kept)

    def take(self, message: facts.Incoming) -> None:
        """Take the next record of the log.

        Raises:
            StoreMismatch: it is not a record of this index, or the log has no beginning.
        """
        record = unpack_record(message.value or b"", self._target.identity)
        first = self.reading.accept(record)
        if first is not None:
            self._note_taken(record.items, first)
        output = self._fresh.take(record)
        if output is not None:
            owed = message.offset < self._target.applied[self._number]
            self._note_verdicts(output.verdicts, output.start, owed=owed)

    def _note_taken(self, items: Items, first: int) -> None:
        if isinstance(items, IndexSettings):
            self._folded.note_settings(items)
            return
        if self._fresh.shard.settings is None:
            raise StoreMismatch(
                f"The log of shard {self._number} does not begin with settings: its beginning is "
                "lost. Restore it, or use another --index-name."
            )
        if isinstance(items, Pages):
            self._table.mark(self._folded.note_arrived(items.refs[first:]), facts.ARRIVED)
        else:
            self._kept.forget(items.terms[first:])

    def _note_verdicts(self, block: Verdicts, start: int, *, owed: bool) -> None:
        """Note verdicts, numbered from `start` on."""
        target = self._target
        by_partition = verdict_messages(
            block, self._number, start, target.names.pages, target.identity.fingerprint,
            target.verdict_partitions,
        )  # fmt: skip
        digests = np.zeros(len(block), np.uint64)
        for messages in by_partition.values():
            for key, value, headers, _ in messages:
                number = int(headers[0][1].partition(b":")[2])
                digests[number - start] = facts.message_digest(key, value, headers)
        self._folded.note_verdicts(block, digests, owed=owed)

    def close(self) -> None:
        """Release the scratch index."""
        self._fresh.close()

    def finish(self, report: facts.AuditReport) -> ExpectedVerdicts:
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
        report.counts["log records skipped, after a hole"] += reading.ahead
        self._kept.note_refused(self._fresh.shard.refused)
        return self._folded.finish()
