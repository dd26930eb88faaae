"""Containment by two sketches is near to the true one, and exactly the formula's."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from streamer.model import SIMILARITY_ONE
from streamer.sketch.containment import SIZE_ONE, contained_share, size_of
from streamer.sketch.resemblance import (
    BINS,
    DENSE_LEVEL,
    EMPTY_BIN,
    SKETCH_WORDS,
    Words,
    pack_dense,
    pack_listed,
    similarity,
)
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from tests.helpers.serial_index import containment

SIGNER = NativeSigner(SignatureSettings(), bytes(range(32)))


def words(count: int, seed: str) -> list[str]:
    draw = Random(seed)
    return [f"w{draw.randrange(10**9)}" for _ in range(count)]


def contained(one: list[str], other: list[str]) -> float:
    signed = SIGNER.sign([" ".join(each).encode() for each in (one, other)], [0, 0])
    first, second = signed.sketches
    return int(containment(int(similarity(first, second)), first, second)) / SIMILARITY_ONE


def with_filled(filled: int, level: int) -> Words:
    """Return a sketch of which so many bins are filled."""
    sketch = np.zeros(SKETCH_WORDS, np.uint64)
    if level == DENSE_LEVEL:
        bins = np.full(BINS, EMPTY_BIN, np.uint64)
        bins[:filled] = np.arange(filled, dtype=np.uint64) << np.uint64(64 - DENSE_LEVEL)
        pack_dense(bins, sketch)
        return sketch
    hashes = np.arange(filled, dtype=np.uint64) << np.uint64(64 - level)
    assert pack_listed(hashes, filled, sketch)
    sketch[0] = np.uint64(level) | np.uint64(filled << 8)
    return sketch


@pytest.mark.parametrize("ratio", [1.2, 2, 3])
@pytest.mark.parametrize("size", [60, 300, 640, 1500])
def test_a_part_of_a_text_lies_in_it_and_the_text_not_in_its_part(size: int, ratio: float) -> None:
    whole = words(round(size * ratio), f"{size} {ratio}")
    part = whole[size // 9 : size // 9 + size]
    assert contained(part, whole) > 0.9
    assert abs(contained(whole, part) - 1 / ratio) < 0.05


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("size", [100, 640])
def test_of_a_page_that_quotes_the_quoted_share_is_told(size: int, share: float) -> None:
    quoted = round(size * share)
    page = [*words(quoted, "source"), *words(size - quoted, "own")]
    assert abs(contained(page, words(2 * size, "source")) - share) < 0.08


def test_strangers_share_nothing_and_equal_pages_all() -> None:
    one, other = words(500, "a"), words(500, "b")
    assert contained(one, other) < 0.05
    assert contained(one, one) == 1.0


@pytest.mark.parametrize(
    ("level", "filled"),
    [
        *((DENSE_LEVEL, filled) for filled in (1, 300, 640, 1000, 1024)),
        *((11, 298), (11, 7), (14, 190), (22, 5)),
    ],
)
def test_sizes_are_the_mean_numbers_of_hashes_that_fill_so_many_bins(
    level: int, filled: int
) -> None:
    bins = 1 << level
    mean = float(sum(Fraction(bins, bins - i) for i in range(filled)))
    told = int(size_of(with_filled(filled, level))) / SIZE_ONE
    assert told == pytest.approx(mean, rel=0.002, abs=1 / SIZE_ONE)


def test_nothing_lies_of_a_page_without_shingles() -> None:
    empty = np.zeros(SKETCH_WORDS, np.uint64)
    assert contained_share(SIMILARITY_ONE, size_of(empty), size_of(with_filled(9, 22))) == 0
