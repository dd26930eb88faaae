from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sketch.method import PageText, similarity_of
from streamer.sketch.methods.hashes import hash64, seed_of
from streamer.sketch.methods.simhash import BITS, SimHash, blocks, simhash
from streamer.sketch.scheme import method

SECRET = bytes(range(32))
HASHES = st.integers(0, 2**64 - 1)


def made(**parameters: Any) -> SimHash:
    one = method("simhash", parameters, SECRET)
    assert isinstance(one, SimHash)
    return one


def plain_simhash(weights: dict[int, int]) -> int:
    """Charikar's rule, bit by bit."""
    result = 0
    for bit in range(64):
        votes = sum(w if h >> bit & 1 else -w for h, w in weights.items())
        result |= (votes > 0) << bit
    return result


@given(st.dictionaries(HASHES, st.integers(1, 10**9), min_size=1, max_size=30))
def test_each_bit_is_the_weighted_vote_of_the_hashes(weights: dict[int, int]) -> None:
    assert simhash(weights) == plain_simhash(weights)


def test_a_draw_gives_zero() -> None:
    assert simhash({0b11: 2, 0b01: 1, 0b00: 1}) == 0b01


@given(HASHES, st.integers(1, 16))
def test_blocks_are_all_bits_in_order(value: int, count: int) -> None:
    sizes = [64 * (i + 1) // count - 64 * i // count for i in range(count)]
    joined, low = 0, 0
    for block, size in zip(blocks(value, count), sizes, strict=True):
        assert block < 1 << size
        joined |= block << low
        low += size
    assert joined == value


@pytest.mark.parametrize("distance", [0, 3, 15])
def test_there_is_a_key_more_than_bits_may_differ(distance: int) -> None:
    one = made(distance=distance)
    keys = one.sign(PageText("one word more")).keys
    assert len(keys) == len(set(keys)) == one.bands == distance + 1


@pytest.mark.parametrize("distance", range(16))
def test_the_threshold_admits_as_many_bits_as_may_differ_and_no_more(distance: int) -> None:
    one = made(distance=distance)
    sketch = one.sign(PageText("the quick brown fox jumps over the lazy dog")).sketch
    assert sketch[0] == BITS
    assert not sketch[2:].any()
    for flipped, duplicate in ((distance, True), (distance + 1, False)):
        other = sketch.copy()
        other[1] ^= (1 << flipped) - 1
        assert (similarity_of(one.measure, sketch, other) >= one.threshold) is duplicate


def test_features_weigh_as_often_as_they_stand_on_the_page() -> None:
    seed = seed_of(SECRET, "simhash feature")
    expected = Counter({hash64(b"dog", seed): 2, hash64(b"cat", seed): 1})
    assert made().weights(PageText("Dog, cat, dog")) == expected


def test_idf_weighs_a_feature_by_the_sum_of_its_words() -> None:
    page = PageText("dog house")  # on one page in 4, and in 16: ln 4 and ln 16
    assert list(made(weight="idf", width=2).weights(page).values()) == [1386 + 2773]
