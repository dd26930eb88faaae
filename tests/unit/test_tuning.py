"""The choice of bands and rows, against numerical integration and the rule's own source."""

from __future__ import annotations

import numpy as np
import pytest
from datasketch.lsh import _optimal_param
from hypothesis import given
from hypothesis import strategies as st

from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.lab.tuning import (
    BANDS_MAX,
    HASHES_MAX,
    ROWS_MAX,
    detection_probability,
    rank_bandings,
    widest_banding,
)
from streamer.sketch.settings import SignatureSettings


@pytest.mark.parametrize(
    ("similarity", "bands", "rows", "published"),
    [(0.8, 20, 5, 0.9996), (0.3, 20, 5, 0.0474), (0.8, 14, 6, 0.986), (0.0, 14, 6, 0.0)],
)
def test_the_curve_has_its_published_values(
    similarity: float, bands: int, rows: int, published: float
) -> None:
    # .04749 is printed as .0474: cut, not rounded.
    found = detection_probability(similarity, bands, rows)
    assert found == pytest.approx(published, abs=2e-4)


@given(st.floats(0.05, 0.95), st.integers(1, 200))
def test_both_areas_are_those_that_a_sum_over_many_strips_gives(
    threshold: float, hashes: int
) -> None:
    strips = 4000
    middles = (np.arange(strips) + 0.5) / strips
    for banding in rank_bandings(threshold, hashes)[:3]:
        below = 1 - (1 - (threshold * middles) ** banding.rows) ** banding.bands
        above = (1 - (threshold + (1 - threshold) * middles) ** banding.rows) ** banding.bands
        assert banding.false_positive == pytest.approx(threshold * below.mean(), abs=1e-5)
        assert banding.false_negative == pytest.approx((1 - threshold) * above.mean(), abs=1e-5)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("hashes", [16, 48, 84])
@pytest.mark.parametrize("weight", [0.1, 0.5, 0.7])
def test_the_best_banding_is_the_one_that_datasketch_takes(
    threshold: float, hashes: int, weight: float
) -> None:
    bands, rows = _optimal_param(threshold, hashes, weight, 1 - weight)
    if rows > ROWS_MAX:
        pytest.fail("choose cases within the settings' limits")
    assert rank_bandings(threshold, hashes, weight)[0][:2] == (bands, rows)


def test_every_banding_within_the_hashes_is_ranked_once_by_its_error() -> None:
    ranked = rank_bandings(0.7, 60, 0.3)
    expected = {(b, r) for b in range(1, 49) for r in range(1, 33) if b * r <= 60}
    assert {banding[:2] for banding in ranked} == expected
    assert len(ranked) == len(expected)
    errors = [banding.error for banding in ranked]
    assert errors == sorted(errors)
    one = ranked[5]
    assert one.error == pytest.approx(0.3 * one.false_positive + 0.7 * one.false_negative)


def test_a_weight_on_false_positives_alone_leaves_no_area_below() -> None:
    heavy, light = rank_bandings(0.8, 84, 1.0)[0], rank_bandings(0.8, 84, 0.0)[0]
    assert heavy.false_positive < 1e-3 < heavy.false_negative
    assert light.false_negative < 1e-3 < light.false_positive


def test_the_greatest_banding_is_one_that_the_settings_allow() -> None:
    assert load_settings(bands=BANDS_MAX, rows=ROWS_MAX).bands == BANDS_MAX
    assert SignatureSettings(bands=BANDS_MAX, rows=ROWS_MAX).hashes == HASHES_MAX


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.95])
def test_the_widest_banding_misses_next_to_nothing_with_as_many_rows_as_that_allows(
    threshold: float,
) -> None:
    bands, rows = widest_banding(threshold)
    assert bands == BANDS_MAX
    assert rows == 1 or detection_probability(threshold, bands, rows) >= 0.9999
    assert rows == ROWS_MAX or detection_probability(threshold, bands, rows + 1) < 0.9999


@pytest.mark.parametrize(
    ("threshold", "hashes", "weight", "named"),
    [
        (0.0, 84, 0.5, "threshold 0 "),
        (1.0, 84, 0.5, "threshold 1 "),
        (0.8, 0, 0.5, "not 0"),
        (0.8, HASHES_MAX + 1, 0.5, "not 1537"),
        (0.8, 84, 1.5, "weight 1.5"),
    ],
)
def test_what_cannot_be_asked_for_is_named(
    threshold: float, hashes: int, weight: float, named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        rank_bandings(threshold, hashes, weight)
