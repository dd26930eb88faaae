"""Verdicts to clusters: which pages belong together, and which one of them survives.

A duplicate and its representative belong together, and so does whatever hangs together by such
pairs: union-find over the verdicts of a file. The file is read twice. First come the pairs, as page
refs; then, for the pages that are in a pair, the place of their line, their scope and the numbers
that the policy asks for. So only pages in a cluster cost memory, numbers and no text: while they
are sorted 123 bytes a page, and 8 more for each number of the policy (the peak by tracemalloc).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.model import SEQUENCE_BITS, Decision, Location, page_ref, split_ref
from streamer.stream.survivor import Rank
from streamer.stream.verdict_lines import Judged, read_places

_UNSEEN = np.iinfo(np.int64).max

Ints = npt.NDArray[np.int64]
Progress = Callable[[int], None]  # is told the bytes read, of twice the file


@dataclass(slots=True)
class Sources:
    """Numbers for the sources (topic and partition, or file) of a verdict file, and their pages."""

    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    pages: Counter[int] = field(default_factory=Counter)

    def ref(self, page: Location) -> int:
        """Return the page ref of a place; an unknown source gets the next number."""
        number = self.numbers.setdefault((page.topic, page.partition), len(self.numbers))
        return page_ref(number, page.offset)

    def names(self) -> list[str]:
        """Return how the sources are called, by number."""
        return [f"{topic}/{part}" if part else topic for topic, part in self.numbers]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The pages of all clusters, cluster by cluster, the survivor first, the others by the policy.

    Clusters come in the order of their first pages in the file.

    Attributes:
        places: int64, the place of each page's line; ~place of a line that names it as its
            representative, where it has no verdict of its own in the file.
        sources: int64, the number of each page's source.
        starts: int64, where each cluster begins in these.
        judged: verdicts in the file; duplicates: those of duplicates.
        known: the sources.
    """

    places: Ints
    sources: Ints
    starts: Ints
    judged: int
    duplicates: int
    known: Sources

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Ints:
        """Return the number of pages of each cluster, 2 or more."""
        return np.diff(self.starts, append=len(self.places))


def group(
    path: Path,
    rank: Rank,
    scope: Callable[[str], int],
    progress: Progress = lambda _bytes: None,
) -> Grouping:
    """Return the clusters of a verdict file.

    `rank` chooses the survivor (survivor.py); a cluster is split by the `scope` of its pages' URLs
    (scope.py). Of repeated verdicts of a page the first one counts.

    Raises:
        InputError: the file cannot be read, or a line is not a verdict.
    """
    known = Sources()
    pairs, judged = _read_pairs(path, known, progress)
    refs, ends = np.unique(pairs, return_inverse=True)
    roots = np.arange(len(refs))
    unite(ends.reshape(-1, 2), roots)
    size = path.stat().st_size
    pages = _Pages(refs, known, rank, scope)
    for place, verdict, page in read_places(path, lambda read: progress(size + read)):
        pages.add(place, verdict, page)
    order, starts = _ordered(roots, pages)
    sources = (refs[order] >> np.uint64(SEQUENCE_BITS)).astype(np.int64)
    return Grouping(pages.places[order], sources, starts, judged, len(pairs) // 2, known)


def _read_pairs(
    path: Path, known: Sources, progress: Progress
) -> tuple[npt.NDArray[np.uint64], int]:
    """Return duplicate, representative, duplicate, representative, ... and the number of pages."""
    pairs = array("Q")
    judged = 0
    for _, verdict, page in read_places(path, progress):
        ref = known.ref(page)
        known.pages[split_ref(ref)[0]] += 1
        judged += 1
        if verdict.verdict is Decision.DUPLICATE and verdict.representative is not None:
            pairs.append(ref)
            pairs.append(known.ref(verdict.representative.page))
    return np.frombuffer(pairs, np.uint64), judged


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


class _Pages:
    """What is known of the pages in pairs, by the place of their ref in the ascending `refs`."""

    def __init__(
        self,
        refs: npt.NDArray[np.uint64],
        known: Sources,
        rank: Rank,
        scope: Callable[[str], int],
    ) -> None:
        self._refs = array("Q", refs.tobytes())  # a search in it takes a fifth of numpy's time
        self._known = known
        self._rank = rank
        self._scope = scope
        self.places = np.full(len(refs), _UNSEEN)
        self.scopes = np.zeros(len(refs), np.uint64)
        self.ranks = np.zeros((len(refs), len(rank(Judged()))))

    def add(self, place: int, verdict: Judged, page: Location) -> None:
        """Enter a verdict's page, and the page that it names as its representative."""
        at = self._find(page)
        if at is not None and not 0 <= self.places[at] < _UNSEEN:
            self._enter(at, place, verdict)
        other = verdict.representative
        if other is not None:
            at = self._find(other.page)
            if at is not None and self.places[at] == _UNSEEN:
                self._enter(at, ~place, Judged(url=other.url))

    def _find(self, page: Location) -> int | None:
        ref = self._known.ref(page)
        at = bisect_left(self._refs, ref)
        return at if at < len(self._refs) and self._refs[at] == ref else None

    def _enter(self, at: int, place: int, judged: Judged) -> None:
        self.places[at] = place
        self.scopes[at] = self._scope(judged.url)
        self.ranks[at] = self._rank(judged)


def _ordered(roots: Ints, pages: _Pages) -> tuple[Ints, Ints]:
    """Return the pages of clusters in the order of a Grouping, and where each cluster begins."""
    order = np.lexsort((pages.places, *pages.ranks.T[::-1], pages.scopes, roots))
    roots, scopes = roots[order], pages.scopes[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (roots[1:] != roots[:-1]) | (scopes[1:] != scopes[:-1])
    starts = np.flatnonzero(begins)
    sizes = np.diff(starts, append=len(order))
    if not len(starts):
        return order, starts
    firsts = np.minimum.reduceat(pages.places[order], starts)
    chosen = np.argsort(firsts)
    chosen = chosen[sizes[chosen] > 1]  # a page that is alone in its scope is in no cluster
    sizes = sizes[chosen]
    ends = np.cumsum(sizes)
    within = np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes)
    return order[np.repeat(starts[chosen], sizes) + within], ends - sizes
