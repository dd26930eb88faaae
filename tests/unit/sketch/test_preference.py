"""Ranks order pages as their numbers do, and no comparison of sketches sees them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sketch.preference import (
    HTTPS,
    LONGEST,
    NO_NUMBER,
    field_of,
    is_preference,
    ranks_in,
    ranks_of,
    stamp,
)
from streamer.sketch.resemblance import RANK_SHIFT, filled_of, level_of, similarity
from tests.helpers.signed_pages import sketch_with, unlike

NONE = np.empty(0, np.int64)
numbers = st.one_of(st.floats(allow_nan=False, width=32), st.integers(0, 2**33))


def ranks(prefer: str, *values: float) -> list[int]:
    urls = [b""] * len(values)
    found: list[int] = ranks_of(prefer, urls, np.array(values, np.int64), []).tolist()
    return found


@given(numbers, numbers)
def test_ranks_are_in_the_order_of_the_numbers(one: float, other: float) -> None:
    [a, b] = ranks_of("field:score", [], NONE, [one, other]).tolist()
    assert (a < b, a == b) == (one < other, one == other)
    assert max(a, b) < 1 << 64 - RANK_SHIFT


def test_a_page_without_the_number_is_no_better_than_any() -> None:
    [none, least] = ranks_of("field:score", [], NONE, [NO_NUMBER, -1e308]).tolist()
    assert none < least


def test_the_longest_text_and_an_https_url_are_better() -> None:
    shorter, same, longer = ranks(LONGEST, 0, 0, 2**33)
    assert shorter == same < longer
    urls = [b"http://a.example/", b"HTTPS://a.example/", b"https://b.example/", b"https"]
    plain, *secure, broken = ranks_of(HTTPS, urls, NONE, []).tolist()
    assert plain == broken < secure[0] == secure[1]


def test_a_time_of_this_century_is_known_to_a_quarter_of_a_second() -> None:
    [a, b] = ranks_of("field:at", [], NONE, [1.8e9, 1.8e9 + 0.25]).tolist()
    assert a < b


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, math.inf])
def test_a_rank_in_a_sketch_is_seen_by_no_comparison(value: float) -> None:
    plain = np.array([sketch_with(0), sketch_with(100), unlike(2)], np.uint64)
    ranked = plain.copy()
    stamp(ranked, ranks_of("field:score", [], NONE, [value, -value, 7.5]))
    assert ranks_in(plain).tolist() == [0, 0, 0]
    assert ranks_in(ranked).tolist() == ranks_of("field:s", [], NONE, [value, -value, 7.5]).tolist()
    for own, other in ((0, 0), (0, 1), (1, 0), (1, 2)):
        assert similarity(ranked[own], plain[other]) == similarity(plain[own], plain[other])
    assert similarity(ranked[0], plain[0]) == 10_000
    assert [filled_of(each) for each in ranked] == [filled_of(each) for each in plain]
    assert [level_of(each) for each in ranked] == [level_of(each) for each in plain]


def test_preferences_are_two_words_or_a_field() -> None:
    assert (field_of("field:/a/b"), field_of("longest")) == ("/a/b", "")
    assert all(map(is_preference, ("longest", "https", "field:score")))
    assert not any(map(is_preference, ("", "field:", "newest", "score")))
