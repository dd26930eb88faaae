"""Canonical words: the detector's by default, each option as it is defined, places in the text."""

# ruff: noqa: RUF001 - letters that look alike are what these tests are about

import zlib
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from streamer.text.tokens import tokens
from streamer.text.words import CanonicalOptions, Word, canonical_words, sentences, words_with_spans

REASON = (
    "Разум дан человеку для того, чтобы он разумно жил, а не для того только, "
    "чтобы он понимал, что он неразумно живет."
)
PIECES = [
    *"abZ_9-.,ßﬁ½ﷺ漢字ひバﾊｶก한ёй😀≮",
    *" \n\0\x1f\x85\u2028\u3000",
    *("ﾊﾞ", "กำ", "e\u0301\u0323", "\u1fb3\u0301", "か\u3099"),
    *"\u0301\u0345\u00ad\u200d\ufeff\u115f\u0378\ue000\ud800",
]
any_text = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=80).map("".join), st.text(max_size=60)
)


@given(any_text)
@example("漢字" * 40 + "-abc" * 40)  # a chunk that is too long to be remembered
def test_by_default_words_are_the_tokens_that_the_kernel_hashes(text: str) -> None:
    assert canonical_words(text) == tokens(text)


@given(any_text)
def test_a_word_taken_from_its_place_reads_the_same(text: str) -> None:
    words = words_with_spans(text)
    assert [word.text for word in words] == canonical_words(text)
    read_too = " \u2801" * 99  # signs that prevail in any part
    assert all(word.text in tokens(text[word.start : word.end] + read_too) for word in words)
    assert all(a.start <= b.start and a.end <= b.end for a, b in pairwise(words))


def test_places_count_characters_of_the_text_as_it_was() -> None:
    words = [Word("ein", 1, 4), Word("e\u0301te\u0301", 5, 9), Word("1", 12, 13), Word("2", 12, 13)]
    assert words_with_spans(" Ein e\u0301té\u00ad, ½!") == words


def test_the_published_example_loses_its_stop_words_and_has_its_checksums() -> None:
    words = canonical_words(REASON, CanonicalOptions(stop_words=("russian",)))
    assert " ".join(words) == (
        "разум дан человеку того чтобы разумно жил того только чтобы понимал неразумно живет"
    )
    sums = [zlib.crc32(" ".join(words[i : i + 10]).encode()) for i in range(len(words) - 9)]
    signed = [value - (value >> 31 << 32) for value in sums]
    assert signed == [1313803605, -1077944445, -2009290115, 1772759749]


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        ({"fold_case": False}, "Ein Haus ﬁel", ["Ein", "Haus", "fiel"]),
        ({"compatibility": False}, "Straße ﬀ x²", ["strasse", "ff", "x²"]),
        ({"compatibility": False, "fold_case": False}, "Straße ﬁ", ["Straße", "ﬁ"]),
        ({"keep_punctuation": True}, "So, e-x\u2026€", ["so", *",e-x...€"]),
        ({"split_unspaced": False}, "漢字 abc漢", ["漢字", "abc漢"]),
        ({"stop_words": ("english",)}, "The cat and I don’t sleep", ["cat", "sleep"]),
        ({"stop_words": ("english",), "fold_case": False}, "The Cat", ["Cat"]),
        ({"stop_words": ("english", "russian")}, "он and the кот", ["кот"]),
        ({"stem": "english"}, "running dogs", ["run", "dog"]),
        ({"stem": "russian"}, "собаками", ["собак"]),
        ({"lemmas": True}, "домами городов", ["дом", "город"]),
        ({"drop_adjectives": True}, "красивый дом больших городов", ["дом", "городов"]),
        ({"synonyms": (("car", "auto"),)}, "an Auto, a car", ["an", "car", "a", "car"]),
        ({"synonyms": (("Auto", "wagons"),), "stem": "english"}, "wagon", ["auto"]),
        ({"synonyms": (("b", "x"), ("c", "x"))}, "x c", ["b", "c"]),
    ],
)
def test_an_option_does_as_it_says(options: dict[str, object], text: str, words: list[str]) -> None:
    assert canonical_words(text, CanonicalOptions.model_validate(options)) == words


def test_a_dictionary_form_is_written_like_every_other_word() -> None:
    assert canonical_words("ёлки, йодом", CanonicalOptions(lemmas=True)) == tokens("ёлка йод")


def test_a_stop_word_of_several_unspaced_characters_drops_none_of_them() -> None:
    assert canonical_words("我々", CanonicalOptions(stop_words=("japanese",))) == ["我", "々"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop_words": ("klingon",)}, "no stop words for 'klingon'"),
        ({"stem": "klingon"}, "no stemmer for 'klingon'"),
        ({"synonyms": (("motor car", "auto"),)}, "single word, not 'motor car'"),
        ({"stem": "russian", "lemmas": True}, "choose one"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CanonicalOptions.model_validate(options)


# ---- sentences ---------------------------------------------------------------------------------


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
