"""What pages may resemble: the rows posted under their keys, as far as they count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.index.lookup import Hits, KeptRows, Keys, Lookup
from streamer.index.records import Pages
from streamer.kernel import kernel
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
