"""Which bands and rows serve a threshold: by the S-curve alone, and by what they find on a sample.

All pages of the sample are signed under each banding in one pass, and each page's candidates are
counted as the index would: earlier pages under one of its band keys, of each bucket the earliest
ones. True is a candidate whose estimated resemblance reaches the threshold. What a banding misses
is measured against the widest one, which finds practically all true pairs. In the index duplicates
are not posted, so there a page has fewer candidates as a rule.

A page takes 264 bytes for its sketch and 8 a band of each banding.

Two pages of resemblance s share one of `bands` band keys of `rows` min-hashes with probability
P(s) = 1 - (1 - s**rows)**bands: an S-curve that rises about (1/bands)**(1/rows). What is under it
below the threshold is work on pages that are no duplicates, what is over it above the threshold
are duplicates that are missed. The rule is the one of datasketch's MinHashLSH: of all bandings that
a number of min-hashes allows, take the one with the least weighted sum of the two areas.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.analysis.evaluation import ConfusionCounts
from streamer.model import SIMILARITY_ONE
from streamer.pages.chunk import PageBatch
from streamer.pages.files import Source
from streamer.run.reading import DEFAULT_READER, PageReader
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner

BANDS_MAX = 48  # as the settings allow
ROWS_MAX = 32
HASHES_MAX = BANDS_MAX * ROWS_MAX
WEIGHT_FP = 0.01  # a candidate is verified in microseconds; a duplicate that is missed is lost

Floats = npt.NDArray[np.float64]


class BandChoice(NamedTuple):
    """Bands and rows with their two areas of error, each at most 1, and the weighted sum."""

    bands: int
    rows: int
    false_positive: float
    false_negative: float
    error: float


def detection_probability(similarity: float, bands: int, rows: int) -> float:
    """Return P = 1 - (1 - similarity**rows)**bands (Leskovec, Rajaraman, Ullman, ch. 3.4)."""
    return float(1 - (1 - similarity**rows) ** bands)


def rank_bandings(threshold: float, hashes: int, weight_fp: float = WEIGHT_FP) -> list[BandChoice]:
    """Return all bandings with bands x rows <= hashes, the least weighted error first.

        false positive area = integral of P(s) ds from 0 to the threshold
        false negative area = integral of 1 - P(s) ds from the threshold to 1
        error = weight_fp * false positive + (1 - weight_fp) * false negative

    (datasketch, lsh.py, `_optimal_param`.) Of equal errors the one with fewer bands comes first.
    """
    found = [
        weigh_banding(threshold, bands, rows, weight_fp)
        for bands in range(1, min(hashes, BANDS_MAX) + 1)
        for rows in range(1, min(hashes // bands, ROWS_MAX) + 1)
    ]
    return sorted(found, key=lambda banding: (banding.error, banding.bands, banding.rows))


def widest_banding(threshold: float) -> tuple[int, int]:
    """Return BANDS_MAX bands, with as many rows as miss at most 1 in 10,000 at the threshold."""
    fitting = (
        rows
        for rows in range(ROWS_MAX, 1, -1)
        if detection_probability(threshold, BANDS_MAX, rows) >= 1 - 1e-4
    )
    return BANDS_MAX, next(fitting, 1)


def weigh_banding(threshold: float, bands: int, rows: int, weight_fp: float) -> BandChoice:
    """Return a banding with its errors, as `rank_bandings` explains them."""
    below, below_weights = _nodes(0.0, threshold, bands * rows)
    above, above_weights = _nodes(threshold, 1.0, bands * rows)
    false_positive = float(below_weights @ (1 - (1 - below**rows) ** bands))
    false_negative = float(above_weights @ (1 - above**rows) ** bands)
    error = weight_fp * false_positive + (1 - weight_fp) * false_negative
    return BandChoice(bands, rows, false_positive, false_negative, error)


def _nodes(start: float, end: float, degree: int) -> tuple[Floats, Floats]:
    """Return places and weights of the Gauss-Legendre rule for [start, end].

    P is a polynomial of degree bands x rows, and n nodes are exact up to degree 2n - 1. The number
    of nodes is a power of two, so that few rules serve all bandings.
    """
    places, weights = _unit_nodes(1 << (degree // 2).bit_length())
    half = (end - start) / 2
    return start + half * (places + 1), half * weights


_unit_nodes = cache(np.polynomial.legendre.leggauss)  # for [-1, 1]


BUCKET_PAGES_MAX = 64  # as the index by default
SHINGLES_MIN = 5  # as the index by default; pages with fewer have no candidates
_SECRET = bytes(32)  # a trial publishes nothing that could be forged

Pairs = npt.NDArray[np.uint64]  # later page << 32 | earlier page, ascending and distinct
Progress = Callable[[int], None]  # called with the bytes read of all sources


class BandTrial(NamedTuple):
    """What one banding found of the pages: its pairs against those at the threshold or above."""

    bands: int
    rows: int
    pages: int
    pairs: ConfusionCounts


def try_bandings(
    sources: Sequence[Source],
    bandings: Sequence[tuple[int, int]],
    threshold: float,
    shingle_width: int = 5,
    progress: Progress = lambda _bytes: None,
    reader: PageReader = DEFAULT_READER,
) -> list[BandTrial]:
    """Return what each (bands, rows) finds on the pages of `sources`, in the order given.

    Raises:
        StreamerError: as `PageReader.read`.
    """
    tried = [*bandings, widest_banding(threshold)]
    batches = (read.batch for read in reader.read(sources, lambda read, _pages: progress(read)))
    pages, sketches, keys = _sign_all(batches, tried, shingle_width)
    found = [candidate_pairs(matrix) for matrix in keys]
    known = true_pairs(np.unique(np.concatenate(found)), sketches, threshold)
    trials = []
    for (bands, rows), pairs in zip(bandings, found, strict=False):  # without the widest
        true = int(np.isin(pairs, known, assume_unique=True).sum())
        counts = ConfusionCounts(true, len(pairs) - true, len(known) - true)
        trials.append(BandTrial(bands, rows, pages, counts))
    return trials


def candidate_pairs(keys: npt.NDArray[np.uint64], bucket_max: int = BUCKET_PAGES_MAX) -> Pairs:
    """Return the pairs of pages with a band key in common, by uint64[pages, bands] keys.

    Of a bucket only the first `bucket_max` pages are candidates, for all pages after them.
    """
    parts: list[Pairs] = [np.empty(0, np.uint64)]
    for band in range(keys.shape[1]):
        parts += _pairs_of_band(keys[:, band], bucket_max)
    return np.unique(np.concatenate(parts))


def _pairs_of_band(keys: npt.NDArray[np.uint64], bucket_max: int) -> Iterator[Pairs]:
    """Yield the pairs of one band: of each bucket's first page, then of its second, and so on."""
    order = np.argsort(keys, kind="stable").astype(np.uint64)  # within a bucket pages ascend
    ordered = keys[order]
    starts = np.searchsorted(ordered, ordered)  # of each page's bucket
    ranks = np.arange(len(keys)) - starts
    for rank in range(min(bucket_max, int(ranks.max(initial=0)))):
        later = np.flatnonzero(ranks > rank)
        yield order[later] << np.uint64(32) | order[starts[later] + rank]


def true_pairs(pairs: Pairs, sketches: npt.NDArray[np.uint64], threshold: float) -> Pairs:
    """Return those of `pairs` whose estimated resemblance is at least `threshold`."""
    least = threshold * SIMILARITY_ONE
    later = (pairs >> np.uint64(32)).tolist()
    earlier = (pairs & np.uint64(0xFFFF_FFFF)).tolist()
    similar = (
        similarity(sketches[one], sketches[other]) >= least
        for one, other in zip(later, earlier, strict=True)
    )
    return pairs[np.fromiter(similar, np.bool_, len(pairs))]


def _sign_all(
    batches: Iterable[PageBatch], bandings: Sequence[tuple[int, int]], shingle_width: int
) -> tuple[int, npt.NDArray[np.uint64], list[npt.NDArray[np.uint64]]]:
    """Return the number of pages, and of those with shingles enough the sketches and keys."""
    signers = [
        NativeSigner(
            SignatureSettings(shingle_width=shingle_width, bands=bands, rows=rows), _SECRET
        )
        for bands, rows in bandings
    ]
    pages = 0
    sketches: list[npt.NDArray[np.uint64]] = []
    keys: list[list[npt.NDArray[np.uint64]]] = [[] for _ in signers]
    for batch in batches:
        pages += len(batch)
        for number, signer in enumerate(signers):
            signed = signer.sign(batch.bodies, batch.flags)
            comparable = signed.distinct >= SHINGLES_MIN
            keys[number].append(signed.keys[comparable, :-1])
            if number == 0:
                sketches.append(signed.sketches[comparable])
    if not sketches:
        return 0, np.empty((0, 1), np.uint64), [np.empty((0, 1), np.uint64) for _ in signers]
    return pages, np.concatenate(sketches), [np.concatenate(parts) for parts in keys]
