"""The counts of what became of records: an index keeps them, and a run reports them at its end."""

from __future__ import annotations

import msgspec
import numpy as np

from streamer.index.messages import Verdicts
from streamer.index.rule import BASIS_NAMES, TOO_SHORT
from streamer.index.url_versions import count_changes
from streamer.pages.chunk import PageBatch


class Totals(msgspec.Struct):
    """What became of all records, up to the positions in the catalogue."""

    records: int = 0
    unique: int = 0
    duplicates: dict[str, int] = {}
    too_short: int = 0
    dead: dict[str, int] = {}
    skipped: dict[str, int] = {}
    changes: dict[str, int] = {}

    def add_verdicts(self, block: Verdicts) -> None:
        """Count the verdicts of a block."""
        duplicate = block.similarities >= 0
        found = np.bincount(block.basis[duplicate], minlength=len(BASIS_NAMES)).tolist()
        self.unique += len(block) - sum(found)
        self.too_short += int(np.count_nonzero(block.basis == TOO_SHORT))
        for name, count in zip(BASIS_NAMES, found, strict=True):
            if count:
                self.duplicates[name] = self.duplicates.get(name, 0) + count
        for change, count in count_changes(block.changes):
            if count:
                self.changes[change] = self.changes.get(change, 0) + count

    def add_batch(self, batch: PageBatch) -> None:
        """Count the records that a batch was parsed from; offsets have gaps."""
        self.records += len(batch) + len(batch.dead) + batch.skipped.total()
        for rejected in batch.dead:
            self.dead[rejected.code] = self.dead.get(rejected.code, 0) + 1
        for code, count in batch.skipped.items():
            self.skipped[code] = self.skipped.get(code, 0) + count
