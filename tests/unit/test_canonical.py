"""Where tokens begin and end, in the plain form that defines it."""

from __future__ import annotations

import unicodedata

import pytest

from streamer.text.canonical import canonical_table, fold, is_ignorable
from streamer.text.tokens import SPARE, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .,;!?\t\n\0", []),
        ("Hello, World", ["hello", "world"]),
        ("snake_case x2", ["snake_case", "x2"]),
        ("don't e-mail", ["don", "t", "e", "mail"]),
        ("漢字です", ["漢", "字", "て\u3099", "す"]),
        ("ラーメン2杯", ["ラ", "ー", "メ", "ン", "2", "杯"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("한국어", [unicodedata.normalize("NFD", "한국어")]),
        ("abc漢def", ["abc", "漢", "def"]),
        ("co\u00adop\u200bera\u2060tion", ["cooperation"]),
        ("\u0301abc", ["abc"]),
        ("½", ["1", "2"]),
        ("e\u0301\u0323", ["e\u0323\u0301"]),
    ],
)
def test_a_text_has_these_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_folding_twice_changes_nothing_more() -> None:
    changed = [
        c
        for c in range(0x34000)
        if not 0xD800 <= c < 0xE000 and (once := fold(chr(c))) != "".join(map(fold, once))
    ]
    assert changed == []


def test_no_code_point_expands_to_more_tokens_than_the_kernel_has_room_for() -> None:
    sequences, at, longest = canonical_table().sequences.tolist(), 0, 0
    while at < len(sequences):
        longest = max(longest, sequences[at])
        at += 1 + sequences[at]
    assert 1 < longest < SPARE


@pytest.mark.parametrize(
    "code_point", [0xAD, 0x34F, 0x200B, 0x200D, 0x202E, 0x2060, 0xFE0F, 0xFEFF, 0xE0041, 0xE0FFF]
)
def test_a_default_ignorable_code_point_vanishes(code_point: int) -> None:
    assert is_ignorable(code_point)
    assert tokens(f"one{chr(code_point)}two") == ["onetwo"]


@pytest.mark.parametrize(
    "code_point", [0xAC, 0xAE, 0x200A, 0x2010, 0x2029, 0x2070, 0xFE10, 0xE1000]
)
def test_the_neighbours_of_ignorable_ranges_stay(code_point: int) -> None:
    assert not is_ignorable(code_point)
