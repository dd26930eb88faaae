"""What the state machine needs from outside: stored pages, reference indexes, and flushes.

`Lookup` and `FlushedRows` are the two interfaces between the state machine and the store. Replay,
worker, audit and simulator each implement or use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streamer.index.messages import Columns, IndexSettings, Keys, NamedIndex, NearMiss, Pages, Times

BEFORE_ALL = -(1 << 62)  # a time


@dataclass(slots=True)
class Nearest(Columns):
    """What other indexes have nearest to pages, for each of these.

    Attributes:
        similarities: int32, ten-thousandths; -1 where they have none like it.
        same_content: bool, whether it is posted under the page's content key.
        exact: bool, whether a similarity is that of two sets.
        refs, urls, references: of the page that is nearest, and the index that has it.
    """

    similarities: npt.NDArray[np.int32]
    same_content: npt.NDArray[np.bool_]
    exact: npt.NDArray[np.bool_]
    refs: list[int]
    urls: list[bytes]
    references: list[NamedIndex | None]

    def near_miss(self, place: int) -> NearMiss:
        """Return what is nearest to the page at a place, as a verdict has it."""
        other, ref = self.references[place], self.refs[place]
        assert other is not None, "nothing is near"
        similarity, exact = int(self.similarities[place]), bool(self.exact[place])
        where = other.corpus.name, other.locate(ref)
        return NearMiss(similarity, ref, self.urls[place], exact, *where)


def nothing_near(pages: int) -> Nearest:
    """Return what there is where nothing is near to so many pages."""
    no, none = np.zeros((2, pages), np.bool_)
    return Nearest(
        np.full(pages, -1, np.int32), no, none, [0] * pages, [b""] * pages, [None] * pages
    )


class References(Protocol):
    """What a shard asks of other indexes."""

    def nearest(self, pages: Pages, masks: Keys, settings: IndexSettings) -> Nearest:
        """Return what the indexes that the settings name have nearest to pages; in any thread.

        `masks` say which of their keys the pages have, by bit.

        Raises:
            StoreMismatch: one of these indexes is not there.
        """


@dataclass(slots=True)
class Hits:
    """Postings found for an array of keys.

    Attributes:
        key_places: int64, the places of the keys that have postings, ascending.
        starts: int64, where each one's list starts in `rows`, and the end.
        rows: int64, ascending in each list.
        flushes: how many the store had had since the look-up was made.
    """

    key_places: npt.NDArray[np.int64]
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
        """Return which rows of these times are not before it: they may still answer."""
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


@dataclass(frozen=True, slots=True)
class Found:
    """What a shard has found for pages before they come.

    Attributes:
        refs, keys: of the pages.
        hits: for the keys.
        numbers: of the rows in `hits`, ascending.
        rows: of these numbers; None where they were too many to read.
        urls: None where no changes are tracked.
        nearest: what other indexes have; None where none is asked.
        settings: which were in force then.
    """

    refs: npt.NDArray[np.uint64]
    keys: Keys
    hits: Hits
    numbers: npt.NDArray[np.int64]
    rows: KeptRows | None
    urls: FoundUrls | None
    nearest: Nearest | None
    settings: IndexSettings | None

    def is_for(self, keys: Keys, flushes: int) -> bool:
        """Return whether it is for pages of these keys, and has seen so many flushes."""
        return self.hits.flushes >= flushes and np.array_equal(self.keys, keys)

    def has_nearest(self, refs: npt.NDArray[np.uint64], settings: IndexSettings) -> bool:
        """Return whether `nearest` is for these pages, under these settings."""
        return self.settings == settings and np.array_equal(self.refs, refs)

    def take(self, rows: npt.NDArray[np.int64]) -> KeptRows:
        """Return rows of `numbers`, in this order; only where they were read."""
        assert self.rows is not None, "too many rows"
        return self.rows.take(np.searchsorted(self.numbers, rows))


@dataclass(slots=True)
class FlushedUrls:
    """The newest versions of URLs, by key, that a flush takes to a generation of them.

    No page of that generation has a later time or comes before a later row than `newest` says.
    """

    generation: int
    newest: Horizon
    versions: dict[int, bytes]


class Lookup(Protocol):
    """What a shard asks of the pages that have left its memtable."""

    @property
    def flushes(self) -> int:
        """Return how many flushes the store has had since the look-up was made."""

    @property
    def first_row(self) -> int | None:
        """Return the lowest row in the store, None where it has none."""

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
    """What a flush takes: kept rows with their postings, and the state of the shard.

    `rows` ascend. `keys` are uint64[n, m], and row i is posted under keys[i, j] if bit j of
    masks[i] is set. Arrays may be the memtable's own, and are valid until the shard's `end_flush`.
    What is before the `horizon`, of these and of all rows before, may be dropped. `shingles` are
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
