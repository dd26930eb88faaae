"""A filter forgets no key, and lets few others pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.index.filter import GrowingFilter, KeyFilter

key_lists = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=200)


def array(keys: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(keys, np.uint64)


@settings(max_examples=200, deadline=None)
@given(key_lists, key_lists, st.integers(0, 300))
def test_every_added_key_passes_even_beyond_the_capacity(
    first: list[int], second: list[int], capacity: int
) -> None:
    keys = KeyFilter(capacity)
    keys.add(array(first))
    keys.add(array(second))
    assert keys.places(array(first)).tolist() == list(range(len(first)))
    assert keys.places(array(second + first)).tolist() == list(range(len(second + first)))
    assert keys.count == len(first) + len(second)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_nothing_passes_an_empty_filter(keys: list[int]) -> None:
    assert KeyFilter(100).places(array(keys)).size == 0


@pytest.mark.parametrize("capacity", [1_000, 65_536, 300_000])
def test_less_than_one_per_cent_of_other_hashes_pass_at_capacity(capacity: int) -> None:
    asked = 200_000
    drawn = np.random.default_rng(capacity).integers(0, 2**64, capacity + asked, np.uint64)
    keys = KeyFilter(capacity)
    keys.add(drawn[:capacity])
    assert len(keys.places(drawn[capacity:])) < 0.01 * asked


@settings(max_examples=100, deadline=None)
@given(st.lists(key_lists, max_size=8), st.integers(1, 40))
def test_every_key_passes_a_filter_that_has_grown(parts: list[list[int]], capacity: int) -> None:
    keys = GrowingFilter(capacity)
    for part in parts:
        keys.add(array(part))
    added = [key for part in parts for key in part]
    assert keys.places(array(added)).tolist() == list(range(len(added)))
    assert keys.count == len(added)


def test_a_filter_that_grows_does_so_in_few_parts_and_lets_few_others_pass() -> None:
    drawn = np.random.default_rng(1).integers(0, 2**64, 300_000, np.uint64)
    keys = GrowingFilter(1_000)
    for part in np.array_split(drawn[:100_000], 100):
        keys.add(part)
    assert keys.capacity < 300_000
    assert len(keys.parts) == 7
    assert len(keys.places(drawn[100_000:])) < 0.03 * 200_000
