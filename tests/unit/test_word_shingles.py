"""Shingles as text: which runs of words and characters there are, at every width and stride."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.sketch.methods.shingled import as_characters, character_shingles, shingles
from streamer.text.words import canonical_words

word_lists = st.lists(st.sampled_from(["a", "b", "c"]), max_size=30)


@given(word_lists, st.integers(1, 10), st.data())
def test_a_shingle_starts_every_stride_words_and_none_is_cut(
    words: list[str], width: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, width))
    result = shingles(words, width, stride)
    starts = [start for start in range(len(words)) if start % stride == 0]
    whole = [words[start : start + width] for start in starts if start + width <= len(words)]
    assert [shingle.split(" ") for shingle in result] == whole


def test_a_stride_of_the_width_lays_shingles_end_to_end() -> None:
    assert shingles("a b c d e f g".split(), 3, 3) == ["a b c", "d e f"]  # noqa: SIM905 - words


def test_three_characters_of_an_unspaced_text_are_windows_over_it() -> None:
    assert character_shingles("数据挖掘", 3) == ["数据挖", "据挖掘"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One, two", "one two"),
        ("数据 挖掘!", "数据挖掘"),
        ("用Python写バグ", "用 python 写バグ"),
        ("Ёлка 한국어", "ёлка 한국어"),
    ],
)
def test_characters_are_composed_and_no_space_stands_in_an_unspaced_script(
    text: str, expected: str
) -> None:
    assert as_characters(canonical_words(text)) == expected


def test_a_text_shorter_than_a_shingle_has_none() -> None:
    assert shingles(["a", "b"], 3) == []
    assert character_shingles("ab", 3) == []
