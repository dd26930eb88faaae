"""The choice of bands and rows: by areas under curves, on a sample of pages, and as a command."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis import tuning
from streamer.config import load_settings
from streamer.pages.files import open_sources
from streamer.sketch.settings import SignatureSettings
from tests.unit.analysis.test_clusters import write


@pytest.mark.parametrize(
    ("similarity", "bands", "rows", "published"),
    [(0.8, 20, 5, 0.9996), (0.3, 20, 5, 0.0474), (0.8, 14, 6, 0.986), (0.0, 14, 6, 0.0)],
)
def test_it_is_as_published(similarity: float, bands: int, rows: int, published: float) -> None:
    # .04749 is printed as .0474: cut, not rounded.
    found = tuning.detection_probability(similarity, bands, rows)
    assert found == pytest.approx(published, abs=2e-4)


@given(st.floats(0.05, 0.95), st.integers(1, 200))
def test_both_areas_are_what_a_sum_over_many_strips_gives(threshold: float, hashes: int) -> None:
    strips = 4000
    middles = (np.arange(strips) + 0.5) / strips
    for banding in tuning.rank_bandings(threshold, hashes)[:3]:
        below = 1 - (1 - (threshold * middles) ** banding.rows) ** banding.bands
        above = (1 - (threshold + (1 - threshold) * middles) ** banding.rows) ** banding.bands
        assert banding.false_positive == pytest.approx(threshold * below.mean(), abs=1e-5)
        assert banding.false_negative == pytest.approx((1 - threshold) * above.mean(), abs=1e-5)


def test_every_banding_within_the_hashes_is_ranked_once_by_its_error() -> None:
    ranked = tuning.rank_bandings(0.7, 60, 0.3)
    expected = {(b, r) for b in range(1, 49) for r in range(1, 33) if b * r <= 60}
    assert {banding[:2] for banding in ranked} == expected
    assert len(ranked) == len(expected)
    errors = [banding.error for banding in ranked]
    assert errors == sorted(errors)
    one = ranked[5]
    assert one.error == pytest.approx(0.3 * one.false_positive + 0.7 * one.false_negative)


def test_the_greatest_banding_is_one_that_the_settings_allow() -> None:
    assert load_settings(bands=tuning.BANDS_MAX, rows=tuning.ROWS_MAX).bands == tuning.BANDS_MAX
    assert (
        SignatureSettings(bands=tuning.BANDS_MAX, rows=tuning.ROWS_MAX).hashes == tuning.HASHES_MAX
    )


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.95])
def test_the_widest_banding_has_most_rows_that_miss_next_to_nothing(threshold: float) -> None:
    bands, rows = tuning.widest_banding(threshold)
    assert bands == tuning.BANDS_MAX
    assert rows == 1 or tuning.detection_probability(threshold, bands, rows) >= 0.9999
    assert (
        rows == tuning.ROWS_MAX or tuning.detection_probability(threshold, bands, rows + 1) < 0.9999
    )


def plain_pairs(keys: list[list[int]], bucket_max: int) -> set[tuple[int, int]]:
    """Return (later, earlier) of the pages that share a key, the first ones of a bucket only."""
    pairs = set()
    for band in range(len(keys[0]) if keys else 0):
        buckets: dict[int, list[int]] = {}
        for page, row in enumerate(keys):
            bucket = buckets.setdefault(row[band], [])
            pairs |= {(page, other) for other in bucket}
            if len(bucket) < bucket_max:
                bucket.append(page)
    return pairs


@given(
    st.integers(1, 3).flatmap(
        lambda bands: st.lists(
            st.lists(st.sampled_from([0, 1, 5, 2**64 - 1]), min_size=bands, max_size=bands),
            min_size=1,
            max_size=25,
        )
    ),
    st.integers(1, 4),
)
def test_pairs_are_with_earlier_pages_of_a_bucket(keys: list[list[int]], bucket_max: int) -> None:
    found = tuning.candidate_pairs(np.array(keys, np.uint64), bucket_max).tolist()
    assert {(pair >> 32, pair & 0xFFFF_FFFF) for pair in found} == plain_pairs(keys, bucket_max)
    assert found == sorted(set(found))


def words(rng: Random, count: int) -> list[str]:
    return [f"w{rng.randrange(1_000_000)}" for _ in range(count)]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Write 30 originals; of each a copy with resemblance near 0.9, and one with 0.3 and less."""
    rng = Random(1)
    texts = []
    for _ in range(30):
        text = words(rng, 200)
        texts += [text, [*text[:190], *words(rng, 10)], [*text[:90], *words(rng, 110)]]
    texts.append(["too", "short"])
    pages = [{"url": f"https://a.example/{n}", "body": " ".join(t)} for n, t in enumerate(texts)]
    return write(tmp_path / "sample.jsonl", pages)


def test_true_candidates_false_ones_and_missed_ones_are_told_apart(sample: Path) -> None:
    read: list[int] = []
    sources = open_sources([str(sample)]).sources
    bandings = [(42, 1), (14, 6), (1, 32)]
    trials = tuning.try_bandings(sources, bandings, 0.8, progress=read.append)
    many, fair, few = trials
    assert [(trial.bands, trial.rows) for trial in trials] == bandings
    assert {trial.pages for trial in trials} == {91}
    assert (many.pairs.true_positive, many.pairs.false_negative) == (30, 0)
    assert many.pairs.false_positive >= 30  # the copies at 0.3 share one of 42 min-hashes
    assert (fair.pairs.recall or 0) >= 0.95
    assert fair.pairs.false_positive <= 5
    assert few.pairs.true_positive + few.pairs.false_negative == 30
    assert few.pairs.false_negative > 0
    assert read[-1] == sample.stat().st_size
