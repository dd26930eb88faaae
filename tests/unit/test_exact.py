"""Exact shares of shingles: published values, definitions over sets, uniqueness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SettingsError
from streamer.lab.exact import (
    Uniqueness,
    bag_resemblance,
    compare_words,
    containment,
    covered_share,
    dice_percentage,
    fit_width,
    jaccard,
)
from streamer.sketch.methods.shingled import shingles

items = st.lists(st.sampled_from("abcdef"), max_size=12)
sets = st.frozensets(st.sampled_from("abcdef"))


def test_sets_of_four_and_five_that_share_two_resemble_by_two_sevenths() -> None:
    assert jaccard(set("abcd"), set("cdefg")) == 2 / 7


def test_ninety_five_unique_shingles_of_a_hundred_are_95_percent() -> None:
    text = [f"w{i}" for i in range(102)]
    uniqueness = Uniqueness(text, 3)
    uniqueness.add("source", ["other", *text[10:17], "words"])
    assert (uniqueness.shingles, uniqueness.unique) == (100, 95)
    assert uniqueness.percentage == 95.0
    assert uniqueness.by_source == {"source": 5}
    uniqueness.add("source", text[2:])
    uniqueness.add("source", text[2:])
    assert uniqueness.by_source == {"source": uniqueness.shingles - 2}, "of 5 and of others, once"


@given(items, items)
def test_dice_is_the_published_percentage_over_lists(one: list[str], other: list[str]) -> None:
    same = 0
    for item in one:
        if item in other:
            same += 1
    expected = same * 2 / float(len(one) + len(other)) * 100 if one or other else 0.0
    assert dice_percentage(one, other) == expected


def test_dice_counts_repeats_of_the_first_list_only() -> None:
    assert dice_percentage(["a", "a"], ["a"]) == pytest.approx(400 / 3)
    assert dice_percentage(["a"], ["a", "a"]) == pytest.approx(200 / 3)


@given(sets, sets)
def test_jaccard_and_containment_count_members_one_by_one(
    one: frozenset[str], other: frozenset[str]
) -> None:
    both = sum(item in one and item in other for item in "abcdef")
    either = sum(item in one or item in other for item in "abcdef")
    assert jaccard(one, other) == jaccard(other, one) == (both / either if either else 0.0)
    assert containment(one, other) == (both / len(one) if one else 0.0)


def test_a_quotation_in_a_long_text_is_contained_but_does_not_resemble() -> None:
    quotation = [f"q{i}" for i in range(12)]
    around = [f"w{i}" for i in range(500)]
    result = compare_words(quotation, around[:250] + quotation + around[250:], 5)
    assert result.containment[0] == 1.0
    assert result.containment[1] == result.jaccard == 8 / 508
    assert result.shared == 8


@given(items, items, st.integers(1, 4))
def test_a_word_is_covered_if_a_shingle_about_it_stands_in_the_other_text(
    one: list[str], other: list[str], width: int
) -> None:
    own, theirs = shingles(one, width), frozenset(shingles(other, width))
    covered = [
        any(own[start] in theirs for start in range(place - width + 1, place + 1)
            if 0 <= start < len(own))
        for place in range(len(one))
    ]  # fmt: skip
    expected = sum(covered) / len(one) if len(one) >= width else 0.0
    assert covered_share(own, theirs, width) == expected


@given(items, items)
def test_the_bag_counts_each_word_as_often_as_it_stands_there(
    one: list[str], other: list[str]
) -> None:
    least = sum(min(one.count(item), other.count(item)) for item in "abcdef")
    most = sum(max(one.count(item), other.count(item)) for item in "abcdef")
    assert bag_resemblance(one, other) == (least / most if most else 0.0)


def test_a_moved_paragraph_costs_the_bag_nothing_and_hardly_covers_less() -> None:
    text = [f"w{i}" for i in range(100)]
    result = compare_words(text, text[60:] + text[:60], 5)
    assert (result.bag, result.covered) == (1.0, (1.0, 1.0))
    assert result.jaccard == 92 / 100


def test_the_width_is_fit_to_a_text_shorter_than_a_shingle() -> None:
    result = compare_words(["b", "c"], ["a", "b", "c", "d", "e", "f"], 5)
    assert result.width == 2
    assert result.shingles == (1, 5)
    assert result.containment == (1.0, 1 / 5)


def test_a_text_without_words_shares_nothing() -> None:
    result = compare_words([], ["a", "b"], 5)
    assert (result.width, result.shared, result.dice_percentage, result.jaccard) == (1, 0, 0.0, 0.0)


@given(
    st.lists(st.sampled_from("abc"), max_size=25),
    st.lists(st.lists(st.sampled_from("abc"), max_size=25), max_size=4),
    st.integers(1, 4),
)
def test_uniqueness_is_the_share_of_places_whose_shingle_no_source_has(
    text: list[str], sources: list[list[str]], width: int
) -> None:
    uniqueness = Uniqueness(text, width)
    for number, words in enumerate(sources):
        uniqueness.add(str(number), words)
    own = shingles(text, fit_width(width, len(text)))
    theirs = [shingles(words, fit_width(width, len(text))) for words in sources]
    unique = [s for s in own if not any(s in one for one in theirs)]
    assert uniqueness.shingles == len(own)
    assert uniqueness.unique == len(unique)
    assert uniqueness.percentage == (100 * len(unique) / len(own) if own else 100.0)
    found = {str(n): sum(s in one for s in own) for n, one in enumerate(theirs)}
    assert uniqueness.by_source == {name: count for name, count in found.items() if count}


def test_a_width_of_no_words_is_refused() -> None:
    with pytest.raises(SettingsError, match="cannot be 0 wide"):
        fit_width(0, 10)
