"""How near the estimates come to the true resemblance of sets, over many pairs and secrets.

The seed is fixed, so nothing here can fail by chance; the bounds are those of sampling theory.
"""

from math import sqrt

import numpy as np
import pytest

from streamer.sketch.method_signer import min_hashes, resemblance_sketch
from streamer.sketch.resemblance import BINS, Words, similarity
from streamer.sketch.settings import HashSeeds, derive_seeds

PAIRS = 150
HASHES = 84


def pairs(size: int, resemblance: float) -> tuple[float, list[tuple[Words, Words, HashSeeds]]]:
    """Return the true resemblance of pairs of sets of `size` shingles, and the pairs."""
    random = np.random.default_rng(size)
    common = round(2 * size * resemblance / (1 + resemblance))
    union = 2 * size - common
    drawn = [random.integers(0, 2**64, union, np.uint64) for _ in range(PAIRS)]
    return common / union, [
        (words[:size], words[size - common :], derive_seeds(random.bytes(32), 5, HASHES))
        for words in drawn
    ]


def sketches(a: Words, b: Words, keys: HashSeeds) -> tuple[Words, Words]:
    return resemblance_sketch(a, keys.sketch_mask), resemblance_sketch(b, keys.sketch_mask)


@pytest.mark.parametrize("size", [50, 200, 1000, 5000])
@pytest.mark.parametrize("resemblance", [0.0, 0.2, 0.5, 0.8, 0.95])
def test_min_hashes_agree_as_often_as_the_sets_are_alike(size: int, resemblance: float) -> None:
    true, drawn = pairs(size, resemblance)
    agreed = np.mean([min_hashes(a, keys) == min_hashes(b, keys) for a, b, keys in drawn])
    assert agreed == pytest.approx(true, abs=4 * sqrt(true * (1 - true) / (PAIRS * HASHES)) + 1e-4)


@pytest.mark.parametrize("size", [20, 100, 1000])
def test_bands_find_pairs_at_least_as_often_as_independent_min_hashes_would(size: int) -> None:
    bands, rows = 14, HASHES // 14
    true, drawn = pairs(size, 0.7)
    equal = [min_hashes(a, keys) == min_hashes(b, keys) for a, b, keys in drawn]
    found = np.mean([pair.reshape(bands, rows).all(axis=1).any() for pair in equal])
    expected = 1 - (1 - true**rows) ** bands
    assert found > expected - 2 * sqrt(expected * (1 - expected) / PAIRS)


@pytest.mark.parametrize("size", [50, 200, 1000, 5000])
@pytest.mark.parametrize("resemblance", [0.2, 0.5, 0.8, 0.95])
def test_the_sketch_is_unbiased_and_exact_as_1000_trials(size: int, resemblance: float) -> None:
    """With all bins filled, the equal ones are binomial: p = (1 + 2J)/3, J = (3p - 1)/2."""
    true, drawn = pairs(size, resemblance)
    errors = np.array([similarity(*sketches(*pair)) / 10_000 - true for pair in drawn])
    chance = (1 + 2 * true) / 3
    rmse = 1.5 * sqrt(chance * (1 - chance) / BINS)
    assert sqrt(np.mean(errors**2)) < 1.1 * rmse
    assert abs(np.mean(errors)) < 4 * rmse / sqrt(PAIRS) + 1e-4
