"""What the shards of an index speak of: settings, records, verdicts, and what a look-up finds.

One rule holds for every record: (source, start, end, items) covers [start, end) of the source's own
sequence. A reader whose mark is e takes the items n >= e if start <= e < end and moves to end; else
it passes the record over: seen before, or a hole. Pages are numbered by their source (offset,
ordinal); what a shard emits is numbered by the shard, for each destination.

Settings that change a verdict but not a signature come by a CONFIG record, and hold from its place
in the log on: a replay of the log gives what was given, whatever the settings or the version of the
program that replays it. What is to be forgotten comes by a FORGET record in the same way; a command
does not number it, since nobody does so for all commands, and to forget twice does no harm.

`Lookup` and `FlushedRows` are the two seams between the state machine and the store.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from streamer.model import SEQUENCE_MASK, SIMILARITY_ONE, Location
from streamer.rules import Rule, rule_finder, rule_for
from streamer.sketch.method import Measure
from streamer.sketch.signer import DISTINCT_MAX

# Of the rules in shard.py and rule.py. 1 knew no expiry and no rules of sites, 2 no sets, no other
# indexes, no changes of URLs, and no forgetting; 3 retired nothing, and left pages of other indexes
# to the sketches; 4 also hid what was replaced from held pages that had arrived before.
MACHINE_VERSION = 5
SETS_ELSEWHERE = 4  # the first version in which sets decide on pages of other indexes, too
RETIRES_BY_ARRIVAL = 5  # the first version in which a held page sees what it saw when it arrived
CONFIG = "config"  # the source of settings
FORGET = "forget"  # the source of what commands ask for; its records are not numbered
VERDICTS = -1  # the destination of verdicts; others are shards, by number

BEFORE_ALL = -(1 << 62)  # a time

Keys = npt.NDArray[np.uint64]
Leasts = npt.NDArray[np.int32]
Times = npt.NDArray[np.int64]


class Corpus(BaseModel):
    """Another index that pages are compared with: its name, and a digest of its whole state."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name} ({self.digest})"


class IndexSettings(BaseModel):
    """The settings of a CONFIG record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.8, gt=0, le=1, description="least resemblance of duplicates")
    shingles_min: int = Field(
        default=5,
        ge=1,
        le=DISTINCT_MAX,
        description="distinct shingles below which only equal content matches",
    )
    bucket_max: int = Field(
        default=64, ge=1, le=4096, description="postings a bucket; the earliest stay"
    )
    candidates_max: int = Field(
        default=1024, ge=1, le=4096, description="candidates verified a page; the earliest"
    )
    expire_after_ms: int = Field(
        default=0, ge=0, description="age at which a page answers no other any more; 0: none"
    )
    keep_pages: int = Field(
        default=0, ge=0, description="the newest kept pages of a shard that answer; 0: all"
    )
    shards: int = Field(default=1, ge=1, le=64, description="shards that the bands are split over")
    measure: Measure = Field(
        default=Measure.RESEMBLANCE, description="how sketches compare; the method's, for good"
    )
    exact: bool = Field(
        default=False, description="whether sets of shingles decide what sketches leave in doubt"
    )
    rules: tuple[Rule, ...] = Field(
        default=(), description="what holds for the pages of some sites; the first that fits"
    )
    track_changes: bool = Field(
        default=False, description="tell what a page is to the last version of its URL"
    )
    version: int = Field(
        default=MACHINE_VERSION, description="version of the state machine's rules"
    )
    also: tuple[Corpus, ...] = Field(
        default=(), description="other indexes whose pages are representatives, too"
    )
    retire_replaced: bool = Field(
        default=False, description="with track_changes: what a page replaces answers no other"
    )

    @property
    def similarity_min(self) -> int:
        """Return the threshold in ten-thousandths."""
        return round(self.threshold * SIMILARITY_ONE)

    def of_url(self, url: str) -> IndexSettings:
        """Return what holds for the page with this URL."""
        rule = rule_for(self.rules, url)
        if rule is None:
            return self
        own = {"threshold": rule.threshold, "shingles_min": rule.min_shingles}
        return self.model_copy(update={n: value for n, value in own.items() if value is not None})

    def least_of(self, urls: Sequence[bytes]) -> tuple[Leasts, Leasts]:
        """Return for each page the similarity and the distinct shingles that it must have."""
        least = np.full(len(urls), self.similarity_min, np.int32)
        shingles = np.full(len(urls), self.shingles_min, np.int32)
        rule_of = rule_finder(self.rules)
        for i in range(len(urls) if self.rules else 0):
            if (rule := rule_of(urls[i].decode())) is None:
                continue
            if rule.threshold is not None:
                least[i] = round(rule.threshold * SIMILARITY_ONE)
            if rule.min_shingles is not None:
                shingles[i] = rule.min_shingles
        return least, shingles

    @property
    def similarity_bounds(self) -> tuple[int, int]:
        """Return the least and the greatest threshold of any page, in ten-thousandths."""
        own = [one.threshold for one in self.rules if one.threshold is not None]
        bounds = [round(each * SIMILARITY_ONE) for each in (self.threshold, *own)]
        return min(bounds), max(bounds)

    @property
    def shingles_max(self) -> int:
        """Return the greatest number of shingles below which only equal content matches."""
        own = (one.min_shingles for one in self.rules if one.min_shingles is not None)
        return max([self.shingles_min, *own])


def bands_of(shard: int, shards: int, bands: int) -> tuple[int, int]:
    """Return the first band that `shard` owns and the one after its last."""
    return shard * bands // shards, (shard + 1) * bands // shards


def key_columns(shard: int, shards: int, bands: int) -> list[int]:
    """Return which columns of keys[n, bands + 1] `shard` owns: the first one the content key's too.

    They are in the order in which the shard has its own keys and their marks.
    """
    return [*range(*bands_of(shard, shards, bands)), *([bands] if shard == 0 else [])]


def shard_name(shard: int) -> str:
    """Return the name of a shard as a source in the positions."""
    return f"shard:{shard}"


def destination_name(destination: int) -> str:
    """Return the name of a destination in a shard's state."""
    return "verdicts" if destination == VERDICTS else shard_name(destination)


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

        def taken(column: Any) -> Any:  # noqa: ANN401 - an array, a list or None, as it was
            if isinstance(column, list):
                return [column[i] for i in listed]
            return None if column is None else column[where]

        return type(self)(*(taken(getattr(self, each.name)) for each in fields(self)))


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
        times: int64, milliseconds since 1970, 0 where it is not known. Shard 0 makes them ascend.
        watermarks: int64, no page behind it in a shard's log is older; told by the shard before.
        main: bool, whether the main text was signed; None where none was asked for.
        shingles: their sets (sketch/hash_sets.py); None where none were asked for.
        changes: int32, what each is to the last version of its URL, as shard 0 has found it
            (url_versions.py); None where that is not asked for.
        replacements: int64, of a page that was held, how many pages had replaced what their URLs
            had when it arrived; -1 or None: all that have until now.
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
    watermarks: Times
    main: npt.NDArray[np.bool_] | None = None
    shingles: list[bytes] | None = None
    changes: npt.NDArray[np.int32] | None = None
    replacements: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.urls)


@dataclass(slots=True)
class Decisions(Columns):
    """What became of pages further along: kept (True) or dropped."""

    refs: npt.NDArray[np.uint64]
    kept: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.refs)


class Other(Protocol):
    """Another index that pages are compared with, as it was at one moment."""

    @property
    def corpus(self) -> Corpus:
        """Return its name and what identifies it."""

    def locate(self, ref: int) -> Location:
        """Return where a page of it was read."""


@dataclass(slots=True)
class Nearest(Columns):
    """What other indexes have nearest to pages, for each of these.

    Attributes:
        similarities: int32, ten-thousandths; -1 where they have none like it.
        same_content: bool, whether it is posted under the page's content key.
        exact: bool, whether a similarity is that of two sets.
        refs, urls, others: of the page that is nearest, and the index that has it.
    """

    similarities: npt.NDArray[np.int32]
    same_content: npt.NDArray[np.bool_]
    exact: npt.NDArray[np.bool_]
    refs: list[int]
    urls: list[bytes]
    others: list[Other | None]


def nothing_near(pages: int) -> Nearest:
    """Return what there is where nothing is near to so many pages."""
    no, none = np.zeros((2, pages), np.bool_)
    return Nearest(
        np.full(pages, -1, np.int32), no, none, [0] * pages, [b""] * pages, [None] * pages
    )


class Others(Protocol):
    """What a shard asks of other indexes."""

    def nearest(
        self, pages: Pages, keys: Keys, masks: Keys, settings: IndexSettings
    ) -> Nearest | None:
        """Return what the indexes that the settings name have nearest to pages, if they name any.

        `keys` are the pages' own at the shard, `masks` tell which of them each page has, by bit.

        Raises:
            StoreMismatch: one of these indexes is not there.
        """


Term = tuple[str, bytes | int]
"""A kind of forgetting.py, and its value."""


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

    def take(self, places: Sequence[int]) -> Forget:
        """Return the terms at `places`, in that order."""
        return Forget([self.terms[i] for i in places], self.ask)


@dataclass(slots=True)
class Verdicts:
    """Verdicts in columns; representatives hold 0 and b"" where the page is unique.

    Attributes:
        pages: the judged pages, all of one index.
        similarities: int32, ten-thousandths; -1 where the page is unique.
        basis: uint8, see rule.py.
        representative_refs: uint64.
        representative_urls: bytes.
        exact: bool, whether a similarity is that of sets; None where the index has none.
        others: the index that has the representative, None: this one; None if all are of this one.
    """

    pages: Pages
    similarities: npt.NDArray[np.int32]
    basis: npt.NDArray[np.uint8]
    representative_refs: npt.NDArray[np.uint64]
    representative_urls: list[bytes]
    exact: npt.NDArray[np.bool_] | None = None
    others: list[Other | None] | None = None

    def __len__(self) -> int:
        return len(self.pages)


Items = Pages | Decisions | IndexSettings | Forget


@dataclass(slots=True)
class Record:
    """One record of a shard's log: [start, end) of `source`, and the items numbered in it."""

    source: str
    start: int
    end: int
    numbers: npt.NDArray[np.int64]
    items: Items


def page_record(
    source: int,
    start: int,
    end: int,
    pages: Pages,
    numbers: npt.NDArray[np.int64] | None = None,
) -> Record:
    """Return the record of the pages in [start, end) of a page source.

    `numbers` are theirs in the source, where their refs are of other ones.
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
    """Items for one destination, VERDICTS or a shard, numbered from `start` on without gaps."""

    destination: int
    start: int
    items: Pages | Decisions | Forget | Verdicts

    @property
    def end(self) -> int:
        """Return the number after the last item's."""
        return self.start + len(self.items)

    def record(self, sender: int) -> Record:
        """Return what shard `sender` emitted for another one as a record of that one's log."""
        assert not isinstance(self.items, Verdicts), "verdicts go to no shard"
        numbers = np.arange(self.start, self.end)
        return Record(shard_name(sender), self.start, self.end, numbers, self.items)


@dataclass(slots=True)
class Hits:
    """Postings found for an array of keys.

    Attributes:
        places: int64, the places of the keys that have postings, ascending.
        starts: int64, where each one's list starts in `rows`, and the end.
        rows: int64, ascending in each list.
        flushes: how many the store had had since the look-up was made.
    """

    places: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    flushes: int


def no_hits(flushes: int) -> Hits:
    """Return the hits of keys that have no posting."""
    return Hits(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), flushes)


@dataclass(slots=True)
class KeptRows(Columns):
    """Rows as stored: sketches uint64[n, 33], page refs, URLs, times.

    A row that has been dropped since it was found has the time BEFORE_ALL, and nothing else.
    """

    sketches: npt.NDArray[np.uint64]
    refs: list[int]
    urls: list[bytes]
    times: Times


class Horizon(NamedTuple):
    """Pages that are older than `time`, or have a row before `row`, answer no page any more."""

    time: int = BEFORE_ALL
    row: int = 0

    def has(self, times: Times, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which rows of these times lie before it, not behind: they may still answer."""
        return (times >= self.time) & (rows >= self.row)


NO_HORIZON = Horizon()


class FoundUrls(NamedTuple):
    """The versions of URLs that the store has: for each its key, and the bytes of its newest one.

    None stands for a URL that is not there. `flushes` is how many the store had had since the
    look-up was made.
    """

    urls: list[bytes]
    keys: list[int]
    versions: list[bytes | None]
    flushes: int


@dataclass(slots=True)
class FlushedUrls:
    """The newest versions of URLs, by key, that a flush takes to a generation of them.

    No page of that generation has a later time or comes before a later row than `newest` says.
    """

    generation: int
    newest: Horizon
    versions: dict[int, bytes]


class Lookup(Protocol):
    """What a shard asks of the pages that have left its head."""

    @property
    def flushes(self) -> int:
        """Return how many flushes the store has had since the look-up was made."""

    def find(self, keys: Keys, flushes: int) -> Hits:
        """Return the postings of `keys` in the store, which must have so many flushes at least."""

    def rows(self, rows: npt.NDArray[np.int64]) -> KeptRows:
        """Return the rows of these numbers, in that order."""

    def shingles(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """Return the sets of shingles of these rows; none of one that has been dropped."""

    def urls(self, urls: list[bytes], flushes: int) -> FoundUrls:
        """Return the versions of URLs in the store, which must have so many flushes at least."""


@dataclass(slots=True)
class FlushedRows:
    """What a flush takes from one shard: kept rows with their postings, and the shard's state.

    `rows` ascend. `keys` are uint64[n, m], and row i is posted under keys[i, j] if bit j of
    masks[i] is set. Arrays may be the head's own, and are good until the shard is told `flushed`.
    What lies behind the `horizon`, of these and of all rows before, may be dropped. `shingles` are
    the rows' sets, none in an index without these.
    """

    rows: npt.NDArray[np.int64]
    refs: npt.NDArray[np.uint64]
    sketches: npt.NDArray[np.uint64]
    keys: Keys
    masks: npt.NDArray[np.uint64]
    urls: list[bytes]
    times: Times
    state: bytes
    horizon: Horizon = NO_HORIZON
    shingles: Sequence[bytes] = ()
    versions: FlushedUrls | None = None
