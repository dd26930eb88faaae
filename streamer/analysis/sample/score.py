"""The score of a verdict stream: page-level precision and recall against exact resemblance.

A page is a true duplicate if an earlier page *that the detector itself kept* has exact resemblance
>= threshold with it; a said duplicate is right if that holds with its representative. So a detector
is judged on its own kept set, and one early mistake is counted once. A representative that was not
kept before is counted apart, as is what is within `margin` of the threshold: there the measured
text and the detector's canonical form may differ by a token.

Of a verdict file lines without a `verdict` (dead letters in the same stream) are skipped. A
line that is no JSON object of this shape ends the reading with its number: a score over half a file
would mislead. A verdict is found again by the place of its line, so that no text has to be kept.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.analysis.sample.crawl import read_kinds
from streamer.analysis.sample.reference import MIN_SHINGLES, ReferencePages, read_pages, resemblance
from streamer.errors import InputError
from streamer.model import VERDICT_SCHEMA, Decision, Location, Representative
from streamer.run.page_reader import DEFAULT_READER, PageReader
from streamer.run.verdict_files import open_verdicts
from streamer.run.verdict_lines import VerdictCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamer.analysis.sample.reference import Exact, Shingles


REPORT_LINES = 10_000  # after so many lines `progress` is called


class VerdictLine(msgspec.Struct, frozen=True):
    """What a verdict line says; `verdict` is None on lines that are none."""

    page: Location | None = None
    url: str = ""
    verdict: Decision | None = None
    representative: Representative | None = None
    basis: str = ""
    similarity: float | None = None
    exact: bool = False
    index: str = ""
    text_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    text: str = ""
    schema: str = VERDICT_SCHEMA
    carried: dict[str, Any] = {}


_DECODE = msgspec.json.Decoder(VerdictLine).decode


def read_places(
    path: Path, progress: Callable[[int], None] = lambda _bytes: None
) -> Iterator[tuple[int, VerdictLine]]:
    """Yield (place of the line in bytes, verdict) of a JSON-lines file, in its order.

    `progress` gets the bytes read so far, now and then.

    Raises:
        InputError: the file cannot be read, or a line is not a verdict; the message has its number.
    """
    try:
        with open_verdicts(path) as file:
            place, check = 0, VerdictCheck(path)
            for number, line in enumerate(file, 1):
                if line.strip():
                    judged = _decoded(line, path, number)
                    if judged.verdict is not None:
                        check.take(judged, number)
                        yield place, judged
                place += len(line)
                if number % REPORT_LINES == 0:
                    progress(place)
            progress(place)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error


def read_verdicts(path: Path) -> Iterator[VerdictLine]:
    """Yield the verdicts of a JSON-lines file as `read_places` does, without their places."""
    return (judged for _, judged in read_places(path))


def read_verdict_at(file: BinaryIO, place: int) -> VerdictLine:
    """Return the verdict whose line begins at `place`, as `read_places` yields it."""
    file.seek(place)
    return _DECODE(file.readline())


def _decoded(line: bytes, path: Path, number: int) -> VerdictLine:
    try:
        return _DECODE(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}:{number}: not a verdict ({error})") from error


LARGEST = 10


@dataclass(frozen=True, slots=True)
class Cluster:
    """A kept page with its duplicates: `size` counts it too, `share` is of all pages judged."""

    url: str
    size: int
    share: float


def largest_clusters(verdicts: Iterable[VerdictLine], count: int = LARGEST) -> list[Cluster]:
    """Return the `count` largest clusters of two or more pages, the largest first, ties by URL.

    Memory is one number for each representative, never one for each page, and so a repeated verdict
    counts again. One cluster with a large share of all pages is the sign of a block page or of a
    template taken for content.
    """
    judged = 0
    sizes: Counter[Location] = Counter()
    urls: dict[Location, str] = {}
    for said in verdicts:
        judged += 1
        if said.representative is not None:
            place = said.representative.page
            sizes[place] += 1
            urls.setdefault(place, said.representative.url)
    clusters = (
        Cluster(urls[place], duplicates + 1, (duplicates + 1) / judged)
        for place, duplicates in sizes.items()
    )
    return heapq.nsmallest(count, clusters, key=lambda cluster: (-cluster.size, cluster.url))


THRESHOLD = 0.8
MARGIN = 0.05


@dataclass(slots=True)
class ConfusionCounts:
    """Decisions by what they should have been; "positive" is "duplicate"."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    def count(self, *, said: bool, right: bool) -> None:
        """Count one decision: `said` duplicate or not, and whether that is right."""
        if said:
            self.true_positive += right
            self.false_positive += not right
        else:
            self.true_negative += right
            self.false_negative += not right

    @property
    def pages(self) -> int:
        """Return the number of pages judged."""
        return self.duplicates + self.false_negative + self.true_negative

    @property
    def duplicates(self) -> int:
        """Return the number of pages called duplicate."""
        return self.true_positive + self.false_positive

    @property
    def precision(self) -> float | None:
        """Return the share of right ones among the said duplicates; None where none was said."""
        return _share(self.true_positive, self.duplicates)

    @property
    def recall(self) -> float | None:
        """Return the share of true duplicates that were said; None where there is none."""
        return _share(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f1(self) -> float | None:
        """Return the harmonic mean of precision and recall; None where there is nothing to find.

        As 2 TP / (2 TP + FP + FN) it is 0 where one of the two is none of anything.
        """
        right = 2 * self.true_positive
        return _share(right, right + self.false_positive + self.false_negative)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def ratio_text(ratio: float | None, digits: int = 4) -> str:
    """Return a ratio as tables show it: a hyphen where it is of nothing."""
    return "-" if ratio is None else f"{ratio:.{digits}f}"


@dataclass(slots=True)
class Score:
    """The score of one verdict file.

    Attributes:
        outcomes: of all pages.
        clear: of the pages whose resemblance is not within `margin` of the threshold.
        kinds: by planted kind, where there is a truth file.
        kept: pages said to be unique.
        missing: pages without a verdict.
        repeats: further verdicts of a page; the first one counts.
        bad_representatives: duplicates of a page that was not kept before.
    """

    threshold: float
    outcomes: ConfusionCounts = field(default_factory=ConfusionCounts)
    clear: ConfusionCounts = field(default_factory=ConfusionCounts)
    kinds: dict[str, ConfusionCounts] = field(default_factory=dict)
    kept: int = 0
    missing: int = 0
    repeats: int = 0
    bad_representatives: int = 0


def score(
    pages: Sequence[Path | str],
    verdicts: Path,
    threshold: float = THRESHOLD,
    *,
    truth: Path | None = None,
    margin: float = MARGIN,
    min_shingles: int = MIN_SHINGLES,
    reader: PageReader = DEFAULT_READER,
) -> Score:
    """Score the verdicts of the pages in files, in the order of the files.

    `threshold` in (0, 1]. `truth` is the truth file of the first pages file; it adds the kinds.

    Raises:
        StreamerError: as `score_pages`, or as `PageReader.read`.
    """
    kinds = read_kinds(truth) if truth else {}
    table = read_pages(pages, reader)
    return score_pages(table, verdicts, threshold, kinds, margin=margin, min_shingles=min_shingles)


def score_pages(
    table: ReferencePages,
    verdicts: Path,
    threshold: float = THRESHOLD,
    kinds: Mapping[int, str] = MappingProxyType({}),
    *,
    margin: float = MARGIN,
    min_shingles: int = MIN_SHINGLES,
) -> Score:
    """Score verdicts as `score` does, of pages that are read; `kinds` are by ordinal.

    Raises:
        InputError: the verdicts cannot be read, or are not of these pages.
    """
    assert 0 < threshold <= 1, threshold
    result = Score(threshold)
    by_page = _verdicts_by_page(table, verdicts, result)
    kept = KeptSoFar(table.exact, max(threshold - margin, threshold / 2), min_shingles)
    kept_pages: set[int] = set()
    for page in range(len(table)):
        said = by_page.get(page)
        if said is None:
            result.missing += 1
            continue
        if said.verdict is Decision.DUPLICATE:
            place = said.representative
            other = table.find(place.page, place.url) if place else None
            result.bad_representatives += other not in kept_pages
            value = 0.0
            if other is not None:
                value = resemblance(table.exact[page], table.exact[other], min_shingles)
        else:
            value = kept.best(page)
            kept.keep(page)
            kept_pages.add(page)
        _count(result, said, value, margin, kinds.get(table.ordinals[page]))
    result.kept = len(kept_pages)
    return result


def _count(result: Score, said: VerdictLine, value: float, margin: float, kind: str | None) -> None:
    """Count one decision whose page has the exact resemblance `value` to what it is judged by."""
    duplicate = said.verdict is Decision.DUPLICATE
    right = (value >= result.threshold) == duplicate
    counted = [result.outcomes]
    if abs(value - result.threshold) >= margin:
        counted.append(result.clear)
    if kind is not None:
        counted.append(result.kinds.setdefault(kind, ConfusionCounts()))
    for outcomes in counted:
        outcomes.count(said=duplicate, right=right)


def _verdicts_by_page(pages: ReferencePages, path: Path, result: Score) -> dict[int, VerdictLine]:
    """Return the first verdict of each page; count the others in `result`.

    Raises:
        InputError: the pages are not those that were judged.
    """
    found: dict[int, VerdictLine] = {}
    strangers: list[VerdictLine] = []
    ambiguous: list[VerdictLine] = []
    changed: list[VerdictLine] = []
    for said in read_verdicts(path):
        page = pages.find(said.page, said.url)
        if page is None:
            (ambiguous if said.url in pages else strangers).append(said)
        elif page in found and _topic(found[page]) != _topic(said):
            ambiguous.append(said)  # of two files, of which one is not here
        elif page in found:
            result.repeats += 1
        else:
            found[page] = said
            if not _has_text(pages.text_bytes[page], said):
                changed.append(said)
    checks = (
        (strangers, "not in these files"),
        (ambiguous, "at places that are none of the several pages with their URLs"),
        (changed, "there with another text"),
    )
    for wrong, what in checks:
        if wrong:
            raise InputError(
                f"{path}: the pages of {len(wrong):,} verdicts are {what}, first {wrong[0].url}. "
                "Name all files that were judged, and give the --fields or --preset of that run."
            )
    return found


def _topic(said: VerdictLine) -> str | None:
    return None if said.page is None else said.page.topic


def _has_text(text_bytes: Sequence[int], said: VerdictLine) -> bool:
    """Return whether a page's text is as long as a verdict says, where both are known."""
    known = text_bytes and said.text_bytes and said.text != "main"
    return not known or said.text_bytes in text_bytes


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
            value = self._resemblance(page, kept)
            if value >= self._floor:
                yield kept, value

    def _prefix(self, page: int) -> list[int]:
        """Return the page's rarest shingles, one of which any match shares; none if it is short."""
        ranks = self._ranks[page]
        if len(ranks) < self._min_shingles:
            return []
        # A product a hair above a whole number must not round up: one shingle more does no harm.
        least = math.ceil(self._floor * len(ranks) - 1e-9)
        prefix: list[int] = ranks[: len(ranks) - least + 1].tolist()
        return prefix

    def _resemblance(self, page: int, kept: int) -> float:
        left, right = self._ranks[page], self._ranks[kept]
        smaller, larger = sorted((len(left), len(right)))
        if smaller < self._floor * larger:
            return 0.0
        common = len(np.intersect1d(left, right, assume_unique=True))
        return common / (smaller + larger - common)


def _ranks(sets: list[Shingles]) -> list[Ranks]:
    """Number all shingles by rising frequency; return each set as ascending numbers."""
    if not sets:
        return []
    joined = np.concatenate(sets)
    _, inverse, counts = np.unique(joined, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    parts = np.split(rank[inverse], np.cumsum([len(one) for one in sets])[:-1])
    return [np.sort(part) for part in parts]
