"""Methods over shingles hold what their definitions promise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sketch.method import PageText
from streamer.sketch.methods import shingled
from streamer.text.words import canonical_words

SECRET = bytes(range(32))


def test_shingles_are_of_words_or_of_characters_end_to_end_or_overlapping() -> None:
    page = PageText("One two, THREE four five")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"shingle_width": 4}, ["one two three four", "two three four five"]),
        ({"shingle_width": 2, "stride": 2}, ["one two", "three four"]),
        ({"shingle_width": 9}, ["one two three four five"]),
        ({"shingle_width": 23, "unit": "characters"}, ["one two three four five"]),
        ({"shingle_width": 6, "unit": "characters", "stride": 6}, ["one tw", "o thre", "e four"]),
    ]
    for options, expected in cases:
        found = shingled.Shingler(shingled.ShingleParameters(**options), SECRET).shingles(page)
        assert found == expected
    unspaced = shingled.ShingleParameters(shingle_width=3, unit="characters")
    found = shingled.Shingler(unspaced, SECRET).shingles(PageText("数据挖掘, 한국어"))
    assert found == ["数据挖", "据挖掘", "挖掘 ", "掘 한", " 한국", "한국어"]
    assert shingled.character_shingles("ab", 3) == []
    assert shingled.Shingler(shingled.ShingleParameters(), SECRET).shingles(PageText("")) == []


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=30), st.integers(1, 10), st.integers(1, 10)
)
def test_shingles_start_every_stride_uncut(found: list[str], width: int, stride: int) -> None:
    starts = [start for start in range(len(found)) if start % stride == 0]
    whole = [found[start : start + width] for start in starts if start + width <= len(found)]
    assert [shingle.split(" ") for shingle in shingled.shingles(found, width, stride)] == whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One, two", "one two"), ("数据 挖掘!", "数据挖掘"), ("用Python写バグ", "用 python 写バグ"),
        ("Ёлка 한국어", "ёлка 한국어"),
    ],
)  # fmt: skip
def test_characters_are_composed_and_unspaced_scripts_unspaced(text: str, expected: str) -> None:
    assert shingled.as_characters(canonical_words(text)) == expected
