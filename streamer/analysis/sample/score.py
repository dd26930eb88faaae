"""The score of a verdict stream: page-level precision and recall against exact resemblance.

evaluation.py says what is right. A representative that was not kept before is counted apart, as is
what is within `margin` of the threshold: there the measured text and the detector's canonical form
may differ by a token.
"""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.analysis.evaluation import ConfusionCounts, PageVerdict, evaluate
from streamer.analysis.sample import reference
from streamer.analysis.sample.reference import MIN_SHINGLES, Exact, ReferencePages, Shingles
from streamer.errors import InputError
from streamer.model import Decision
from streamer.run.verdict_files import read_places
from streamer.run.verdict_lines import VerdictLine

THRESHOLD = 0.8
MARGIN = 0.05
CLUSTERS_MAX = 10


class Cluster(msgspec.Struct, frozen=True):
    """A kept page with its duplicates: `size` counts it too, `share` is of all pages judged.

    One with a large share is the sign of a block page or of a template taken for content.
    """

    url: str
    size: int
    share: float


@dataclass(slots=True)
class Score:
    """The score of one verdict file.

    Attributes:
        outcomes: of all pages.
        clear: of the pages whose resemblance is not within `margin` of the threshold.
        kinds: by planted kind, where there is a truth file.
        kept: pages said to be unique.
        labels: of each page its representative; itself where it was kept, or that is unknown.
        missing: pages without a verdict.
        repeats: further verdicts of a page; the first one counts.
        bad_representatives: duplicates of a page that was not kept before.
        clusters: the largest of two or more pages, the largest first, ties by URL.
    """

    threshold: float
    outcomes: ConfusionCounts = field(default_factory=ConfusionCounts)
    clear: ConfusionCounts = field(default_factory=ConfusionCounts)
    kinds: dict[str, ConfusionCounts] = field(default_factory=dict)
    kept: int = 0
    labels: list[int] = field(default_factory=list)
    missing: int = 0
    repeats: int = 0
    bad_representatives: int = 0
    clusters: list[Cluster] = field(default_factory=list)


def score_pages(
    table: ReferencePages,
    verdicts: Path,
    threshold: float = THRESHOLD,
    kinds: Mapping[int, str] = MappingProxyType({}),
    *,
    margin: float = MARGIN,
    min_shingles: int = MIN_SHINGLES,
) -> Score:
    """Score the verdicts of pages, in their order.

    `threshold` in (0, 1]. `kinds` say how pages were made, by their ordinals in the first file.

    Raises:
        InputError: the verdicts cannot be read, or are not of these pages.
    """
    assert 0 < threshold <= 1, threshold
    result = Score(threshold, labels=list(range(len(table))))
    by_page = _verdicts_by_page(table, verdicts, result)
    result.missing = len(table) - len(by_page)
    result.clusters = _largest_clusters(by_page.values())
    kept = KeptSoFar(table.exact, max(threshold - margin, threshold / 2), min_shingles)
    for (page, is_duplicate, of), value, of_kept in evaluate(kept, _describe(table, by_page)):
        result.kept += not is_duplicate
        result.bad_representatives += not of_kept
        result.labels[page] = page if of is None else of
        counted = [result.outcomes]
        if abs(value - threshold) >= margin:
            counted.append(result.clear)
        if kind := kinds.get(table.ordinals[page]):
            counted.append(result.kinds.setdefault(kind, ConfusionCounts()))
        for outcomes in counted:
            outcomes.count(said=is_duplicate, right=(value >= threshold) == is_duplicate)
    return result


def _largest_clusters(verdicts: Collection[VerdictLine]) -> list[Cluster]:
    duplicates = Counter(said.representative for said in verdicts if said.representative)
    clusters = (
        Cluster(kept.url, count + 1, (count + 1) / len(verdicts))
        for kept, count in duplicates.items()
    )
    return heapq.nsmallest(CLUSTERS_MAX, clusters, key=lambda one: (-one.size, one.url))


def _describe(
    table: ReferencePages, by_page: Mapping[int, VerdictLine]
) -> Iterator[PageVerdict[int]]:
    """Yield the verdicts in the order of the pages."""
    for page, said in sorted(by_page.items()):
        other = said.representative
        of = table.find(other.page, other.url) if other else None
        yield PageVerdict(page, said.verdict is Decision.DUPLICATE, of)


def _verdicts_by_page(pages: ReferencePages, path: Path, result: Score) -> dict[int, VerdictLine]:
    """Return the first verdict of each page; count the others in `result`.

    Raises:
        InputError: the pages are not those that were judged.
    """
    found: dict[int, VerdictLine] = {}
    wrong: dict[str, list[VerdictLine]] = {
        "not in these files": [],
        "at places that are none of the several pages with their URLs": [],
        "there with another text": [],
    }
    strangers, ambiguous, changed = wrong.values()
    for _, said in read_places(path):
        page = pages.find(said.page, said.url)
        if page is None:
            (ambiguous if said.url in pages else strangers).append(said)
        elif page in found and found[page].page.topic != said.page.topic:
            ambiguous.append(said)  # of two files, of which one is not here
        elif page in found:
            result.repeats += 1
        else:
            found[page] = said
            known = pages.text_bytes[page] if said.text_bytes and said.text != "main" else ()
            if known and said.text_bytes not in known:
                changed.append(said)
    for what, lines in wrong.items():
        if lines:
            raise InputError(
                f"{path}: the pages of {len(lines):,} verdicts are {what}, first {lines[0].url}. "
                "Name all files that were judged, and give the --fields or --preset of that run."
            )
    return found


Ranks = npt.NDArray[np.int64]


class KeptSoFar:
    """The kept pages so far, and the greatest resemblance of any page to one of them.

    Pages are named by their index in `pages`. `floor` in (0, 1] is the least resemblance asked for.
    """

    def __init__(self, pages: Sequence[Exact], floor: float, min_shingles: int) -> None:
        assert 0 < floor <= 1, floor
        self._pages = pages
        self._floor = floor
        self._min_shingles = max(1, min_shingles)
        self._ranks = _ranks([page.shingles for page in pages])
        self._by_shingle: dict[int, list[int]] = defaultdict(list)
        self._sequences: dict[bytes, list[int]] = defaultdict(list)

    def keep(self, page: int) -> None:
        """Add a page to those kept."""
        self._sequences[self._pages[page].sequence].append(page)
        for shingle in self._prefix(page):
            self._by_shingle[shingle].append(page)

    def best(self, page: int) -> float:
        """Return the greatest resemblance to a kept page where it is >= floor, else 0."""
        if self._pages[page].sequence in self._sequences:
            return 1.0
        return max((value for _, value in self.matches(page)), default=0.0)

    def matches(self, page: int) -> Iterator[tuple[int, float]]:
        """Yield all kept pages with a resemblance >= floor, and that; equal texts first, with 1."""
        equal = self._sequences.get(self._pages[page].sequence, [])
        yield from ((kept, 1.0) for kept in equal)
        prefix = self._prefix(page)
        candidates = {kept for shingle in prefix for kept in self._by_shingle.get(shingle, ())}
        for kept in candidates.difference(equal):
            smaller, larger = sorted(len(self._ranks[each]) for each in (page, kept))
            if smaller < self._floor * larger:  # saves the comparison
                continue
            value = self.resemblance(page, kept)
            if value >= self._floor:
                yield kept, value

    def resemblance(self, page: int, other: int) -> float:
        """Return the resemblance of two pages; of short ones 1 where they are equal, else 0."""
        return reference.resemblance(self._pages[page], self._pages[other], self._min_shingles)

    def _prefix(self, page: int) -> list[int]:
        """Return the page's rarest shingles, one of which any match shares; none if it is short."""
        ranks = self._ranks[page]
        if len(ranks) < self._min_shingles:
            return []
        # A product a hair above a whole number must not round up: one shingle more does no harm.
        least = math.ceil(self._floor * len(ranks) - 1e-9)
        prefix: list[int] = ranks[: len(ranks) - least + 1].tolist()
        return prefix


def _ranks(sets: list[Shingles]) -> list[Ranks]:
    """Number all shingles by rising frequency; return each set as ascending numbers."""
    if not sets:
        return []
    _, inverse, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    parts = np.split(rank[inverse], np.cumsum([len(one) for one in sets])[:-1])
    return [np.sort(part) for part in parts]
