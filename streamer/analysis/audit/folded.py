"""What a fold gives, noted down: the verdicts by number, and the pages that it keeps.

When a page arrived is its rank: a representative must have come before the page itself, or, where
the page was held back, before its verdict. The fold is that of one shard's log, or that of all
shards of an index of files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.analysis.audit.kept_pages import KeptPages
from streamer.analysis.audit.scene import JUDGED, OWED, Column, PageTable, Places
from streamer.index.forgetting import RETIRED
from streamer.index.messages import Verdicts
from streamer.index.settings import IndexSettings
from streamer.index.url_versions import REPLACED as IS_REPLACED
from streamer.index.url_versions import published_changes
from streamer.model import SIMILARITY_ONE

Digests = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


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


class FoldedVerdicts:
    """Takes what a fold is given and gives; `number` is that of its column of arrivals."""

    def __init__(self, number: int, shards: int, table: PageTable, kept: KeptPages) -> None:
        self._arrivals = table.arrivals[number]
        self._shards = shards
        self._table = table
        self._kept = kept
        self.kept_before = len(kept)
        self.arrived = 0
        self._settings: IndexSettings | None = None
        self._least = SIMILARITY_ONE  # that any settings so far have asked for
        self._digests = Column(np.uint64)
        self._limits = Column(np.uint32)
        self._leasts = Column(np.int32)
        self._owed = Column(np.bool_)

    def __len__(self) -> int:
        return len(self._digests)

    def note_settings(self, settings: IndexSettings) -> None:
        """Take settings that are in force from here on."""
        self._settings = settings
        self._kept.note_settings(settings)
        self._least = min(self._least, settings.similarity_least)

    def note_arrived(self, refs: Digests) -> Places:
        """Take the refs of pages that come now; return their places."""
        places = self._table.places(refs)
        ranks = np.arange(self.arrived + 1, self.arrived + 1 + len(places))
        known = places >= 0
        self._arrivals[places[known]] = ranks[known]
        self.arrived += len(places)
        return places

    def note_verdicts(
        self, block: Verdicts, digests: Digests, before: int, *, owed: bool = True
    ) -> None:
        """Take the next verdicts, and digests of them; `before`: pages of earlier records."""
        places, settings = self._table.places(block.pages.refs), self._settings
        assert settings is not None, "a verdict before any settings"
        self._table.mark(places, JUDGED | OWED if owed else JUDGED)
        ranks = self._ranks(places)
        held = ranks <= before
        self._digests.append(digests)
        self._limits.append(np.where(held, self.arrived + 1, ranks))
        own, _ = settings.least_of(block.pages.urls, block.pages.main)
        self._leasts.append(np.where(held, self._least, own))
        self._owed.append(np.full(len(block), owed))
        if self._shards == 1 and settings.retire_replaced:
            self._note_retired(block)
        self._kept.add(block.pages.take(np.flatnonzero(block.similarities < 0)))

    def _note_retired(self, block: Verdicts) -> None:
        """Note what the pages of a block retire, where they come in the order of their verdicts."""
        if block.pages.changes is None:
            return
        kept = (block.similarities < 0) & (block.pages.tokens > 0)
        before: Rows = np.cumsum(kept) - kept
        codes, _ = published_changes(block.pages.changes)
        for i in np.flatnonzero(codes == IS_REPLACED).tolist():
            retired = [(RETIRED, block.pages.urls[i])]
            self._kept.forget(self.kept_before, retired, ahead=int(before[i]))

    def _ranks(self, places: Places) -> Rows:
        """Return the ranks plus 1 of pages; 0 for what cannot be a page."""
        ranks, known = np.zeros(len(places), np.int64), places >= 0
        ranks[known] = self._arrivals[places[known]]
        return ranks

    def finish(self) -> ExpectedVerdicts:
        """Return the verdicts that must be out."""
        return ExpectedVerdicts(
            self._digests.array(), self._limits.array(), self._leasts.array(), self._owed.array(),
            np.zeros(len(self._digests), np.bool_),
        )  # fmt: skip
