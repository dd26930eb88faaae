"""Kernels that compare pairs of pages: of buckets, and with rows of other indexes.

Spark, reference indexes and audits use them; a shard judges by rule.py.
"""

import numpy as np
import numpy.typing as npt

from streamer.index.messages import Keys, Times
from streamer.index.rule import IN_DOUBT, RESEMBLANCE, Places
from streamer.kernel import kernel
from streamer.machine import int64
from streamer.sketch.hash_sets import in_doubt
from streamer.sketch.method import compare_sketches


@kernel
def matching_pairs(
    rows: Places,
    starts: Places,
    sketches: Keys,
    lives: Times,
    limits: tuple[int, int, int, int],
    met: Places,
    pairs: Places,
    posted: Places,
) -> tuple[int, int]:
    """Compare the rows of each bucket with those that had a posting; return (compared, matching).

    Arguments:
        rows: int64, the rows of all buckets, ascending in each.
        starts: int64, where each bucket starts in `rows`, and the end of the last.
        sketches: uint64[rows, 33].
        lives: int64[rows, 3], the time of each, the row from which on it is forgotten, and its
            threshold: the stricter of two counts.
        limits: bucket_max, measure, expire_after in milliseconds, keep_pages.
        met: int64[rows], to which the number of comparisons of each row with earlier ones is added.
        pairs: int64[n, 2], takes the first n matching pairs, the earlier row first.
        posted: int64[bucket_max], memory for the rows that have not expired.
    """
    bucket_max, measure, expire_after, keep_pages = limits
    compared = matching = 0
    for bucket in range(starts.shape[0] - 1):
        count = 0
        for place in range(starts[bucket], starts[bucket + 1]):
            later = rows[place]
            left = 0
            for i in range(count):
                posted[left] = posted[i]
                is_new = lives[posted[i], 0] >= lives[later, 0] - expire_after
                is_new &= posted[i] >= later - keep_pages
                left += is_new and later < lives[posted[i], 1]
            count = left
            for i in range(count):
                met[later] += 1
                compared += 1
                score = compare_sketches(measure, sketches[posted[i]], sketches[later])
                if score >= max(lives[posted[i], 2], lives[later, 2]):
                    if matching < pairs.shape[0]:
                        pairs[matching, 0] = posted[i]
                        pairs[matching, 1] = later
                    matching += 1
            if count < bucket_max:
                posted[count] = later
                count += 1
    return compared, matching


@kernel
def find_doubtful(
    pairs: Places, pages: Keys, rows: Keys, similarity_min: npt.NDArray[np.int32], known: Places
) -> None:
    """Set `known` to IN_DOUBT for the pairs whose match the sketches leave in doubt.

    Arguments are those of `nearest_rows`.
    """
    for i in range(pairs.shape[0]):
        page, row = pages[pairs[i, 0]], rows[pairs[i, 1]]
        score = compare_sketches(RESEMBLANCE, page, row)
        if in_doubt(score, page, row, int64(similarity_min[pairs[i, 0]])):
            known[i] = IN_DOUBT


@kernel
def nearest_rows(
    pairs: Places, pages: Keys, rows: Keys, measure: int, similarity_min: npt.NDArray[np.int32],
    known: Places, best: Places, scores: npt.NDArray[np.int32],
) -> None:  # fmt: skip
    """Find of each page the most similar row, the first of equals.

    Arguments:
        pairs: int64[n, 2], which page is compared with which row.
        pages: uint64[n, 33], sketches.
        rows: uint64[n, 33], sketches.
        measure: as in the index's settings.
        similarity_min: int32[pages], the threshold of each, in ten-thousandths.
        known: int64[n], the similarity of two sets, or UNKNOWN: that of the sketches counts.
        best: int64[pages], takes the pair of each page that has one above what `scores` has.
        scores: int32[pages], takes its similarity.
    """
    for i in range(pairs.shape[0]):
        page = pairs[i, 0]
        score = known[i]
        if score < 0:
            score = compare_sketches(measure, pages[page], rows[pairs[i, 1]])
        if score >= similarity_min[page] and score > scores[page]:
            scores[page], best[page] = score, i
