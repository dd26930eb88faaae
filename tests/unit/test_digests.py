from __future__ import annotations

from typing import Any

import pytest

from streamer.sketch.collection import ByLength
from streamer.sketch.method import ABSENT_KEY, PageText, similarity_of
from streamer.sketch.methods.lexical import Digests, Variant, top_keywords
from streamer.sketch.scheme import method

SECRET = bytes(range(32))


def made(variant: str, **parameters: Any) -> Digests:
    one = method("digests", {"variant": variant, **parameters}, SECRET)
    assert isinstance(one, Digests)
    return one


def similarity(one: Digests, left: PageText, right: PageText) -> float:
    return similarity_of(one.measure, one.sign(left).sketch, one.sign(right).sketch)


def words(**counts: int) -> PageText:
    return PageText(" ".join(f"{word} " * count for word, count in counts.items()))


def test_keywords_come_by_tf_times_idf_and_equal_ones_by_alphabet() -> None:
    # IDF is (letters - 1) ln 2; of 8 words: house 4/8, of 2 * 1/8, cat and dog 2/8, a 0.
    found = top_keywords(["a", "of", "of", "house", "dog", "cat", "a", "a"], ByLength(), 9)
    assert [one.word for one in found] == ["house", "cat", "dog", "of"]
    assert [round(one.weight / 0.693147 * 8, 4) for one in found] == [4, 2, 2, 2]


def test_a_limit_keeps_the_first_keywords() -> None:
    found = top_keywords(["house", "cat", "dog"], ByLength(), 2)
    assert [one.word for one in found] == ["house", "cat"]


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("con", ["bridge", "window", "cat"]),
        ("con_weights", ["bridge", "window", "cat"]),
        ("sort", ["bridge", "cat", "window"]),
        ("sort_weights", ["bridge", "cat", "window"]),
        ("description", []),
    ],
)
def test_keywords_stand_in_the_order_of_the_variant(variant: str, expected: list[str]) -> None:
    page = words(window=2, cat=1, bridge=3)
    found = made(variant, keywords=3).keywords(page)
    assert [one.word for one in found] == expected


def duplicates(one: Digests, left: PageText, right: PageText) -> bool:
    return similarity(one, left, right) >= one.threshold


def test_another_order_of_weights_matters_to_con_and_not_to_sort() -> None:
    left, right = words(bridge=21, window=20), words(bridge=20, window=21)
    said = {v: duplicates(made(v, keywords=2), left, right) for v in Variant}
    assert [v for v in Variant if said[v]] == ["sort", "sort_weights"]


def test_weights_far_from_each_other_matter_to_the_variants_with_weights() -> None:
    left, right = words(bridge=3, window=2), words(bridge=9, window=2)
    said = {v: duplicates(made(v, keywords=2), left, right) for v in Variant}
    assert [v for v in Variant if said[v]] == ["con", "sort"]


def test_the_farthest_pair_of_weights_decides_by_the_published_rule() -> None:
    # Shares of words: bridge 3/5 and 9/11, window 2/5 and 2/11; both IDFs are 5 ln 2.
    apart = [(v - w) ** 2 / (v**2 + w**2) for v, w in ((3 / 5, 9 / 11), (2 / 5, 2 / 11))]
    left, right = words(bridge=3, window=2), words(bridge=9, window=2)
    assert (
        similarity(made("con_weights", keywords=2), left, right)
        == int(1e4 - 1e4 * max(apart)) / 1e4
    )
    for a, same in ((max(apart) - 0.001, False), (max(apart) + 0.001, True)):
        one = made("con_weights", keywords=2, apart=a)
        assert duplicates(one, left, right) is same


def test_weights_have_a_key_that_does_not_depend_on_them() -> None:
    one = made("con_weights", keywords=2)
    assert one.sign(words(bridge=3, window=2)).keys == one.sign(words(bridge=9, window=2)).keys


def test_a_description_stands_for_its_page() -> None:
    one = made("description")
    left = PageText("first text", description="All about BRIDGES.")
    right = PageText("second text", description="all about bridges")
    assert one.description(left) == "all about bridges"
    assert similarity(one, left, right) == 1.0
    assert one.sign(left).keys == one.sign(right).keys


def test_without_a_description_the_first_512_bytes_of_text_stand_for_it() -> None:
    one = made("description")
    beginning = "\u00e9" * 255 + " "  # 511 bytes, so the next character of two is cut
    left, right = PageText(beginning + "\u00e9nd"), PageText(beginning + "\u00e0ther")
    assert one.description(left) == one.description(PageText(beginning))
    assert one.sign(left).keys == one.sign(right).keys
    assert one.sign(PageText("x" + beginning)).keys != one.sign(left).keys


def test_two_pages_without_description_and_with_different_text_are_no_match() -> None:
    one = made("description")
    assert one.sign(PageText("one text")).keys != one.sign(PageText("other text")).keys
    assert similarity(one, PageText("one text"), PageText("other text")) == 0.0


@pytest.mark.parametrize("variant", ["con", "sort", "con_weights", "sort_weights"])
def test_a_page_with_fewer_keywords_has_no_key(variant: str) -> None:
    one = made(variant, keywords=3)
    assert one.sign(words(bridge=2, window=1)).keys == [ABSENT_KEY]
    assert similarity(one, words(bridge=2, window=1), words(bridge=1, window=2)) == 0.0
