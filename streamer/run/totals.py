"""What became of all records, counted."""

from __future__ import annotations

import msgspec
import numpy as np

from streamer.index.rule import BASIS_NAMES, TOO_SHORT
from streamer.index.types import Verdicts
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


def count_verdicts(block: Verdicts, *each: Totals) -> None:
    """Count the verdicts of a block in each of the totals."""
    duplicate = block.similarities >= 0
    found = np.bincount(block.basis[duplicate], minlength=len(BASIS_NAMES)).tolist()
    unique, too_short = len(block) - sum(found), int(np.count_nonzero(block.basis == TOO_SHORT))
    for totals in each:
        totals.unique += unique
        totals.too_short += too_short
        for name, count in zip(BASIS_NAMES, found, strict=True):
            if count:
                totals.duplicates[name] = totals.duplicates.get(name, 0) + count
    for change, count in count_changes(block.pages.changes):
        for totals in each if count else ():
            totals.changes[change] = totals.changes.get(change, 0) + count


def count_batch(totals: Totals, batch: PageBatch) -> None:
    """Count the records of a batch, and those that are no pages."""
    totals.records += len(batch) + len(batch.dead) + batch.skipped.total()  # offsets have gaps
    for rejected in batch.dead:
        totals.dead[rejected.code] = totals.dead.get(rejected.code, 0) + 1
    for code, count in batch.skipped.items():
        totals.skipped[code] = totals.skipped.get(code, 0) + count
