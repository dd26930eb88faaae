"""What became of records, and what their texts have lost: a run reports it at its end.

An index keeps the totals of all runs.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from streamer.index.messages import Verdicts
from streamer.index.rule import BASIS_NAMES, TOO_SHORT
from streamer.index.url_versions import count_changes
from streamer.pages.chunk import PageBatch
from streamer.text.visible import Buffer

LOST_PAGES = 20  # of a chunk that are looked at
LOST_BYTES = 1 << 16  # of a page
LOST_SHARE_MAX = 0.01  # of the characters


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


def count_lost_characters(bodies: Sequence[Buffer]) -> tuple[int, int]:
    """Return how many characters a wrong charset has lost of some bodies, and how many they have.

    Lost are U+FFFD, and bytes that are not UTF-8 and are read as it.
    """
    lost = count = 0
    for body in bodies[:LOST_PAGES]:
        text = bytes(body[:LOST_BYTES]).decode("utf-8", "replace")
        lost += text.count("\ufffd") + text.count("\\ufffd")
        count += len(text)
    return lost, count


class LostText:
    """Sums up what is lost, in some pages of each source."""

    def __init__(self) -> None:
        self._lost, self._all = Counter[str](), Counter[str]()

    def add(self, name: str, found: tuple[int, int]) -> None:
        """Take what `count_lost_characters` has found in a chunk."""
        self._lost[name] += found[0]
        self._all[name] += found[1]

    def shares(self) -> dict[str, float]:
        """Return the shares that are too large, by the names of sources, the largest first."""
        shares = {name: lost / self._all[name] for name, lost in self._lost.items() if lost}
        large = {name: round(each, 4) for name, each in shares.items() if each > LOST_SHARE_MAX}
        return dict(sorted(large.items(), key=lambda each: -each[1]))
