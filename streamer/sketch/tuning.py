"""Which bands and rows serve a threshold: those whose S-curve errs least on both sides of it.

Two pages of resemblance s share one of `bands` band keys of `rows` min-hashes with probability
P(s) = 1 - (1 - s**rows)**bands: an S-curve that rises about (1/bands)**(1/rows). What lies under it
below the threshold is work on pages that are no duplicates, what lies over it above the threshold
are duplicates that are missed. The rule is the one of datasketch's MinHashLSH: of all bandings that
a number of min-hashes allows, take the one with the least weighted sum of the two areas.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import SettingsError

BANDS_MAX = 48  # as the settings allow
ROWS_MAX = 32
HASHES_MAX = BANDS_MAX * ROWS_MAX
WEIGHT_FP = 0.01  # a candidate is verified in microseconds; a duplicate that is missed is lost

Floats = npt.NDArray[np.float64]


class Banding(NamedTuple):
    """Bands and rows with their two areas of error, each at most 1, and the weighted sum."""

    bands: int
    rows: int
    false_positive: float
    false_negative: float
    error: float


def detection_probability(similarity: float, bands: int, rows: int) -> float:
    """Return P = 1 - (1 - similarity**rows)**bands (Leskovec, Rajaraman, Ullman, ch. 3.4)."""
    return float(1 - (1 - similarity**rows) ** bands)


def rank_bandings(threshold: float, hashes: int, weight_fp: float = WEIGHT_FP) -> list[Banding]:
    """Return all bandings with bands x rows <= hashes, the least weighted error first.

        false positive area = integral of P(s) ds from 0 to the threshold
        false negative area = integral of 1 - P(s) ds from the threshold to 1
        error = weight_fp * false positive + (1 - weight_fp) * false negative

    (datasketch, lsh.py, `_optimal_param`.) Of equal errors the one with fewer bands comes first.

    Raises:
        SettingsError: the threshold is not between 0 and 1, the weight not from 0 to 1, or there
            are no such numbers of hashes.
    """
    if not 0 < threshold < 1:
        raise SettingsError(f"The threshold {threshold:g} must lie between 0 and 1.")
    if not 0 <= weight_fp <= 1:
        raise SettingsError(f"The weight {weight_fp:g} of false positives must be from 0 to 1.")
    if not 1 <= hashes <= HASHES_MAX:
        raise SettingsError(f"There can be 1 to {HASHES_MAX} hashes, not {hashes}.")
    found = [
        weighed_banding(threshold, bands, rows, weight_fp)
        for bands in range(1, min(hashes, BANDS_MAX) + 1)
        for rows in range(1, min(hashes // bands, ROWS_MAX) + 1)
    ]
    return sorted(found, key=lambda banding: (banding.error, banding.bands, banding.rows))


def widest_banding(threshold: float, missed_max: float = 1e-4) -> tuple[int, int]:
    """Return BANDS_MAX bands, with as many rows as miss at most `missed_max` at the threshold."""
    fitting = (
        rows
        for rows in range(ROWS_MAX, 1, -1)
        if detection_probability(threshold, BANDS_MAX, rows) >= 1 - missed_max
    )
    return BANDS_MAX, next(fitting, 1)


def weighed_banding(threshold: float, bands: int, rows: int, weight_fp: float) -> Banding:
    """Return a banding with its errors, as `rank_bandings` explains them."""
    below, below_weights = _nodes(0.0, threshold, bands * rows)
    above, above_weights = _nodes(threshold, 1.0, bands * rows)
    false_positive = float(below_weights @ (1 - (1 - below**rows) ** bands))
    false_negative = float(above_weights @ (1 - above**rows) ** bands)
    error = weight_fp * false_positive + (1 - weight_fp) * false_negative
    return Banding(bands, rows, false_positive, false_negative, error)


def _nodes(start: float, end: float, degree: int) -> tuple[Floats, Floats]:
    """Return places and weights of the Gauss-Legendre rule for [start, end].

    P is a polynomial of degree bands x rows, and n nodes are exact up to degree 2n - 1. The number
    of nodes is a power of two, so that few rules serve all bandings.
    """
    places, weights = _unit_nodes(1 << (degree // 2).bit_length())
    half = (end - start) / 2
    return start + half * (places + 1), half * weights


@cache
def _unit_nodes(count: int) -> tuple[Floats, Floats]:
    """Return numpy's Gauss-Legendre rule for [-1, 1]."""
    rule: tuple[Floats, Floats] = np.polynomial.legendre.leggauss(count)
    return rule
