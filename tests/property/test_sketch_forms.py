"""Sketches of few and of many shingles hold what the plain form says, and compare at any levels."""

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.sketch import resemblance
from streamer.sketch.minhash import FEW_MAX, SLOTS, add_distinct, write_sorted_members
from streamer.sketch.resemblance import BINS, DENSE_LEVEL, EMPTY_BIN, similarity
from tests.oracles import plain_signature as plain

Words = npt.NDArray[np.uint64]

hashes = st.integers(0, 2**64 - 2)
crowded = st.integers(0, 40).map(lambda near: (5 << 55) + (near << 38) + near)
few_hashes = st.sets(hashes | crowded, max_size=60).map(sorted)
seeds = st.integers(0, 2**32)
sizes = st.sampled_from([0, 1, 30, 105, 106, 150, 200, 298, 299, 400, 700])


def drawn(seed: int, size: int) -> list[int]:
    return sorted(np.random.default_rng(seed).integers(0, 2**64 - 1, size, np.uint64).tolist())


def packed(values: list[int]) -> Words:
    """Return the kernels' sketch of sorted hashes, as the signer makes it."""
    guarded = np.full(resemblance.SKETCH_WORDS + 2, 7, np.uint64)
    sketch = guarded[1:-1]
    array = np.array(values, np.uint64)
    if not resemblance.pack_listed(array, len(array), sketch):
        bins = np.full(BINS, EMPTY_BIN, np.uint64)
        resemblance.lower_bins(array, len(array), bins)
        resemblance.pack_dense(bins, sketch)
    assert (guarded[0], guarded[-1]) == (7, 7)
    return sketch


@settings(max_examples=300)
@given(few_hashes | st.builds(drawn, seeds, sizes))
def test_the_sketch_of_any_number_of_hashes_is_the_plain_one(values: list[int]) -> None:
    assert packed(values).tolist() == plain.pack(values)


@settings(max_examples=100)
@given(few_hashes | st.builds(drawn, seeds, sizes))
def test_a_sketch_has_the_filled_bins_of_its_own_and_all_coarser_levels(values: list[int]) -> None:
    sketch = packed(values)
    own = plain.level_for(values)
    for level in range(DENSE_LEVEL, own + 1):
        out = np.zeros(BINS, np.uint32)
        count = resemblance.unpack_filled(sketch, level, out)
        expected = [
            place << 2 | symbol for place, symbol in plain.write_filled_bins(values, level).items()
        ]
        assert out[:count].tolist() == expected


@settings(max_examples=200)
@given(seeds, sizes, sizes, st.integers(0, 700), few_hashes)
def test_similarity_is_that_of_the_plain_form_whatever_the_levels(
    seed: int, size: int, other_size: int, common: int, extra: list[int]
) -> None:
    one = drawn(seed, size)
    other = sorted({*one[:common], *drawn(seed + 1, other_size), *extra})
    expected = plain.estimated_resemblance(one, other)
    assert similarity(packed(one), packed(other)) == expected
    assert similarity(packed(other), packed(one)) == expected


def test_the_fewer_hashes_the_finer_the_sketch() -> None:
    levels = [int(packed(drawn(3, size))[0]) & 0xFF for size in range(0, 400, 5)]
    assert levels == sorted(levels, reverse=True)
    assert (levels[0], levels[-1]) == (resemblance.FINEST_LEVEL, DENSE_LEVEL)
    assert len(set(levels)) == resemblance.FINEST_LEVEL - DENSE_LEVEL + 1


@settings(max_examples=150)
@given(st.lists(hashes | st.integers(0, 3) | crowded, max_size=80), st.integers(0, 80))
def test_distinct_hashes_are_collected_from_block_to_block(values: list[int], cut: int) -> None:
    slots, out = np.full(SLOTS, EMPTY_BIN, np.uint64), np.empty(FEW_MAX, np.uint64)
    distinct = 0
    for part in (values[:cut], values[cut:]):
        distinct = add_distinct(np.array(part, np.uint64), len(part), slots, distinct)
    assert distinct == len(set(values))
    assert out[: write_sorted_members(slots, out)].tolist() == sorted(set(values))


def test_collecting_stops_when_there_are_too_many() -> None:
    slots = np.full(SLOTS, EMPTY_BIN, np.uint64)
    assert add_distinct(np.array(drawn(1, 1900), np.uint64), 1900, slots, 0) == FEW_MAX + 1
    assert (slots != np.uint64(EMPTY_BIN)).sum() == FEW_MAX + 1
