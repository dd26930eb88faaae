"""The rule for one page at one shard, as a kernel: candidates, verification, insertion.

Pages of a batch are placed one after another, each seeing the ones before it. Candidates are the
postings under the page's own keys, in store and head together, in row order (the order of
insertion), no more than the limit. The best kept match makes the page a duplicate: highest
similarity, then lowest row. Otherwise the earliest undecided match holds the page; otherwise the
page is inserted, with a posting under each key whose bucket, store and head together, has room.

What pages may resemble: the rows posted under their keys, as far as they count.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.index.head import EMPTY_SLOT, add_posting, entry_of, find_slot
from streamer.index.types import Hits, KeptRows, Keys, Lookup, Pages
from streamer.kernel import inline_kernel, int64, kernel, prefetch, uint8, uint64
from streamer.model import Basis
from streamer.sketch.measures import compare_sketches

Places = npt.NDArray[np.int64]


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
    lookup: Lookup, hits: Hits, masks: Keys, own_keys: int, limit: int
) -> tuple[KeptRows, Places]:
    """Fetch the rows found in the store; return them, and the place of each hit among them.

    Not fetched (-1) are hits under keys that a page does not have, and of a page with more than
    `limit` rows all but the earliest: no others can be among its earliest candidates.
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
    return lookup.rows(distinct), places.astype(np.int64)


@kernel
def matching_pairs(
    rows: Places,
    starts: Places,
    sketches: Keys,
    limits: tuple[int, int, int],
    met: Places,
    pairs: Places,
) -> tuple[int, int]:
    """Compare the rows of each bucket with its earliest ones; return (compared, matching).

    Arguments:
        rows: int64, the rows of all buckets, ascending in each.
        starts: int64, where each bucket starts in `rows`, and the end of the last.
        sketches: uint64[rows, 33].
        limits: bucket_max, similarity_min, and the measure of the sketches.
        met: int64[rows], to which the number of comparisons of each row with earlier ones is added.
        pairs: int64[n, 2], takes the first n matching pairs, the earlier row first.
    """
    bucket_max, similarity_min, measure = limits
    compared = matching = 0
    for bucket in range(starts.shape[0] - 1):
        start = starts[bucket]
        for later in range(start + 1, starts[bucket + 1]):
            earliest_end = min(later, start + bucket_max)
            met[rows[later]] += earliest_end - start
            for earlier in range(start, earliest_end):
                compared += 1
                score = compare_sketches(measure, sketches[rows[earlier]], sketches[rows[later]])
                if score >= similarity_min:
                    if matching < pairs.shape[0]:
                        pairs[matching, 0] = rows[earlier]
                        pairs[matching, 1] = rows[later]
                    matching += 1
    return compared, matching


UNIQUE, DUPLICATE, HELD, EMPTY = range(4)  # what became of a page
SIGNATURE, CONTENT, TOO_SHORT = range(3)  # what that rests on
BASIS_NAMES = (Basis.SIGNATURE, Basis.CONTENT, Basis.TOO_SHORT)

Scratch = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]
]

# States of a head entry. A flushed one is kept, and may be found in the store already.
FREE, UNDECIDED, KEPT, FLUSHED = range(4)


@inline_kernel
def _insert_sorted(
    rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], count: int, row: int, place: int
) -> int:
    """Insert a candidate in row order unless it is there; return the number of candidates.

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


def placing_scratch(own_keys: int, candidates_max: int) -> Scratch:
    """Return memory to place pages in: rows, places of candidates; sizes, slots of buckets."""
    candidates = np.empty((2, candidates_max), np.int64)
    buckets = np.empty((2, own_keys), np.int64)
    return candidates[0], candidates[1], buckets[0], buckets[1]


@kernel
def place_pages(  # noqa: C901, PLR0912, PLR0913, PLR0915 - the rule reads in one piece, and a batch is one call
    keys: npt.NDArray[np.uint64],
    key_masks: npt.NDArray[np.uint64],
    sketches: npt.NDArray[np.uint64],
    content_bit: int,
    limits: tuple[int, int, int, int],
    final: npt.NDArray[np.bool_],
    hits: tuple[
        npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]
    ],
    stored_sketches: npt.NDArray[np.uint64],
    table: npt.NDArray[np.uint64],
    head: tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint8],
    ],
    head_count: int,
    next_row: int,
    newest_state: int,
    outcome: npt.NDArray[np.uint8],
    best: npt.NDArray[np.int64],
    best_similarity: npt.NDArray[np.int32],
    best_content: npt.NDArray[np.bool_],
    scratch: Scratch,
) -> tuple[int, int, int]:
    """Place the pages in order; return (entries in the head, next row, postings refused).

    Arguments in columns:
        keys: uint64[n, own keys]; key_masks: uint64[n], which of them the page has, by bit.
        sketches: uint64[n, 33].
        content_bit: the place of the content key among the own keys, -1 if another shard's.
        limits: similarity_min, bucket_max, candidates_max, and the measure of the sketches.
        final: whether this shard is the page's last: inserted pages are kept at once.
        hits: postings in the store, for keys that have any: flat key places (ascending), starts of
            their lists (one more than keys), rows (ascending in a list), places in stored_sketches
            (-1: not fetched, beyond the candidates that could count).
        table: the head's hash table.
        head: rows, keys, posting masks, sketches, states of the head's entries.
        newest_state: KEPT where `hits` have the flushed entries, FLUSHED where they do not.
        outcome, best, best_similarity, best_content: results, one entry a page. `best` is the
            head entry, or -1 - the place in stored_sketches' rows, of the match.
        scratch: as `placing_scratch` makes it.
    """
    hit_keys, hit_starts, hit_rows, hit_places = hits
    head_rows, head_keys, head_masks, head_sketches, head_states = head
    similarity_min, bucket_max, _, measure = limits
    own = keys.shape[1]
    rows, places, sizes, free = scratch
    address = table.ctypes.data
    hit = refused = 0
    for i in range(keys.shape[0]):
        count = 0
        if i + 1 < keys.shape[0]:
            for j in range(own):  # or each would be waited for, since a guess may be wrong
                prefetch(address, find_slot(table, keys[i + 1, j]))
        for j in range(own):
            sizes[j] = 0
            while hit < hit_keys.shape[0] and hit_keys[hit] < i * own + j:
                hit += 1
            if not key_masks[i] >> uint64(j) & uint64(1):
                continue
            if hit < hit_keys.shape[0] and hit_keys[hit] == i * own + j:
                sizes[j] = hit_starts[hit + 1] - hit_starts[hit]
                for k in range(hit_starts[hit], hit_starts[hit + 1]):
                    if hit_places[k] >= 0:
                        count = _insert_sorted(rows, places, count, hit_rows[k], -1 - hit_places[k])
            slot = find_slot(table, keys[i, j])
            while table[slot] != uint64(EMPTY_SLOT):
                entry = entry_of(table[slot], keys[i, j], head_keys)
                if entry >= 0 and FREE < head_states[entry] <= newest_state:
                    sizes[j] += 1
                    count = _insert_sorted(rows, places, count, head_rows[entry], entry)
                slot = (slot + 1) & (table.shape[0] - 1)
            free[j] = slot
        best_place = waits_for = int64(-1)
        best_score = int64(-1)
        found = False
        for k in range(count):
            place = places[k]
            if place < 0:
                score = compare_sketches(measure, sketches[i], stored_sketches[-1 - place])
            else:
                score = compare_sketches(measure, sketches[i], head_sketches[place])
            if score < similarity_min:
                continue
            if place < 0 or head_states[place] >= KEPT:
                if score > best_score:
                    best_score, best_place, found = score, place, True
            elif waits_for < 0:
                waits_for = place
        best[i] = best_place if found else waits_for
        best_similarity[i] = best_score
        best_content[i] = False
        if found:
            outcome[i] = DUPLICATE
            if content_bit >= 0 and key_masks[i] >> uint64(content_bit) & uint64(1):
                best_content[i] = _same_content(
                    keys[i, content_bit],
                    i * own + content_bit,
                    best_place,
                    content_bit,
                    hits,
                    head_keys,
                    head_masks,
                )
            continue
        if waits_for >= 0:
            outcome[i] = HELD
            continue
        outcome[i] = UNIQUE
        if key_masks[i] == 0:
            outcome[i] = EMPTY
            continue
        mask = uint64(0)
        for j in range(own):
            head_keys[head_count, j] = keys[i, j]
            if not key_masks[i] >> uint64(j) & uint64(1):
                continue
            if sizes[j] >= bucket_max:
                refused += 1
                continue
            mask |= uint64(1) << uint64(j)
            add_posting(table, free[j], keys[i, j], head_count, j)
        head_rows[head_count] = next_row
        head_masks[head_count] = mask
        for word in range(sketches.shape[1]):
            head_sketches[head_count, word] = sketches[i, word]
        head_states[head_count] = uint8(KEPT if final[i] else UNDECIDED)
        best[i] = head_count
        head_count += 1
        next_row += 1
    return head_count, next_row, refused


@inline_kernel
def _same_content(
    key: int,
    flat: int,
    place: int,
    content_bit: int,
    hits: tuple[
        npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]
    ],
    head_keys: npt.NDArray[np.uint64],
    head_masks: npt.NDArray[np.uint64],
) -> bool:
    """Tell whether the match at `place` has a posting under the same content key.

    A posting, not just the key: the store has no other trace of it, and where the match lies must
    not show.
    """
    if place >= 0:
        posted = head_masks[place] >> uint64(content_bit) & uint64(1)
        return bool(posted != 0 and head_keys[place, content_bit] == key)
    low, high = 0, hits[0].shape[0]
    while low < high:
        middle = (low + high) >> 1
        if hits[0][middle] < flat:
            low = middle + 1
        else:
            high = middle
    if low < hits[0].shape[0] and hits[0][low] == flat:
        for k in range(hits[1][low], hits[1][low + 1]):
            if hits[3][k] == -1 - place:
                return True
    return False
