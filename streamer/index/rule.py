"""The rule for one page, as a kernel: candidates, verification, insertion.

Pages of a batch are judged one after another, each seeing the ones before it. Candidates are the
postings under the page's own keys, in store and memtable together, in row order (the order of
insertion), up to the limit. One that has expired for the page is no candidate, and takes no place
in its bucket; times and rows of the two alone decide that. The best match makes the page a
duplicate: highest similarity, then lowest row. Otherwise the page is inserted, with a posting under
each key whose bucket, in store and memtable together, has room. The nearest page of a reference
index comes after own pages that are as similar. Of what misses the threshold by `margin` at most,
the best is noted by the same order.

With `exact`, a candidate that its sketch leaves in doubt is judged by its set of shingles. Sets are
not arrays, and may have to be read from disk. So the kernel stops before such a page, and continues
when it has their similarity.
"""

# The kernel compares each candidate anyway, so near misses cost nothing more to find. A page
# without a token is never inserted, because all empty pages would be one cluster.

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.index.memtable import (
    EMPTY_SLOT,
    FREE,
    KEPT,
    MemtableColumns,
    add_posting,
    entry_of,
    find_slot,
)
from streamer.index.messages import Keys, Times
from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, prefetch, uint8, uint64
from streamer.model import Basis
from streamer.sketch.hash_sets import in_doubt
from streamer.sketch.method import Measure, compare_sketches

UNIQUE, DUPLICATE, EMPTY = range(3)  # what became of a page
SIGNATURE, CONTENT, TOO_SHORT = range(3)  # what that rests on
BASIS_NAMES = (Basis.SIGNATURE, Basis.CONTENT, Basis.TOO_SHORT)

UNKNOWN, IN_DOUBT = -1, -2  # in place of a similarity
RESEMBLANCE = int(Measure.RESEMBLANCE)
ELSEWHERE = -(1 << 62)  # the place of a match that another index has
NOWHERE = -(1 << 61)  # that of no match

Places = npt.NDArray[np.int64]


class Limits(NamedTuple):
    """What the rule compares with.

    Attributes:
        bucket_max, candidates_max, measure: as in the index's settings.
        newest_state: a memtable entry answers if its state is after FREE and not after this: KEPT
            where the hits have what is being flushed, FLUSHED where they do not.
        keep_pages: how many rows before a page's own its candidates may be.
        oldest_row: the limit that earlier settings have left, whatever the page.
        exact: 1 where the judging stops at a page whose candidates the sketches leave in doubt.
        margin: how far below its threshold what is nearest to a page is noted, in ten-thousandths.
    """

    bucket_max: int
    candidates_max: int
    measure: int
    newest_state: int
    keep_pages: int
    oldest_row: int
    exact: int
    margin: int


class Arrivals(NamedTuple):
    """The pages that are judged, in order.

    Attributes:
        keys: uint64[n, keys], the content key last; masks: uint64[n], which of them the page has,
            by bit.
        sketches: uint64[n, 33].
        similarity_min: int32[n], the threshold of each, in ten-thousandths.
        times: int64[n]; oldest_times: int64[n], that candidates must have at least.
        elsewhere: int32[n], the similarity of what other indexes have nearest; -1: nothing.
    """

    keys: Keys
    masks: Keys
    sketches: Keys
    similarity_min: npt.NDArray[np.int32]
    times: Times
    oldest_times: Times
    elsewhere: npt.NDArray[np.int32]


class StoredHits(NamedTuple):
    """The postings that the store has under the pages' keys.

    Attributes:
        key_places: int64, which keys have postings: their places in the array of all, ascending.
        starts: int64, where each one's list starts, and the end of the last.
        rows: int64, ascending in a list.
        fetched_at: int64, for each row its place in `sketches`; -1: it was not fetched, since it
            cannot count.
        sketches: uint64[rows fetched, 33]; times: int64[rows fetched].
    """

    key_places: Places
    starts: Places
    rows: Places
    fetched_at: Places
    sketches: Keys
    times: Times


class Judged(NamedTuple):
    """What has become of the pages: one entry a page.

    Attributes:
        outcome: uint8; content: bool, whether a match has the page's own content.
        best: int64, of a duplicate its match: a memtable entry, or -1 - its place among the stored
            sketches, or ELSEWHERE. Of a new page its own memtable entry.
        similarity: int32, of the match, in ten-thousandths; of a new page, that of `near`.
        exact: bool, whether that is the similarity of two sets.
        near: int64, what is nearest to a new page, as `best`, or NOWHERE.
    """

    outcome: npt.NDArray[np.uint8]
    best: Places
    similarity: npt.NDArray[np.int32]
    content: npt.NDArray[np.bool_]
    exact: npt.NDArray[np.bool_]
    near: Places


class Scratch(NamedTuple):
    """Memory to judge a page in.

    Attributes:
        rows, places: of its candidates, places as in `Judged.best`; sizes, slots: of its buckets.
        known: the similarity of each candidate's set, UNKNOWN, or IN_DOUBT.
        stop: int64[3], the page that comes next, which hit of the store that begins with, and how
            many of its candidates are known.
    """

    rows: Places
    places: Places
    sizes: Places
    slots: Places
    known: Places
    stop: Places


@inline_kernel
def _insert_sorted(
    rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], count: int, row: int, place: int
) -> int:
    """Insert a candidate in row order unless it is there; return how many there are.

    The arrays are as long as the limit: of more candidates, those with the lowest rows stay.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    if low == rows.shape[0] or (low < count and rows[low] == row):
        return count
    count = min(count, rows.shape[0] - 1)
    for i in range(count, low, -1):
        rows[i] = rows[i - 1]
        places[i] = places[i - 1]
    rows[low] = row
    places[low] = place
    return count + 1


@kernel
def judge_pages(
    pages: Arrivals,
    limits: Limits,
    hits: StoredHits,
    memtable: MemtableColumns,
    count: int,
    next_row: int,
    judged: Judged,
    scratch: Scratch,
) -> tuple[int, int, int]:
    """Judge the pages in order; return (entries in the memtable, next row, postings refused).

    The memtable has `count` entries, and room for all pages; the first new row is `next_row`.
    Judging begins where `scratch.stop` says, and stops before a page of which candidates are in
    doubt.
    """
    end, own = pages.keys.shape
    address = memtable.table.ctypes.data
    first, hit, known = scratch.stop
    refused = 0
    for i in range(first, end):
        if i + 1 < end:
            for j in range(own):  # or each would be waited for, since a guess may be wrong
                prefetch(address, find_slot(memtable.table, pages.keys[i + 1, j]))
        # A kept page answers until so many more are kept; shard.py's `horizon` says the same.
        oldest_row = max(next_row - limits.keep_pages, limits.oldest_row)
        before = hit
        candidates, hit = _collect_candidates(
            pages, i, limits, (pages.oldest_times[i], oldest_row), hits, hit, memtable, scratch
        )
        asks = limits.exact and not (i == first and known)
        if asks and _are_in_doubt(pages, i, hits, memtable, candidates, scratch):
            scratch.stop[0], scratch.stop[1], scratch.stop[2] = i, before, candidates
            return count, next_row, refused
        judged.outcome[i] = _choose(pages, i, limits, hits, memtable, candidates, scratch, judged)
        if judged.outcome[i] == UNIQUE:
            refused += _insert(pages, i, limits, memtable, count, next_row, scratch)
            judged.best[i] = count
            count += 1
            next_row += 1
    scratch.stop[0], scratch.stop[1], scratch.stop[2] = end, hit, 0
    return count, next_row, refused


@inline_kernel
def _may_answer(row: int, time: int, oldest: tuple[int, int]) -> bool:
    """Return whether a row has the time and the number `oldest` at least."""
    return time >= oldest[0] and row >= oldest[1]


@inline_kernel
def _is_candidate(
    memtable: MemtableColumns, entry: int, newest_state: int, oldest: tuple[int, int]
) -> bool:
    """Return whether an entry of the memtable may be a candidate."""
    is_there = FREE < memtable.states[entry] <= newest_state
    return is_there and _may_answer(memtable.rows[entry], memtable.times[entry], oldest)


@inline_kernel
def _collect_candidates(
    pages: Arrivals,
    i: int,
    limits: Limits,
    oldest: tuple[int, int],
    hits: StoredHits,
    hit: int,
    memtable: MemtableColumns,
    scratch: Scratch,
) -> tuple[int, int]:
    """Collect the candidates of page i in row order; return (how many, next hit of the store).

    They have the time and the row `oldest` at least. Sets the sizes of its buckets, and the slots
    of the memtable's table where their searches ended.
    """
    rows, places, sizes, slots, _, _ = scratch
    own = pages.keys.shape[1]
    count = 0
    for j in range(own):
        sizes[j] = 0
        while hit < hits.key_places.shape[0] and hits.key_places[hit] < i * own + j:
            hit += 1
        if not pages.masks[i] >> uint64(j) & uint64(1):
            continue
        if hit < hits.key_places.shape[0] and hits.key_places[hit] == i * own + j:
            for k in range(hits.starts[hit], hits.starts[hit + 1]):
                place = hits.fetched_at[k]
                if place < 0:
                    sizes[j] += 1
                elif _may_answer(hits.rows[k], hits.times[place], oldest):
                    sizes[j] += 1
                    count = _insert_sorted(rows, places, count, hits.rows[k], -1 - place)
        slot = find_slot(memtable.table, pages.keys[i, j])
        while memtable.table[slot] != uint64(EMPTY_SLOT):
            entry = entry_of(memtable.table[slot], pages.keys[i, j], memtable.keys)
            if entry >= 0 and _is_candidate(memtable, entry, limits.newest_state, oldest):
                sizes[j] += 1
                count = _insert_sorted(rows, places, count, memtable.rows[entry], entry)
            slot = (slot + 1) & (memtable.table.shape[0] - 1)
        slots[j] = slot
    return count, hit


@kernel
def _are_in_doubt(
    pages: Arrivals,
    i: int,
    hits: StoredHits,
    memtable: MemtableColumns,
    candidates: int,
    scratch: Scratch,
) -> bool:
    """Mark each candidate whose match its sketch leaves in doubt; return whether there is one."""
    doubtful = False
    for k in range(candidates):
        place = scratch.places[k]
        other = hits.sketches[-1 - place] if place < 0 else memtable.sketches[place]
        score = compare_sketches(RESEMBLANCE, pages.sketches[i], other)
        scratch.known[k] = UNKNOWN
        if in_doubt(score, pages.sketches[i], other, int64(pages.similarity_min[i])):
            scratch.known[k] = IN_DOUBT
            doubtful = True
    return doubtful


@inline_kernel
def _estimate(
    sketch: Keys, measure: int, hits: StoredHits, memtable: MemtableColumns, place: int
) -> int:
    """Return what a sketch and that of a candidate say of their similarity."""
    if place < 0:
        return compare_sketches(measure, sketch, hits.sketches[-1 - place])
    return compare_sketches(measure, sketch, memtable.sketches[place])


@inline_kernel
def _choose(
    pages: Arrivals,
    i: int,
    limits: Limits,
    hits: StoredHits,
    memtable: MemtableColumns,
    candidates: int,
    scratch: Scratch,
    judged: Judged,
) -> int:
    """Compare page i with its candidates; set its match, and return what becomes of the page."""
    best = int64(-1)
    least, elsewhere = int64(pages.similarity_min[i]), int64(pages.elsewhere[i])
    score_max = elsewhere - 1  # of equals the own one comes first
    near = int64(ELSEWHERE if elsewhere >= 0 else NOWHERE)
    near_max = max(least - limits.margin, elsewhere) - 1
    has_match = exact = near_exact = False
    for k in range(candidates):
        place = scratch.places[k]
        is_known = limits.exact > 0 and scratch.known[k] >= 0
        score = (
            scratch.known[k]
            if is_known
            else _estimate(pages.sketches[i], limits.measure, hits, memtable, place)
        )
        if score < least:
            if score > near_max:
                near_max, near, near_exact = score, place, is_known
        elif score > score_max:
            score_max, best, has_match, exact = score, place, True, is_known
    if not has_match and elsewhere >= least:
        score_max, best, has_match = elsewhere, int64(ELSEWHERE), True
    judged.best[i] = best
    judged.content[i] = has_match and _same_content(pages, i, best, hits, memtable)
    outcome = UNIQUE if pages.masks[i] else EMPTY
    if has_match:
        outcome = DUPLICATE
    else:
        score_max, exact = near_max, near_exact
    judged.similarity[i], judged.exact[i], judged.near[i] = score_max, exact, near
    return outcome


@inline_kernel
def _insert(
    pages: Arrivals,
    i: int,
    limits: Limits,
    memtable: MemtableColumns,
    entry: int,
    row: int,
    scratch: Scratch,
) -> int:
    """Write page i to an entry of the memtable, with its postings; return how many are refused."""
    refused = 0
    mask = uint64(0)
    for j in range(pages.keys.shape[1]):
        memtable.keys[entry, j] = pages.keys[i, j]
        if not pages.masks[i] >> uint64(j) & uint64(1):
            continue
        if scratch.sizes[j] >= limits.bucket_max:
            refused += 1
            continue
        mask |= uint64(1) << uint64(j)
        add_posting(memtable.table, scratch.slots[j], pages.keys[i, j], entry, j)
    memtable.rows[entry] = row
    memtable.times[entry] = pages.times[i]
    memtable.masks[entry] = mask
    for word in range(pages.sketches.shape[1]):
        memtable.sketches[entry, word] = pages.sketches[i, word]
    memtable.states[entry] = uint8(KEPT)
    return refused


@kernel
def _same_content(
    pages: Arrivals, i: int, place: int, hits: StoredHits, memtable: MemtableColumns
) -> bool:
    """Return whether the match at `place` has a posting under the content key of page i.

    A posting, not just the key: the store has no other trace of it, and where the match is stored
    must not show.
    """
    content_bit = pages.keys.shape[1] - 1
    if not pages.masks[i] >> uint64(content_bit) & uint64(1):
        return False
    if place >= 0:
        posted = memtable.masks[place] >> uint64(content_bit) & uint64(1)
        same = memtable.keys[place, content_bit] == pages.keys[i, content_bit]
        return bool(posted != 0 and same)
    flat = i * pages.keys.shape[1] + content_bit
    low, high = 0, hits.key_places.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if hits.key_places[middle] < flat:
            low = middle + 1
        else:
            high = middle
    if low < hits.key_places.shape[0] and hits.key_places[low] == flat:
        for k in range(hits.starts[low], hits.starts[low + 1]):
            if hits.fetched_at[k] == -1 - place:
                return True
    return False
