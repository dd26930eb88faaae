"""Pages that one shard judges together, with everything that they are judged by.

Their data in the store, in reference indexes and in the last versions of URLs are looked up once
for the whole batch. Then the kernel of rule.py goes from page to page. It stops where sets of
shingles must be compared, and before a page that retires the stored pages of its URL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from streamer.index.memtable import Memtable
from streamer.index.messages import Keys, NamedIndex, NearMiss, Pages, Verdicts
from streamer.index.ports import BEFORE_ALL, Hits, KeptRows, Lookup, Nearest
from streamer.index.rule import (
    CONTENT,
    DUPLICATE,
    ELSEWHERE,
    IN_DOUBT,
    NOWHERE,
    SIGNATURE,
    TOO_SHORT,
    UNIQUE,
    Arrivals,
    Judged,
    Limits,
    Scratch,
    StoredHits,
    judge_pages,
)
from streamer.index.settings import IndexSettings
from streamer.index.url_versions import Compared
from streamer.sketch.hash_sets import decided_similarity, set_similarity
from streamer.sketch.preference import ranks_in

Places = npt.NDArray[np.int64]


@dataclass(slots=True)
class Batch:
    """Pages in the order in which they are judged.

    Attributes:
        fetched: the stored rows that `stored` has.
        nearest: what other indexes have.
        short: bool, whether a page is too short to compare.
        nearest_min: as `Verdicts` has it.
        compared: with the last versions of their URLs, where these are known.
        judged: the outcomes of those that are judged, as `scratch` says.
        rows: int64, how many rows came before each that is judged.
        published: the place of the first that is not.
    """

    pages: Pages
    arrivals: Arrivals
    limits: Limits
    stored: StoredHits
    fetched: KeptRows
    nearest: Nearest
    short: npt.NDArray[np.bool_]
    nearest_min: npt.NDArray[np.int32] | None = None
    compared: Compared | None = None
    judged: Judged = field(init=False)
    scratch: Scratch = field(init=False)
    rows: Places = field(init=False)
    published: int = 0
    _by_url: dict[bytes, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.pages)
        content, exact = np.empty((2, count), np.bool_)
        best, near, container = np.empty((3, count), np.int64)
        outcome, (similarity, containment) = (
            np.empty(count, np.uint8),
            np.empty((2, count), np.int32),
        )
        self.judged = Judged(
            outcome, best, similarity, content, exact, near, container, containment
        )
        rows, places, known = np.empty((3, self.limits.candidates_max), np.int64)
        sizes, slots = np.empty((2, self.arrivals.keys.shape[1]), np.int64)
        self.scratch = Scratch(rows, places, sizes, slots, known, np.zeros(5, np.int64))
        self.rows = np.zeros(count, np.int64)

    def judge_to(
        self, end: int, memtable: Memtable, next_row: int, lookup: Lookup
    ) -> tuple[int, int]:
        """Judge pages up to one; return the next row, and how many postings were refused.

        Those that are new are entered into the memtable. It ends early behind a page whose match is
        old (`old_match`).
        """
        scratch, judged = self.scratch, self.judged
        start, before, row, refused = int(scratch.stop[0]), memtable.count, next_row, 0
        memtable.reserve(end - start)
        scratch.stop[3:] = end, 0
        while scratch.stop[0] < end and not scratch.stop[4]:
            memtable.count, next_row, more = judge_pages(
                self.arrivals, self.limits, self.stored, memtable.columns(), memtable.count,
                next_row, judged, scratch,
            )  # fmt: skip
            refused += more
            if scratch.stop[0] < end and not scratch.stop[4]:
                self._compare_sets(start, before, memtable, lookup)
        end = int(scratch.stop[0])
        inserted = judged.outcome[start:end] == UNIQUE
        self.rows[start:end] = row + np.cumsum(inserted) - inserted
        new = start + np.flatnonzero(inserted)
        memtable.refs[before : memtable.count] = self.pages.refs[new]
        memtable.urls += [self.pages.urls[i] for i in new.tolist()]
        if self.limits.exact:
            sets = self.pages.shingles or [b""] * len(self.pages)
            memtable.shingles += [sets[i] for i in new.tolist()]
        return next_row, refused

    def _compare_sets(self, start: int, before: int, memtable: Memtable, lookup: Lookup) -> None:
        """Tell the similarity of a page's set to those of its candidates that are in doubt.

        Entries of the memtable from `before` on are of the pages from `start` on that came before
        it.
        """
        scratch = self.scratch
        page, _, candidates, *_ = scratch.stop.tolist()
        own = self.pages.shingles or [b""] * len(self.pages)
        inserted = start + np.flatnonzero(self.judged.outcome[start:page] == UNIQUE)
        for at in np.flatnonzero(scratch.known[:candidates] == IN_DOUBT).tolist():
            place, other = int(scratch.places[at]), b""
            if own[page] and place < 0:
                [other] = lookup.shingles(scratch.rows[at : at + 1])
            elif own[page]:
                in_memtable = place < before
                other = memtable.shingles[place] if in_memtable else own[inserted[place - before]]
            scratch.known[at] = set_similarity(own[page], other)

    @property
    def judged_to(self) -> int:
        """Return the place of the first page that is not judged."""
        return int(self.scratch.stop[0])

    def old_match(self, memtable: Memtable, next_row: int) -> tuple[int, int] | None:
        """Return the place and row of a match that the page judged last renews; None: it does not.

        The place is as in `judged.best`. A match that was renewed meanwhile has a later row.
        """
        scratch, limits = self.scratch, self.limits
        count, last = int(scratch.stop[4]), self.judged_to - 1
        if not count:
            return None
        ref = self._ref_at(int(self.judged.best[last]), memtable)
        columns = scratch.rows[:count].tolist(), scratch.places[:count].tolist()
        row, place = max(
            pair for pair in zip(*columns, strict=True) if self._ref_at(pair[1], memtable) == ref
        )
        time = memtable.times[place] if place >= 0 else self.stored.times[-1 - place]
        is_old = time < self.arrivals.times[last] - limits.renew_after
        return (place, row) if is_old or row < next_row - limits.renew_rows else None

    def _ref_at(self, place: int, memtable: Memtable) -> int:
        return int(memtable.refs[place] if place >= 0 else self.fetched.refs[-1 - place])

    def part(self, part: slice) -> tuple[Pages, Judged, Nearest]:
        """Return some of the pages, and what belongs to them."""
        judged = self.judged.at(part)
        pages, nearest = self.pages, self.nearest
        if len(judged.best) < len(pages):
            places = range(part.start, part.stop)
            pages, nearest = pages.take(places), nearest.take(places)
        is_elsewhere = judged.best == ELSEWHERE
        judged.content[:] |= is_elsewhere & nearest.same_content
        judged.exact[:] |= is_elsewhere & nearest.exact
        return pages, judged, nearest

    def with_nearest(
        self, pages: Pages, judged: Judged, nearest: Nearest, memtable: Memtable
    ) -> Pages:
        """Return pages of a part with what is nearest to those that are new; of equals the first.

        With what contains them, too, where that is asked for. Shards before may have found
        something as near.
        """
        if self.limits.contained:
            pages = replace(pages, containers=self._containers(pages, judged, memtable))
        if not self.limits.margin:
            return pages
        found = list(pages.nearest or [None] * len(pages))
        is_near = (judged.outcome == UNIQUE) & (judged.near != NOWHERE)
        for i in np.flatnonzero(is_near).tolist():
            place, before = int(judged.near[i]), found[i]
            if place == ELSEWHERE:
                near = nearest.near_miss(i)
            else:
                score, exact = int(judged.similarity[i]), bool(judged.exact[i])
                near = self._kept_page(place, memtable, score, exact=exact)
            if before is None or near.similarity > before.similarity:
                found[i] = near
        return replace(pages, nearest=found)

    def _containers(
        self, pages: Pages, judged: Judged, memtable: Memtable
    ) -> list[NearMiss | None]:
        """Return what contains each page of a part if that is new; of equals the first."""
        found = list(pages.containers or [None] * len(pages))
        is_inside = (judged.outcome == UNIQUE) & (judged.container != NOWHERE)
        for i in np.flatnonzero(is_inside).tolist():
            before, share = found[i], int(judged.containment[i])
            if before is None or share > before.similarity:
                found[i] = self._kept_page(int(judged.container[i]), memtable, share)
        return found

    def _kept_page(
        self, place: int, memtable: Memtable, similarity: int, *, exact: bool = False
    ) -> NearMiss:
        """Return a page of this index, at a place as `Judged.best` has it."""
        own, at = (memtable, place) if place >= 0 else (self.fetched, -1 - place)
        return NearMiss(similarity, int(own.refs[at]), own.urls[at], int(own.times[at]), exact)

    def verdicts(
        self, pages: Pages, judged: Judged, nearest: Nearest, decided: Places, memtable: Memtable
    ) -> Verdicts:
        """Return the verdicts on the pages of the part published last that are `decided`."""
        outcome, best, scores, content, exact, *_ = judged.at(decided)
        basis = np.where(content, CONTENT, SIGNATURE).astype(np.uint8)
        published = self.published - len(pages) + decided
        basis[self.short[published]] = TOO_SHORT
        refs = np.zeros(len(decided), np.uint64)
        urls = [b""] * len(decided)
        references: list[NamedIndex | None] = [None] * len(decided)
        is_duplicate = outcome == DUPLICATE
        for i in np.flatnonzero(is_duplicate).tolist():
            place = int(best[i])
            if place == ELSEWHERE:
                at = int(decided[i])
                refs[i], urls[i] = nearest.refs[at], nearest.urls[at]
                references[i] = nearest.references[at]
                continue
            refs[i] = memtable.refs[place] if place >= 0 else self.fetched.refs[-1 - place]
            urls[i] = memtable.urls[place] if place >= 0 else self.fetched.urls[-1 - place]
        return Verdicts(
            pages if len(decided) == len(pages) else pages.take(decided),
            np.where(is_duplicate, scores, -1).astype(np.int32),
            basis,
            refs,
            urls,
            exact & is_duplicate if self.limits.exact else None,
            references if any(references) else None,
            None if self.nearest_min is None else self.nearest_min[published],
        )

    def ranks(self, judged: Judged, decided: Places, memtable: Memtable) -> Keys:
        """Return the ranks of what the pages that are `decided` match; of all others the greatest.

        So is the rank of a page of another index, whose better copies are not known.
        """
        best, outcome = judged.best[decided], judged.outcome[decided]
        ranks = np.full(len(decided), np.iinfo(np.uint64).max)
        is_match = (outcome == DUPLICATE) & (best != ELSEWHERE)
        for own, places, sketches in (
            (is_match & (best >= 0), best, memtable.sketches),
            (is_match & (best < 0), -1 - best, self.fetched.sketches),
        ):
            ranks[own] = ranks_in(sketches[places[own]])
        return ranks

    def hide(self, url: bytes) -> None:
        """Have the stored rows with a URL answer none of the pages that are left."""
        if not self._by_url:
            for place, other in enumerate(self.fetched.urls):
                self._by_url.setdefault(other, []).append(place)
        self.stored.times[self._by_url.get(url, [])] = BEFORE_ALL


def verdict_on_held(
    page: Pages, memtable: Memtable, entry: int, settings: IndexSettings, content_bit: int
) -> Verdicts:
    """Return the verdict on a page that was held for a memtable entry, which is kept by now.

    `content_bit` is as for `key_masks`.
    """
    least, _ = settings.least_of(page.urls, page.main)
    own = page.shingles or [b""]
    score, exact = decided_similarity(
        int(settings.measure),
        page.sketches[0],
        memtable.sketches[entry],
        int(least[0]),
        (lambda: (own[0], memtable.shingles[entry])) if settings.exact else None,
    )
    posted = content_bit >= 0 and bool(
        memtable.masks[entry] >> np.uint64(content_bit) & np.uint64(1)
    )
    same = posted and bool(page.keys[0, -1] == memtable.keys[entry, content_bit])
    return Verdicts(
        page,
        np.array([score], np.int32),
        np.array([CONTENT if same else SIGNATURE], np.uint8),
        memtable.refs[entry : entry + 1].copy(),
        [memtable.urls[entry]],
        np.array([exact]) if settings.exact else None,
    )


def key_masks(
    pages: Pages, comparable: npt.NDArray[np.bool_], own_keys: int, content_bit: int
) -> Keys:
    """Return by bit which of its keys at a shard each page has.

    Of `own_keys` keys, bit `content_bit` (-1: another shard's) is that of the content. A page that
    is not comparable has that one only, and one without tokens has none.
    """
    all_keys = np.uint64((1 << own_keys) - 1)
    content = np.uint64(1 << content_bit if content_bit >= 0 else 0)
    masks = np.where(comparable, all_keys, content)
    masks[pages.tokens == 0] = 0
    return masks.astype(np.uint64)


def fetch_candidates(
    fetch: Callable[[Places], KeptRows], hits: Hits, masks: Keys, own_keys: int, limit: int
) -> tuple[KeptRows, Places]:
    """Fetch the rows found in the store; return them, and the place of each hit among them.

    `fetch` returns rows of ascending numbers. Not fetched (-1) are hits under keys that a page
    does not have, and of a page with more than `limit` rows all but the earliest: no others can
    be among its earliest candidates. Where rows expire, it needs the times of all of them.
    """
    lengths = np.diff(hits.starts)
    owner = np.repeat(hits.places // own_keys, lengths)
    bit = np.repeat(hits.places % own_keys, lengths).astype(np.uint64)
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
