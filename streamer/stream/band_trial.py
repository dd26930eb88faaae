"""What bandings find on a sample of pages: candidates, and how many of them are duplicates.

All pages of the sample are signed under each banding in one pass, and each page's candidates are
counted as the index would: earlier pages under one of its band keys, of each bucket the earliest
ones. True is a candidate whose estimated resemblance reaches the threshold. What a banding misses
is told against the widest one, which finds practically all true pairs. In the index duplicates are
not posted, so there a page has fewer candidates as a rule.

A page takes 264 bytes for its sketch and 8 a band of each banding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.model import SIMILARITY_ONE
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import Signer
from streamer.sketch.tuning import widest_banding
from streamer.stream.files import Source
from streamer.stream.parse import PageParser

BUCKET_PAGES_MAX = 64  # as the index by default
SHINGLES_MIN = 5  # as the index by default; pages with fewer have no candidates
_SECRET = bytes(32)  # a trial publishes nothing that could be forged

Pairs = npt.NDArray[np.uint64]  # later page << 32 | earlier page, ascending and distinct
Progress = Callable[[int], None]  # is told the bytes read of all sources


@dataclass(frozen=True, slots=True)
class Trial:
    """What one banding found: pairs of pages, those at the threshold or above, those missed."""

    bands: int
    rows: int
    pages: int
    candidates: int
    true: int
    missed: int

    @property
    def candidates_a_page(self) -> float:
        """Return the mean number of candidates that a page is verified against."""
        return self.candidates / max(1, self.pages)

    @property
    def false(self) -> int:
        """Return the number of candidates below the threshold."""
        return self.candidates - self.true

    @property
    def recall(self) -> float | None:
        """Return the share of the known true pairs that are candidates; None where none is."""
        known = self.true + self.missed
        return self.true / known if known else None


def try_bandings(
    sources: Sequence[Source],
    bandings: Sequence[tuple[int, int]],
    threshold: float,
    shingle_width: int = 5,
    progress: Progress = lambda _bytes: None,
) -> list[Trial]:
    """Return what each (bands, rows) finds on the pages of `sources`, in the order given.

    Raises:
        InputError: a source cannot be read.
    """
    tried = [*bandings, widest_banding(threshold)]
    pages, sketches, keys = _sign_all(sources, tried, shingle_width, progress)
    found = [candidate_pairs(matrix) for matrix in keys]
    known = true_pairs(np.unique(np.concatenate(found)), sketches, threshold)
    trials = []
    for (bands, rows), pairs in zip(bandings, found, strict=False):  # without the widest
        true = int(np.isin(pairs, known, assume_unique=True).sum())
        trials.append(Trial(bands, rows, pages, len(pairs), true, len(known) - true))
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
    sources: Sequence[Source],
    bandings: Sequence[tuple[int, int]],
    shingle_width: int,
    progress: Progress,
) -> tuple[int, npt.NDArray[np.uint64], list[npt.NDArray[np.uint64]]]:
    """Return the number of pages, and of those with shingles enough the sketches and keys."""
    signers = [
        Signer(SignatureSettings(shingle_width=shingle_width, bands=bands, rows=rows), _SECRET)
        for bands, rows in bandings
    ]
    parser = PageParser()
    pages = before = 0
    sketches: list[npt.NDArray[np.uint64]] = []
    keys: list[list[npt.NDArray[np.uint64]]] = [[] for _ in signers]
    for source in sources:
        for chunk in source.read():
            batch = parser.parse(chunk)
            pages += len(batch)
            for number, signer in enumerate(signers):
                signed = signer.sign(batch.bodies, batch.flags)
                comparable = signed.distinct >= SHINGLES_MIN
                keys[number].append(signed.keys[comparable, :-1])
                if number == 0:
                    sketches.append(signed.sketches[comparable])
            progress(before + chunk.bytes_read)
        before += source.total_bytes or 0
    if not sketches:
        return 0, np.empty((0, 1), np.uint64), [np.empty((0, 1), np.uint64) for _ in signers]
    return pages, np.concatenate(sketches), [np.concatenate(parts) for parts in keys]
