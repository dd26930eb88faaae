"""A batch of pages on their way through a shard: what they are judged by, and their verdicts."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamer.index import rule
from streamer.index.memtable import Memtable
from streamer.index.messages import Keys, NamedIndex, NearMiss, Pages, Verdicts
from streamer.index.ports import Hits, KeptRows, Lookup, Nearest
from streamer.index.rule import Arrivals, Judged, Limits, Scratch, StoredHits
from streamer.sketch.hash_sets import set_similarity

Places = npt.NDArray[np.int64]


@dataclass(slots=True)
class Batch:
    """Pages in the order in which they are judged.

    Attributes:
        fetched: the stored rows that `stored` has.
        nearest: what other indexes have.
        short: bool, whether a page is too short to compare.
        judged: the outcomes, once the pages are judged.
        rows: int64, how many rows came before each page.
    """

    pages: Pages
    arrivals: Arrivals
    limits: Limits
    stored: StoredHits
    fetched: KeptRows
    nearest: Nearest
    short: npt.NDArray[np.bool_]
    judged: Judged = field(init=False)
    rows: Places = field(init=False)
    _scratch: Scratch = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.pages)
        content, exact = np.empty((2, count), np.bool_)
        best, near = np.empty((2, count), np.int64)
        outcome, similarity = np.empty(count, np.uint8), np.empty(count, np.int32)
        self.judged = Judged(outcome, best, similarity, content, exact, near)
        rows, places, known = np.empty((3, self.limits.candidates_max), np.int64)
        sizes, slots = np.empty((2, self.arrivals.keys.shape[1]), np.int64)
        self._scratch = Scratch(rows, places, sizes, slots, known, np.zeros(3, np.int64))
        self.rows = np.zeros(count, np.int64)

    def judge(self, memtable: Memtable, next_row: int, lookup: Lookup) -> tuple[int, int]:
        """Judge the pages; return the next row, and how many postings were refused.

        Those that are new are entered into the memtable.
        """
        judged, stop, end = self.judged, self._scratch.stop, len(self.pages)
        before, row, refused = memtable.count, next_row, 0
        memtable.reserve(end)
        while stop[0] < end:
            memtable.count, next_row, more = rule.judge_pages(
                self.arrivals, self.limits, self.stored, memtable.columns(), memtable.count,
                next_row, judged, self._scratch,
            )  # fmt: skip
            refused += more
            if stop[0] < end:
                self._compare_sets(before, memtable, lookup)
        inserted = judged.outcome == rule.UNIQUE
        self.rows = row + np.cumsum(inserted) - inserted
        new = np.flatnonzero(inserted)
        memtable.refs[before : memtable.count] = self.pages.refs[new]
        memtable.urls += [self.pages.urls[i] for i in new.tolist()]
        if self.limits.exact:
            sets = self.pages.shingles or [b""] * len(self.pages)
            memtable.shingles += [sets[i] for i in new.tolist()]
        return next_row, refused

    def _compare_sets(self, before: int, memtable: Memtable, lookup: Lookup) -> None:
        """Find the similarity of a page's set to those of its candidates that are in doubt.

        Entries of the memtable from `before` on are of the pages of this batch that came before it.
        """
        scratch = self._scratch
        page, _, candidates = scratch.stop.tolist()
        own = self.pages.shingles or [b""] * len(self.pages)
        inserted = np.flatnonzero(self.judged.outcome[:page] == rule.UNIQUE)
        for at in np.flatnonzero(scratch.known[:candidates] == rule.IN_DOUBT).tolist():
            place, other = int(scratch.places[at]), b""
            if own[page] and place < 0:
                [other] = lookup.shingles(scratch.rows[at : at + 1])
            elif own[page]:
                in_memtable = place < before
                other = memtable.shingles[place] if in_memtable else own[inserted[place - before]]
            scratch.known[at] = set_similarity(own[page], other)

    def verdicts(self, memtable: Memtable, changes: npt.NDArray[np.int32] | None) -> Verdicts:
        """Return the verdicts on the pages, once they are judged.

        `changes` are as in `Verdicts`.
        """
        pages, nearest, count = self.pages, self.nearest, len(self.pages)
        outcome, best, scores, content, exact, _ = self.judged
        is_elsewhere = best == rule.ELSEWHERE
        content = content | is_elsewhere & nearest.same_content
        exact = exact | is_elsewhere & nearest.exact
        basis = np.where(content, rule.CONTENT, rule.SIGNATURE).astype(np.uint8)
        basis[self.short] = rule.TOO_SHORT
        refs = np.zeros(count, np.uint64)
        urls = [b""] * count
        references: list[NamedIndex | None] = [None] * count
        is_duplicate = outcome == rule.DUPLICATE
        for i in np.flatnonzero(is_duplicate).tolist():
            place = int(best[i])
            if place == rule.ELSEWHERE:
                refs[i], urls[i] = nearest.refs[i], nearest.urls[i]
                references[i] = nearest.references[i]
                continue
            refs[i] = memtable.refs[place] if place >= 0 else self.fetched.refs[-1 - place]
            urls[i] = memtable.urls[place] if place >= 0 else self.fetched.urls[-1 - place]
        near_misses = nearest_min = None
        if self.limits.margin:
            near_misses = self._near_misses(memtable)
            lowest = self.arrivals.similarity_min - self.limits.margin
            nearest_min = np.maximum(lowest, 0).astype(np.int32)
        return Verdicts(
            pages, np.where(is_duplicate, scores, -1).astype(np.int32), basis, refs, urls,
            exact & is_duplicate if self.limits.exact else None,
            references if any(references) else None, changes, near_misses, nearest_min,
        )  # fmt: skip

    def _near_misses(self, memtable: Memtable) -> list[NearMiss | None]:
        """Return what is nearest to each page that is new; of equals the first."""
        judged, found = self.judged, list[NearMiss | None]([None] * len(self.pages))
        is_near = (judged.outcome == rule.UNIQUE) & (judged.near != rule.NOWHERE)
        for i in np.flatnonzero(is_near).tolist():
            place = int(judged.near[i])
            if place == rule.ELSEWHERE:
                found[i] = self.nearest.near_miss(i)
                continue
            own, at = (memtable, place) if place >= 0 else (self.fetched, -1 - place)
            score, exact = int(judged.similarity[i]), bool(judged.exact[i])
            found[i] = NearMiss(score, int(own.refs[at]), own.urls[at], exact)
        return found


def key_masks(
    pages: Pages, shingles_min: npt.NDArray[np.int32]
) -> tuple[Keys, npt.NDArray[np.bool_]]:
    """Return by bit which of its keys each page has, and which pages are too short to compare.

    A page with fewer shingles has the content key only, and one without tokens has none.
    """
    keys, short = pages.keys.shape[1], pages.distinct < shingles_min
    masks = np.where(short, np.uint64(1 << keys - 1), np.uint64((1 << keys) - 1))
    masks[pages.tokens == 0] = 0
    return masks.astype(np.uint64), short


def fetch_candidates(
    fetch: Callable[[Places], KeptRows], hits: Hits, masks: Keys, own_keys: int, limit: int
) -> tuple[KeptRows, Places]:
    """Fetch the rows found in the store; return them, and the place of each hit among them.

    `fetch` returns rows of ascending numbers. Not fetched (-1) are hits under keys that a page
    does not have, and of a page with more than `limit` rows all but the earliest: no others can
    be among its earliest candidates. Where rows expire, it needs the times of all of them.
    """
    lengths = np.diff(hits.starts)
    owner = np.repeat(hits.key_places // own_keys, lengths)
    bit = np.repeat(hits.key_places % own_keys, lengths).astype(np.uint64)
    wanted = (masks[owner] >> bit & np.uint64(1)).astype(np.bool_)
    found = np.bincount(owner[wanted], minlength=len(masks))
    for page in np.flatnonzero(found > limit):
        mine = np.flatnonzero((owner == page) & wanted)
        rows = np.unique(hits.rows[mine])
        if len(rows) > limit:
            wanted[mine] = hits.rows[mine] <= rows[limit - 1]
    distinct = np.unique(hits.rows[wanted])
    places = np.where(wanted, np.searchsorted(distinct, hits.rows), -1)
    return fetch(distinct), places.astype(np.int64)
