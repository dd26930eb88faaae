"""What a fold gives, noted down: the verdicts by number, and the pages that it keeps.

When a page arrived is its rank: a representative must have come before the page itself. The fold is
that of a log, or that of an index of files.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.analysis.audit.facts import JUDGED, OWED, Column, PageTable, Places
from streamer.analysis.audit.kept_pages import KeptPages
from streamer.index.messages import Verdicts
from streamer.index.settings import IndexSettings

Digests = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


@dataclass(slots=True)
class ExpectedVerdicts:
    """The verdicts that a fold gives, by number, in columns.

    Attributes:
        digests: uint64, over key and value.
        limits: uint32, of the ranks that a representative may have: below that.
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
    """Takes what a fold is given and gives."""

    def __init__(self, table: PageTable, kept: KeptPages) -> None:
        self._table = table
        self._kept = kept
        self._arrived = 0
        self._settings: IndexSettings | None = None
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

    def note_arrived(self, refs: Digests) -> Places:
        """Take the refs of pages that come now; return their places."""
        places = self._table.places(refs)
        ranks = np.arange(self._arrived + 1, self._arrived + 1 + len(places))
        known = places >= 0
        self._table.arrivals[places[known]] = ranks[known]
        self._arrived += len(places)
        return places

    def note_verdicts(self, block: Verdicts, digests: Digests, *, owed: bool = True) -> None:
        """Take the next verdicts, and digests of them."""
        places, settings = self._table.places(block.pages.refs), self._settings
        assert settings is not None, "a verdict before any settings"
        self._table.mark(places, JUDGED | OWED if owed else JUDGED)
        least, _ = settings.least_of(block.pages.urls, block.pages.main)
        self._digests.append(digests)
        self._limits.append(self._ranks(places))
        self._leasts.append(least)
        self._owed.append(np.full(len(block), owed))
        self._kept.add(block.pages.take(np.flatnonzero(block.similarities < 0)))

    def _ranks(self, places: Places) -> Rows:
        """Return the ranks plus 1 of pages; 0 for what cannot be a page."""
        ranks, known = np.zeros(len(places), np.int64), places >= 0
        ranks[known] = self._table.arrivals[places[known]]
        return ranks

    def finish(self) -> ExpectedVerdicts:
        """Return the verdicts that must be out."""
        return ExpectedVerdicts(
            self._digests.array(), self._limits.array(), self._leasts.array(), self._owed.array(),
            np.zeros(len(self._digests), np.bool_),
        )  # fmt: skip
