from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SettingsError
from streamer.sketch.collection import ByLength, idf, rarest_first
from streamer.sketch.method import PageText
from streamer.sketch.methods.hashes import HASHES, hash64, seed_of
from streamer.sketch.methods.lexical import OneString
from streamer.sketch.scheme import method
from streamer.text.words import sentences

SECRET = bytes(range(32))


def made(name: str, **parameters: Any) -> OneString[Any]:
    one = method(name, parameters, SECRET)
    assert isinstance(one, OneString)
    return one


def string(name: str, text: str, **parameters: Any) -> str:
    return made(name, **parameters).string(PageText(text))


# ---- the mould ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HASHES)
def test_the_key_is_the_chosen_hash_of_the_string(name: str) -> None:
    seed = seed_of(SECRET, "exact_content 0")
    keys = made("exact_content", hash=name).sign(PageText("Some text.")).keys
    assert keys == [hash64(b"some text", seed, name)]


def test_equal_hashes_are_told_apart_by_256_bits_of_the_string() -> None:
    one = made("exact_content", hash="crc32")
    sketches = [one.sign(PageText(text)).sketch.tolist() for text in ("one text", "other text")]
    for sketch in sketches:
        assert sketch[0] == 4 | 64 << 16  # four slots of 64 bits
        assert not any(sketch[5:])
    assert all(x != y for x, y in zip(sketches[0][1:5], sketches[1][1:5], strict=True))


# ---- how rare words are without a collection -------------------------------------------------


@pytest.mark.parametrize(
    ("word", "share"),
    [
        ("a", 1), ("cat", 1 / 4), ("море", 1 / 8), ("\u6771", 1 / 8),
        ("e\u0301te\u0301", 1 / 4),  # three letters and two marks
        ("x" * 17, 2**-16), ("x" * 40, 2**-16),
    ],
)  # fmt: skip
def test_each_letter_halves_the_share_of_pages(word: str, share: float) -> None:
    assert ByLength().share(word) == share
    assert idf(word, ByLength()) == pytest.approx(-math.log(share))
    assert math.copysign(1, idf(word, ByLength())) == 1, "no negative zero for one on all pages"


def test_the_rarest_words_come_first_and_equal_ones_by_alphabet() -> None:
    rarest = rarest_first(["cat", "a", "house", "dog", "a"], ByLength())
    assert rarest == ["house", "cat", "dog", "a"]


# ---- IDF string --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(70, "letters house book ink"), (100, "letters house book ink a"), (1, "letters")],
)
def test_the_share_of_rarest_words_is_joined_in_descending_order_of_idf(
    percent: int, expected: str
) -> None:
    text = "A book, a house, ink - a letters book"
    assert string("idf_string", text, kept_percent=percent, min_words=1) == expected


def test_repeats_and_another_frequent_word_do_not_change_the_idf_string() -> None:
    text = "letters houses bridge window captain book ink"
    plain = string("idf_string", text)
    assert string("idf_string", text + " ink Bridge") == plain
    assert string("idf_string", text.replace("ink", "pen")) == plain
    assert string("idf_string", text.replace("houses", "towers")) != plain


def test_a_page_that_keeps_too_few_words_has_no_idf_string() -> None:
    assert string("idf_string", "bridge window captain", min_words=4) == ""
    assert string("idf_string", "bridge window captain", min_words=3) != ""


# ---- optimum frequency -------------------------------------------------------------------------


def plain_optimum(text: str, count: int, best: float) -> str:
    """The definition, word by word, for texts of lower-case Latin words."""
    words = text.split()
    most = max(words.count(word) for word in words)
    ranked = []
    for word in set(words):
        rarity = math.log(2) * (min(len(word), 17) - 1)
        nearness = rarity / best if rarity <= best else best / rarity
        if rarity:
            ranked.append((-(0.5 + 0.5 * words.count(word) / most) * nearness, word))
    if len(ranked) < count:
        return ""
    return " ".join(sorted(word for _, word in sorted(ranked)[:count]))


@given(
    st.lists(st.integers(1, 12).map(lambda n: "abcdefghijkl"[:n]), min_size=1, max_size=20),
    st.integers(1, 6),
)
def test_the_words_of_greatest_weight_are_joined_by_alphabet(words: list[str], count: int) -> None:
    text = " ".join(words)
    # a best IDF at which no two of these words weigh the same by rounding
    assert string("optimum_frequency", text, words=count, best_idf=3.3) == plain_optimum(
        text, count, 3.3
    )


def test_words_far_from_the_best_frequency_on_both_sides_lose() -> None:
    text = "of bridge lanterns incomprehensibilities the"
    best = 6 * math.log(2)  # a word of seven letters
    assert string("optimum_frequency", text, words=2, best_idf=best) == "bridge lanterns"


# ---- long sentences ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two? Three!\nFour", ["One.", "Two?", "Three!", "Four"]),
        ("Pi is 3.14. \u00abNo.\u00bb Then", ["Pi is 3.14.", "\u00abNo.\u00bb", "Then"]),
        ("\u4e00\u3002\u4e8c\uff01\u4e09", ["\u4e00\u3002", "\u4e8c\uff01", "\u4e09"]),
        (" \n \n", []),
    ],
)  # fmt: skip
def test_sentences_end_at_stops_and_lines(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text("ab.!?\u3002 \n\u00bb", max_size=60))
def test_sentences_keep_all_but_white_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_the_two_longest_sentences_are_joined_by_alphabet() -> None:
    text = (
        "We met in the old harbour at noon. Yes. Nobody had ever seen the captain smile before."
        " All of us went home."
    )
    expected = "nobody had ever seen the captain smile before\nwe met in the old harbour at noon"
    assert string("long_sentences", text) == expected
    swapped = "Nobody had ever seen the captain smile before! We met in the old harbour at noon."
    assert string("long_sentences", swapped) == expected


def test_a_sentence_that_comes_twice_counts_once() -> None:
    text = "one two three four five six. One two three four five six! Five words are enough here."
    expected = "five words are enough here\none two three four five six"
    assert string("long_sentences", text) == expected


def test_a_page_of_short_sentences_has_none() -> None:
    assert string("long_sentences", "Home. About us. Four words are few. No no no no no no!") == ""


# ---- page vector -------------------------------------------------------------------------------


def test_feature_words_come_by_step_with_stop_words_left_out() -> None:
    counts = {"the": 50, "bridge": 8, "window": 5, "captain": 4, "village": 1, "это": 9}
    text = " ".join(" ".join([word] * count) for word, count in counts.items())
    # Steps are counts * 4 / 8, rounded up.
    expected = "bridge:4 window:3 captain:2 village:1"
    assert string("page_vector", text, words=4) == expected
    assert string("page_vector", text, words=3) == "bridge:4 window:3 captain:2"
    assert string("page_vector", text, words=4, steps=1) == "bridge:1 captain:1 village:1 window:1"
    assert string("page_vector", text, words=5) == ""
    assert string("page_vector", text, words=1, stop_words="russian") == "the:4"


@given(st.lists(st.sampled_from(["cat", "dog", "owl", "fox"]), max_size=40), st.integers(1, 4))
def test_steps_are_shares_of_the_greatest_count_rounded_up(words: list[str], steps: int) -> None:
    counts = Counter(words)
    most = max(counts.values(), default=0)
    plain = {word: math.ceil(round(steps * count / most, 9)) for word, count in counts.items()}
    ordered = sorted(plain, key=lambda word: (-plain[word], word))
    expected = " ".join(f"{word}:{plain[word]}" for word in ordered)
    found = string("page_vector", " ".join(words), words=max(1, len(counts)), steps=steps)
    assert found == expected


def test_a_language_without_stop_words_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(SettingsError, match=r"klingon.*english"):
        made("page_vector", stop_words="klingon")
