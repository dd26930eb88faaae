"""Verdicts to clusters: which pages belong together, and which one of them survives.

A duplicate and its representative belong together, and so does whatever hangs together by such
pairs: union-find over the verdicts of a file. The file is read twice. First come the pairs, as page
refs; then, for the pages that are in a pair, the place of their line, their scope and the numbers
that the policy asks for. So only pages in a cluster cost memory, numbers and no text: while they
are sorted 75 bytes a page, and 8 more for each number of the policy (the peak by tracemalloc).

A policy turns a verdict into a tuple of numbers, of which the least survives; among equal ones it
is the page that the file has first. A page that the file knows only as a representative was judged
before the file began: it is earlier than all, and has no length and no carried field.

    earliest  the first in the file
    longest   the most bytes of visible text (`text_bytes`)
    https     an https URL before others
    nutch     the highest `score`, then the newest `fetched_at`, then the shortest decoded URL: the
              order of Apache Nutch's DeduplicationJob; the two are carried fields
    FIELD:max, FIELD:min  the greatest or least value of a carried field, a number or a time

Mirrors on other hosts may be wanted while copies within a site are not. A scope's number is a hash
of the host or the registered domain in a URL, so that a page costs eight bytes. The registered
domain is what is below a public suffix (example.co.uk), by the Public Suffix List as the
package publicsuffixlist carries it; nothing is fetched.

A row is read from the verdict file again when it is written, by the place of its line. A cluster
with a large share of a source is the sign of a block page, a login form, or a template taken for
content: then the survivor represents pages that are no duplicates of it.
"""

import itertools
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO
from urllib.parse import unquote_plus

import mmh3
import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError, needs_extra
from streamer.hosts import host_of
from streamer.model import SEQUENCE_BITS, Location, Representative, page_ref, split_ref
from streamer.pages.times import number_of, seconds_of
from streamer.run.totals import SUSPECT_PAGES_MIN, Ints, unite
from streamer.run.verdict_files import open_verdicts, read_places, read_verdict_at, write_table
from streamer.run.verdict_lines import VerdictLine


def place_of(representative: Representative) -> Location:
    """Return a representative's place; in another index, with that one's name before the source."""
    page, index = representative.page, representative.index
    if index is msgspec.UNSET:
        return page
    return Location(f"{index}:{page.topic}", page.partition, page.offset)


Rank = Callable[[VerdictLine], tuple[float, ...]]


def _nutch(judged: VerdictLine) -> tuple[float, ...]:
    score, fetched = (judged.carried.get(name) for name in _NUTCH_FIELDS)
    return -number_of(score), -seconds_of(fetched), len(unquote_plus(judged.url))


EARLIEST = "earliest"
_NUTCH_FIELDS = ("score", "fetched_at")
_POLICIES: dict[str, tuple[Rank, tuple[str, ...]]] = {  # with the carried fields that each looks at
    EARLIEST: (lambda _judged: (), ()),
    "longest": (lambda judged: (-judged.text_bytes,), ()),
    "https": (lambda judged: (not judged.url[:8].lower().startswith("https://"),), ()),
    "nutch": (_nutch, _NUTCH_FIELDS),
}


def ranking(policy: str) -> tuple[Rank, tuple[str, ...]]:
    """Return the function of a policy, and the carried fields that it looks at.

    Values of a field are numbers or times; a page without one comes last.

    Raises:
        SettingsError: there is no such policy.
    """
    if policy in _POLICIES:
        return _POLICIES[policy]
    name, _, end = policy.rpartition(":")
    if not name or end not in {"max", "min"}:
        raise SettingsError(
            f"--policy {policy} is none of {', '.join(_POLICIES)}, FIELD:max and FIELD:min."
        )
    sign = -1 if end == "max" else 1

    def rank(judged: VerdictLine) -> tuple[float, ...]:
        value = judged.carried.get(name)
        number = number_of(value)
        if number == -math.inf:
            number = seconds_of(value)
        return (math.inf if number == -math.inf else sign * number,)

    return rank, (name,)


Refs = npt.NDArray[np.uint64]
_UNSEEN = np.iinfo(np.int64).max

Progress = Callable[[int], None]  # gets the bytes read, of twice the file
Note = Callable[[int, VerdictLine], None]  # gets each judged page: its ref, and the verdict


@dataclass(slots=True)
class SourceNumbers:
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
        refs: uint64, each page's ref, by the numbers of `known`.
        starts: int64, where each cluster begins in these.
        judged: verdicts in the file; duplicates: those of duplicates.
        known: the sources.
    """

    places: Ints
    refs: Refs
    starts: Ints
    judged: int
    duplicates: int
    known: SourceNumbers

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Ints:
        """Return the number of pages of each cluster."""
        return np.diff(self.starts, append=len(self.places))

    @property
    def dropped(self) -> Refs:
        """Return the refs of all pages that are no survivors."""
        return np.delete(self.refs, self.starts)


def group(
    path: Path,
    rank: Rank,
    scope: Callable[[str], int],
    progress: Progress = lambda _bytes: None,
    *,
    alone: bool = False,
    note: Note = lambda _ref, _verdict: None,
) -> Grouping:
    """Return the clusters of a verdict file, of two or more pages; `alone`: of one, too.

    `rank` chooses the survivor; a cluster is split by the `scope` of its pages' URLs. Of
    repeated verdicts of a page the first one counts.

    Raises:
        InputError: the file cannot be read, has lines but no verdict, or a line is not one.
    """
    known = SourceNumbers()
    pairs, judged, duplicates = _read_pairs(path, known, progress, note, alone=alone)
    refs = np.sort(pairs)  # np.unique takes four times the memory
    refs = refs[np.diff(refs, prepend=~refs[:1]) != 0]
    roots = np.arange(len(refs))
    unite(np.searchsorted(refs, pairs).reshape(-1, 2), roots)
    del pairs
    size = path.stat().st_size
    pages = _PairedPages(refs, known, rank, scope)
    for place, verdict in read_places(path, lambda read: progress(size + read)):
        pages.add(place, verdict)
    order, starts = _order(roots, pages, 1 if alone else 2)
    return Grouping(pages.places[order], refs[order], starts, judged, duplicates, known)


def _read_pairs(
    path: Path, known: SourceNumbers, progress: Progress, note: Note, *, alone: bool
) -> tuple[Refs, int, int]:
    """Return duplicate, representative, duplicate, representative, ...; pages, and duplicates.

    `alone`: a page that is no duplicate makes a pair with itself.
    """
    pairs = array("Q")
    judged = duplicates = 0
    for _, verdict in read_places(path, progress):
        ref = known.ref(verdict.page)
        known.pages[split_ref(ref)[0]] += 1
        judged += 1
        note(ref, verdict)
        if verdict.representative is not None:
            pairs.extend((ref, known.ref(place_of(verdict.representative))))
            duplicates += 1
        elif alone:
            pairs.extend((ref, ref))
    return np.frombuffer(pairs, np.uint64), judged, duplicates


class _PairedPages:
    """What is known of the pages in pairs, by the place of their ref in the ascending `refs`."""

    def __init__(
        self, refs: Refs, known: SourceNumbers, rank: Rank, scope: Callable[[str], int]
    ) -> None:
        self._refs = refs.data  # a search in it takes a fifth of numpy's time
        self._known = known
        self._rank = rank
        self._scope = scope
        self.places = np.full(len(refs), _UNSEEN)
        self.scopes = np.zeros(len(refs), np.uint64)
        self.ranks = np.zeros((len(refs), len(rank(VerdictLine()))))

    def add(self, place: int, verdict: VerdictLine) -> None:
        """Enter a verdict's page, and the page that it names as its representative."""
        at = self._find(verdict.page)
        if at is not None and not 0 <= self.places[at] < _UNSEEN:
            self._enter(at, place, verdict)
        other = verdict.representative
        if other is not None:
            at = self._find(place_of(other))
            if at is not None and self.places[at] == _UNSEEN:
                self._enter(at, ~place, VerdictLine(url=other.url))

    def _find(self, page: Location) -> int | None:
        ref = self._known.ref(page)
        at = bisect_left(self._refs, ref)
        return at if at < len(self._refs) and self._refs[at] == ref else None

    def _enter(self, at: int, place: int, judged: VerdictLine) -> None:
        self.places[at] = place
        self.scopes[at] = self._scope(judged.url)
        self.ranks[at] = self._rank(judged)


def _order(roots: Ints, pages: _PairedPages, size_min: int) -> tuple[Ints, Ints]:
    """Return the pages of clusters in the order of a Grouping, and where each cluster begins.

    `size_min` is the least number of pages of a cluster: one that is alone in its scope may be
    in none.
    """
    order = np.lexsort((pages.places, *pages.ranks.T[::-1], pages.scopes, roots))
    if not len(order):
        return order, order
    begins = np.ones(len(order), np.bool_)
    begins[1:] = _changes(roots[order]) | _changes(pages.scopes[order])
    starts = np.flatnonzero(begins)
    sizes = np.diff(starts, append=len(order))
    chosen = np.argsort(np.minimum.reduceat(pages.places[order], starts))
    chosen = chosen[sizes[chosen] >= size_min]
    sizes = sizes[chosen]
    ends = np.cumsum(sizes)
    places = np.arange(sizes.sum())
    places += np.repeat(starts[chosen] - (ends - sizes), sizes)
    return order[places], ends - sizes


def _changes(ordered: npt.NDArray[np.number[Any]]) -> npt.NDArray[np.bool_]:
    changes: npt.NDArray[np.bool_] = ordered[1:] != ordered[:-1]
    return changes


HOSTS_REMEMBERED = 65_536


class Scope(StrEnum):
    """Within what pages count as duplicates of each other."""

    NONE = "none"
    HOST = "host"
    DOMAIN = "domain"


def numbering(scope: Scope) -> Callable[[str], int]:
    """Return the function from a URL to the 64-bit number of its scope; all have one with none."""
    if scope is Scope.NONE:
        return lambda _url: 0
    name = host_or_url if scope is Scope.HOST else domain_of
    return lambda url: mmh3.hash64(name(url).encode(errors="replace"), signed=False)[0]


def host_or_url(url: str) -> str:
    """Return the host of a URL; the URL itself where it has none."""
    return host_of(url) or url


def domain_of(url: str) -> str:
    """Return the registered domain of a URL; the host where it has none, as an IP address."""
    return _domain(host_or_url(url))


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _domain(host: str) -> str:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return _suffixes().privatesuffix(host) or host
    return host


@lru_cache(maxsize=1)
def _suffixes() -> Any:  # noqa: ANN401 - of an extra
    with needs_extra("analysis", "--scope domain"):
        from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - an extra

    return PublicSuffixList()


COLUMNS = ("cluster", "pages", "survivor", "url", "topic", "partition", "offset")


class Row(msgspec.Struct, frozen=True):
    """One page of a cluster; clusters are numbered from 1, `pages` is how many it has."""

    cluster: int
    pages: int
    survivor: bool
    url: str
    page: Location


class Suspect(NamedTuple):
    """A cluster with `share` of the pages of a source."""

    source: str
    pages: int
    share: float
    survivor: str


def rows(path: Path, grouping: Grouping, excluded: Container[str] = frozenset()) -> Iterator[Row]:
    """Yield the rows of all clusters of the verdict file at `path`, in the order of `grouping`.

    A page whose URL is `excluded` is no survivor, though it is the first of its cluster.
    """
    with open_verdicts(path) as file:
        places = iter(grouping.places.tolist())
        for number, size in enumerate(grouping.sizes.tolist(), 1):
            for member in range(size):
                url, page = _page_at(file, next(places))
                yield Row(number, size, member == 0 and url not in excluded, url, page)


def suspects(path: Path, grouping: Grouping, share_min: float) -> list[Suspect]:
    """Return the clusters of 10 or more pages with at least `share_min` of a source's verdicts.

    The largest shares come first. Pages without a verdict in the file do not count.
    """
    own = grouping.places >= 0
    clusters = np.repeat(np.arange(len(grouping)), grouping.sizes)[own]
    sources = (grouping.refs[own] >> np.uint64(SEQUENCE_BITS)).astype(np.int64)
    parts, counts = np.unique((clusters, sources), axis=1, return_counts=True)
    names = grouping.known.names()
    found = []
    with open_verdicts(path) as file:
        for cluster, source, count in zip(*parts.tolist(), counts.tolist(), strict=True):
            share = count / grouping.known.pages[source]
            if count >= SUSPECT_PAGES_MIN and share >= share_min:
                place = int(grouping.places[grouping.starts[cluster]])
                found.append(Suspect(names[source], count, share, _page_at(file, place)[0]))
    return sorted(found, key=lambda suspect: (-suspect.share, suspect.source))


def write_jsonl(out: TextIO, table: Iterator[Row]) -> None:
    """Write rows as JSON lines."""
    out.writelines(msgspec.json.encode(row).decode() + "\n" for row in table)


def write_csv(out: TextIO, table: Iterator[Row]) -> None:
    """Write rows as CSV, after a line of column names; `survivor` is 1 or 0."""
    lines = (
        (row.cluster, row.pages, int(row.survivor), row.url, *msgspec.structs.astuple(row.page))
        for row in table
    )
    write_table(out, itertools.chain([COLUMNS], lines))


WRITERS: dict[str, Callable[[TextIO, Iterator[Row]], None]] = {
    ".csv": write_csv,
    ".json": write_jsonl,
    ".jsonl": write_jsonl,
    ".ndjson": write_jsonl,
}


def _page_at(file: BinaryIO, place: int) -> tuple[str, Location]:
    """Return the URL and place of a page by its line, or by ~place of one that names it."""
    judged = read_verdict_at(file, place if place >= 0 else ~place)
    if place >= 0:
        return judged.url, judged.page
    assert judged.representative is not None, place
    return judged.representative.url, place_of(judged.representative)
