"""The settings of an index that its log carries: those of verdicts.

Settings that change a verdict but not a signature arrive in a CONFIG record, and hold from its
place in the log on. So a replay of the log gives the same verdicts, whatever the settings or the
version of the program that replays it.
"""

# A page without main text is compared with its menus, so it has a threshold of its own: a preset's
# low one would find pages of one site alike. The text of the later page decides, as rules for sites
# do. Of 1,039 duplicates among articles in templates none paired a main text with a visible one.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from streamer.model import SIMILARITY_ONE
from streamer.rules import VISIBLE, Rule, rule_finder, rule_for
from streamer.sketch.method import Measure
from streamer.sketch.signer import DISTINCT_MAX

MACHINE_VERSION = 14  # of the rules in shard.py and rule.py; a log of another one is refused

Leasts = npt.NDArray[np.int32]


class Corpus(BaseModel):
    """Another index that pages are compared with: its name, and a digest of its whole state."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name} ({self.digest})"


class IndexSettings(BaseModel):
    """The settings of a CONFIG record.

    Attributes:
        threshold: least resemblance of duplicates.
        shingles_min: distinct shingles below which only equal content matches.
        bucket_max: postings a bucket; the earliest stay.
        candidates_max: candidates verified a page; the earliest.
        expire_after_ms: age at which a page answers no other any more; 0: none.
        keep_pages: the newest kept pages that answer; 0: all.
        measure: how sketches compare; the method's, for good.
        exact: whether sets of shingles decide what sketches leave in doubt.
        rules: what holds for the pages of some sites; the first that fits.
        track_changes: report the change from the last version of each URL.
        near_misses: how far below the threshold the nearest page is noted.
        fallback_threshold: least resemblance of a page without main text; 0: as of others.
        version: of the machine's rules.
        also: other indexes whose pages are representatives, too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.8, gt=0, le=1)
    shingles_min: int = Field(default=5, ge=1, le=DISTINCT_MAX)
    bucket_max: int = Field(default=64, ge=1, le=4096)
    candidates_max: int = Field(default=1024, ge=1, le=4096)
    expire_after_ms: int = Field(default=0, ge=0)
    keep_pages: int = Field(default=0, ge=0)
    measure: Measure = Measure.RESEMBLANCE
    exact: bool = False
    rules: tuple[Rule, ...] = ()
    track_changes: bool = False
    near_misses: float = Field(default=0.0, ge=0, lt=1)
    fallback_threshold: float = Field(default=0.0, ge=0, le=1)
    version: int = MACHINE_VERSION
    also: tuple[Corpus, ...] = ()

    @property
    def similarity_min(self) -> int:
        """Return the threshold in ten-thousandths."""
        return round(self.threshold * SIMILARITY_ONE)

    @property
    def margin(self) -> int:
        """Return how far below its threshold what is nearest to a page is noted, as above."""
        return round(self.near_misses * SIMILARITY_ONE)

    def for_url(self, url: str, *, main: bool = True) -> IndexSettings:
        """Return what holds for the page with this URL, of which `main` text was signed or not."""
        rule = rule_for(self.rules, url)
        own: dict[str, float | None] = {}
        if not main and (rule is None or rule.text != VISIBLE):  # or it is what was asked for
            own["threshold"] = max(self.threshold, self.fallback_threshold)
        if rule is not None:
            given = {"threshold": rule.threshold, "shingles_min": rule.min_shingles}
            own |= {name: value for name, value in given.items() if value is not None}
        return self.model_copy(update=own) if own else self

    def least_of(
        self, urls: Sequence[bytes], main: npt.NDArray[np.bool_] | None
    ) -> tuple[Leasts, Leasts]:
        """Return for each page the similarity and the distinct shingles that it must have.

        `main` says of which pages the main text was signed; None: none was asked for.
        """
        least = np.full(len(urls), self.similarity_min, np.int32)
        if main is not None and self.fallback_threshold:
            strict = max(self.threshold, self.fallback_threshold)
            least[~main] = round(strict * SIMILARITY_ONE)
        shingles = np.full(len(urls), self.shingles_min, np.int32)
        rule_of = rule_finder(self.rules)
        for i in range(len(urls) if self.rules else 0):
            if (rule := rule_of(urls[i].decode())) is None:
                continue
            if rule.text == VISIBLE:  # asked for, so the page did not fall back
                least[i] = self.similarity_min
            if rule.threshold is not None:
                least[i] = round(rule.threshold * SIMILARITY_ONE)
            if rule.min_shingles is not None:
                shingles[i] = rule.min_shingles
        return least, shingles

    def similarity_most(self, *, main: bool) -> int:
        """Return the greatest threshold of any page with or without main text, as above."""
        own = self.threshold if main else max(self.threshold, self.fallback_threshold)
        of_rules = (one.threshold for one in self.rules if one.threshold is not None)
        return round(max([own, *of_rules]) * SIMILARITY_ONE)

    @property
    def shingles_max(self) -> int:
        """Return the greatest number of shingles below which only equal content matches."""
        own = (one.min_shingles for one in self.rules if one.min_shingles is not None)
        return max([self.shingles_min, *own])
