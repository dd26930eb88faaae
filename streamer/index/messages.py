"""What goes into an index and comes out: records of its log, and verdicts.

One rule holds for every record: (source, start, end, items) covers [start, end) of the source's own
sequence. A reader at position e takes the items n >= e if start <= e < end, and moves to end.
Otherwise it ignores the record: it was seen before, or follows a hole. Pages are numbered by their
source (offset or ordinal). An index numbers its verdicts.

What is to be forgotten arrives in a FORGET record. Commands do not number these records, since no
counter is shared by all commands, and forgetting twice does no harm.

The log carries the settings of verdicts. Those that change a verdict but not a signature arrive in
a CONFIG record, and hold from its place in the log on. So a replay of the log gives the same
verdicts, whatever the settings or the version of the program that replays it.
"""

# A page without main text is compared with its menus, so it has a threshold of its own: a preset's
# low one would find pages of one site alike. The text of the later page decides, as rules for sites
# do. Of 1,039 duplicates among articles in templates none paired a main text with a visible one.

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

import msgspec
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from streamer.model import SEQUENCE_MASK, SIMILARITY_ONE, Location
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

    def for_url(self, url: str, *, main: bool = True) -> Self:
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


# ---- records and verdicts ------------------------------------------------------------------------

CONFIG = "config"  # the source of settings

FORGET = "forget"  # the source of what commands ask for; its records are not numbered

Keys = npt.NDArray[np.uint64]

Times = npt.NDArray[np.int64]

Headers = list[tuple[str, bytes]]


def source_name(source: int) -> str:
    """Return the name of a page source in the positions, by its number in the catalogue."""
    return f"pages:{source}"


@dataclass(slots=True)
class Columns:
    """Entries in columns: each field is an array or a list of them, or None."""

    def take(self, places: Sequence[int] | npt.NDArray[np.int64]) -> Self:
        """Return the entries at `places`, in that order."""
        where = np.asarray(places, np.int64)
        listed = where.tolist()

        def taken(column: Any) -> Any:  # noqa: ANN401 - columns, an array, a list or None, as it was
            if isinstance(column, list):
                return [column[i] for i in listed]
            if isinstance(column, Columns):
                return column.take(where)
            return None if column is None else column[where]

        return type(self)(*(taken(getattr(self, each.name)) for each in fields(self)))


class NearMiss(msgspec.Struct, frozen=True):
    """The kept page nearest to one that nothing matches, and their similarity in ten-thousandths.

    `exact`: that is the similarity of their sets. `index` names another index that has the page,
    and `place` is where that one has read it.
    """

    similarity: int
    ref: int
    url: bytes
    exact: bool = False
    index: str = ""
    place: Location | None = None


@dataclass(slots=True)
class Pages(Columns):
    """Signed pages in columns, n entries each.

    Attributes:
        refs: uint64, page refs.
        keys: uint64[n, bands + 1], band keys, then the content key.
        sketches: uint64[n, 33], see sketch/resemblance.py.
        distinct: uint8, distinct shingles as far as they are counted.
        tokens: uint32.
        text_bytes: int64.
        urls, message_keys, carried: bytes; a message key may be None.
        times: int64, milliseconds since 1970, 0 where it is not known. The index makes them ascend.
        main: bool, whether the main text was signed; None where none was asked for.
        shingles: their sets (sketch/hash_sets.py); None where none were asked for.
        headers: those of each page's message that its verdict's message has too; None: none have.
    """

    refs: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint64]
    sketches: npt.NDArray[np.uint64]
    distinct: npt.NDArray[np.uint8]
    tokens: npt.NDArray[np.uint32]
    text_bytes: npt.NDArray[np.int64]
    urls: list[bytes]
    message_keys: list[bytes | None]
    carried: list[bytes]
    times: Times
    main: npt.NDArray[np.bool_] | None = None
    shingles: list[bytes] | None = None
    headers: list[Headers] | None = None

    def __len__(self) -> int:
        return len(self.urls)


class NamedIndex(Protocol):
    """Another index that pages are compared with, as it was at one moment."""

    @property
    def corpus(self) -> Corpus:
        """Return its name and what identifies it."""

    def locate(self, ref: int) -> Location:
        """Return where a page of it was read."""


Term = tuple[str, bytes | int]

"""A kind of term (forgetting.py), and its value."""


@dataclass(slots=True)
class Forget:
    """What is to be forgotten of all that came before; `ask` is the command that wants it, if any.

    Attributes:
        terms: a page is forgotten if one of them names it.
    """

    terms: list[Term]
    ask: str = ""

    def __len__(self) -> int:
        return len(self.terms)

    def take(self, places: Sequence[int]) -> Self:
        """Return the terms at `places`, in that order."""
        return type(self)([self.terms[i] for i in places], self.ask)


@dataclass(slots=True)
class Verdicts(Columns):
    """Verdicts in columns; representatives hold 0 and b"" where the page is unique.

    Attributes:
        pages: the judged pages, all of one index.
        similarities: int32, ten-thousandths; -1 where the page is unique.
        basis: uint8, see rule.py.
        representative_refs: uint64.
        representative_urls: bytes.
        exact: bool, whether a similarity is that of sets; None where the index has none.
        references: the index that has the representative, None: this one; None if all are of this
            one.
        changes: int32, what each page is to the last version of its URL (url_versions.py); None
            where that is not asked for.
        nearest: what is nearest to each unique page, None where nothing is; None where near misses
            are not asked for, and so is `nearest_min`.
        nearest_min: int32, the similarity from which on each page was compared with all of its
            candidates, in ten-thousandths.
    """

    pages: Pages
    similarities: npt.NDArray[np.int32]
    basis: npt.NDArray[np.uint8]
    representative_refs: npt.NDArray[np.uint64]
    representative_urls: list[bytes]
    exact: npt.NDArray[np.bool_] | None = None
    references: list[NamedIndex | None] | None = None
    changes: npt.NDArray[np.int32] | None = None
    nearest: list[NearMiss | None] | None = None
    nearest_min: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.pages)


Items = Pages | IndexSettings | Forget


@dataclass(slots=True)
class Record:
    """One entry of an index's log: [start, end) of `source`, and the items numbered in it.

    It is no record of the input. A replay makes it in memory, and stores it nowhere.
    """

    source: str
    start: int
    end: int
    numbers: npt.NDArray[np.int64]
    items: Items


def page_record(
    source: int, start: int, end: int, pages: Pages, numbers: npt.NDArray[np.int64] | None = None
) -> Record:
    """Return the record of the pages in [start, end) of a page source.

    `numbers` are the pages' numbers in `source`, where their refs name other sources, as those of
    files do.
    """
    if numbers is None:
        numbers = (pages.refs & np.uint64(SEQUENCE_MASK)).astype(np.int64)
    return Record(source_name(source), start, end, numbers, pages)


def config_record(settings: IndexSettings, number: int) -> Record:
    """Return settings as a record, the one with this number."""
    return Record(CONFIG, number, number + 1, np.array([number]), settings)


def forget_record(forget: Forget) -> Record:
    """Return what a command wants as a record."""
    return Record(FORGET, 0, 1, np.zeros(len(forget), np.int64), forget)


Tombstone = tuple[int, bytes]

"""The number of a message without a value, and its key: the URL of what is to be forgotten."""


def source_records(
    source: int, start: int, end: int, pages: Pages, tombstones: Sequence[Tombstone]
) -> Iterator[Record]:
    """Yield the records of what was read in [start, end) of a page source, each of one kind."""
    if not tombstones:
        yield page_record(source, start, end, pages)
        return
    numbers = (pages.refs & np.uint64(SEQUENCE_MASK)).astype(np.int64)
    places = np.searchsorted(numbers, [number for number, _ in tombstones]).tolist()
    first = 0
    for place, group in itertools.groupby(zip(places, tombstones, strict=True), lambda one: one[0]):
        found = [tombstone for _, tombstone in group]
        if first < place:
            before, start = start, found[0][0]
            yield page_record(source, before, start, pages.take(range(first, place)))
        stop = int(numbers[place]) if place < len(numbers) else end
        terms: list[Term] = [("url", url) for _, url in found]
        own = np.array([number for number, _ in found], np.int64)
        yield Record(source_name(source), start, stop, own, Forget(terms))
        first, start = place, stop
    if start < end:
        yield page_record(source, start, end, pages.take(range(first, len(pages))))


@dataclass(slots=True)
class Output:
    """The verdicts that a record leads to, numbered from `start` on without gaps."""

    start: int
    verdicts: Verdicts
