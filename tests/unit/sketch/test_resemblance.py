"""How near the estimates come to the true resemblance of sets, over many pairs and secrets.

The seed is fixed, so nothing here can fail by chance; the bounds are those of sampling theory.
"""

from math import sqrt

import numpy as np
import pytest

from streamer.sketch.method_signer import min_hashes
from streamer.sketch.resemblance import Words
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
