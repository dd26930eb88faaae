"""Clusters that take up a large part of a source, noticed while its pages are judged.

Such a cluster indicates a block page, a login form, or a template taken for content. Pages are
counted by representative, and only the largest counts are kept (Metwally, Agrawal, El Abbadi 2005):
so memory is bounded, however many clusters there are. A count is exact from the moment at which its
representative entered; it lacks fewer than one in 256 of the pages before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.messages import Verdicts
from streamer.kernel import kernel
from streamer.model import SEQUENCE_BITS

SUSPECT_PAGES_MIN = 10  # smaller clusters are no sign of anything
SHARE_MIN = 0.2
_TOLD_PAGES_MIN = 1_000  # of a source that goes on: its first pages may be alike by chance
_COUNTS_KEPT = 256

Ints = npt.NDArray[np.int64]


class LargeCluster(NamedTuple):
    """A cluster with `pages` pages of a source, a `share` of all; its representative's ref, URL."""

    source: int
    representative: int
    url: str
    pages: int
    share: float


def suspicion(source: str, pages: int, share: float, who: str) -> str:
    """Return what is said of a large cluster; `who` names a page of it, and what that is in it."""
    return (
        f"one cluster holds {share:.0%} of {source} ({pages:,} pages); its {who}. Look at that "
        "page: a block page or a template may have been taken for content."
    )


class LargeClusters:
    """Counts verdicts by source and representative; a source is any number that the caller gives.

    With a `window` older pages count less: whenever a source has so many, all its counts are
    halved. For one thread at a time.
    """

    def __init__(self, share_min: float = SHARE_MIN, *, window: int | None = None) -> None:
        self._share_min = share_min
        self._window = window
        self._sources: dict[int, _Counts] = {}

    def add(self, source: int, block: Verdicts) -> list[LargeCluster]:
        """Count the verdicts of a block; return the clusters to report, each once.

        They are large in a source with 1,000 pages or more. One that has fallen to half of a large
        share is reported again when it is large again.
        """
        if not len(block):
            return []
        counts = self._sources.setdefault(source, _Counts())
        counts.add(block)
        if counts.urls:
            near = {each.representative for each in counts.large(source, self._share_min / 2)}
            counts.urls = {ref: url for ref, url in counts.urls.items() if ref in near}
            counts.reported &= near
        large = counts.large(source, self._share_min)
        for ref in {each.representative for each in large} - counts.urls.keys():
            named = (block.representative_refs == ref) & _named_here(block)
            at = np.flatnonzero(named)
            if len(at):  # else only halving made it large: wait until it is named again
                counts.urls[ref] = block.representative_urls[at[0]].decode(errors="replace")
        new = []
        if counts.pages >= _TOLD_PAGES_MIN:
            new = [each for each in self.of(source) if each.representative not in counts.reported]
            counts.reported |= {each.representative for each in new}
        if self._window is not None and counts.pages >= self._window:
            counts.halve()
        return new

    def of(self, source: int) -> list[LargeCluster]:
        """Return the clusters that are large in a source now, the largest first."""
        counts = self._sources.get(source)
        if counts is None:
            return []
        return [
            each._replace(url=counts.urls[each.representative])
            for each in counts.large(source, self._share_min)
            if each.representative in counts.urls
        ]

    def forget(self, source: int) -> None:
        """Drop the counts of a source, where there are any: at its end."""
        self._sources.pop(source, None)


def _named_here(block: Verdicts) -> npt.NDArray[np.bool_]:
    """Tell which pages have a representative of this index; another's refs are not ours."""
    named = block.similarities >= 0
    if block.references is not None:
        named &= np.array([other is None for other in block.references])
    return named


@dataclass(slots=True)
class _Counts:
    """The counts of one source.

    Attributes:
        pages: all that were judged.
        refs: uint64, the representatives that are kept, ascending.
        pages_naming: int64, how many pages named each since it is kept.
        missed: int64, how many may have named it before, at most.
        floor: the same for all that are not kept.
        firsts: the first ref that was counted, by the source's number within refs.
        urls: those of representatives whose clusters are large, or were and are half so now.
        reported: those of them that the caller knows of.
    """

    pages: int = 0
    refs: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    pages_naming: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    missed: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    floor: int = 0
    firsts: dict[int, int] = field(default_factory=dict)
    urls: dict[int, str] = field(default_factory=dict)
    reported: set[int] = field(default_factory=set)

    def add(self, block: Verdicts) -> None:
        """Count the pages of a block, and the representatives that they name."""
        self.pages += len(block)
        self._note_firsts(block.pages.refs)
        named = block.representative_refs[_named_here(block)]
        found, counts = np.unique(named, return_counts=True)
        if not len(found):
            return
        place = np.minimum(np.searchsorted(found, self.refs), len(found) - 1)
        kept = found[place] == self.refs
        self.pages_naming[kept] += counts[place[kept]]
        counts[place[kept]] = 0
        new = counts > 0
        self._keep_largest(
            np.concatenate((self.refs, found[new])),
            np.concatenate((self.pages_naming, counts[new])),
            np.concatenate((self.missed, np.full(int(new.sum()), self.floor))),
        )

    def _note_firsts(self, refs: npt.NDArray[np.uint64]) -> None:
        numbers = (refs >> np.uint64(SEQUENCE_BITS)).astype(np.int64)
        one = int(numbers[0])
        for number in [one] if (numbers == one).all() else np.unique(numbers).tolist():
            if number not in self.firsts:
                self.firsts[number] = int(refs[numbers == number].min())

    def _keep_largest(
        self,
        refs: npt.NDArray[np.uint64],
        pages_naming: npt.NDArray[np.int64],
        missed: npt.NDArray[np.int64],
    ) -> None:
        """Keep those that may be the largest; none that is left out exceeds the floor."""
        bounds = pages_naming + missed
        if len(refs) > _COUNTS_KEPT:
            self.floor = int(np.partition(bounds, -_COUNTS_KEPT - 1)[-_COUNTS_KEPT - 1])
            stay = np.flatnonzero(bounds > self.floor)
        else:
            stay = np.arange(len(refs))
        stay = stay[np.argsort(refs[stay])]
        self.refs, self.pages_naming, self.missed = refs[stay], pages_naming[stay], missed[stay]

    def large(self, source: int, share_min: float) -> list[LargeCluster]:
        """Return the clusters of ten pages and such a share of all, without URLs; largest first."""
        # One more is the representative itself, if its own verdict was counted.
        least = max(SUSPECT_PAGES_MIN, share_min * self.pages) - 1
        found = []
        for at in np.flatnonzero(self.pages_naming >= least).tolist():
            ref = int(self.refs[at])
            pages = int(self.pages_naming[at]) + self._has_counted(ref)
            share = min(pages / self.pages, 1.0)
            if pages >= SUSPECT_PAGES_MIN and share >= share_min:
                found.append(LargeCluster(source, ref, "", pages, share))
        return sorted(found, key=lambda each: (-each.pages, each.representative))

    def _has_counted(self, ref: int) -> bool:
        """Return whether a page's own verdict was counted here."""
        first = self.firsts.get(ref >> SEQUENCE_BITS)
        return first is not None and ref >= first

    def halve(self) -> None:
        """Let all that was counted so far count half."""
        self.pages //= 2
        self.pages_naming //= 2
        self.missed //= 2
        self.floor //= 2


@kernel
def unite(pairs: Ints, roots: Ints) -> None:
    """Unite the two of each pair; then roots[i] is the least member of i's set.

    `roots` starts as 0, 1, 2 and so on. Paths are halved on the way (Tarjan, van Leeuwen 1984).
    """
    for i in range(pairs.shape[0]):
        one, other = pairs[i, 0], pairs[i, 1]
        while roots[one] != one:
            roots[one] = roots[roots[one]]
            one = roots[one]
        while roots[other] != other:
            roots[other] = roots[roots[other]]
            other = roots[other]
        roots[max(one, other)] = min(one, other)
    for i in range(roots.shape[0]):
        roots[i] = roots[roots[i]]  # a root is no greater than its members: theirs are final
