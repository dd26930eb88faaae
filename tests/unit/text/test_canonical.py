"""Where tokens begin and end, in the plain form that defines it."""

from __future__ import annotations

import unicodedata

import pytest

from streamer.text.canonical import (
    CLASS_SHIFT,
    CODE_POINTS,
    EXPANDED,
    IGNORED,
    canonical_table,
    class_of,
    fold,
    is_ignorable,
)
from streamer.text.tokens import SPARE, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []), (" .,;!?\t\n\0", []), ("Hello, World", ["hello", "world"]),
        ("snake_case x2", ["snake_case", "x2"]), ("don't e-mail", ["don", "t", "e", "mail"]),
        ("漢字です", ["漢", "字", "て\u3099", "す"]), ("ไทย", ["ไ", "ท", "ย"]),
        ("ラーメン2杯", ["ラ", "ー", "メ", "ン", "2", "杯"]), ("abc漢def", ["abc", "漢", "def"]),
        ("한국어", [unicodedata.normalize("NFD", "한국어")]), ("\u0301abc", ["abc"]),
        ("co\u00adop\u200bera\u2060tion", ["cooperation"]), ("½", ["1", "2"]),
        ("e\u0301\u0323", ["e\u0323\u0301"]),
    ],
)  # fmt: skip
def test_a_text_has_these_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_folding_twice_changes_nothing_more() -> None:
    changed = [
        c
        for c in range(0x34000)
        if not 0xD800 <= c < 0xE000 and (once := fold(chr(c))) != "".join(map(fold, once))
    ]
    assert changed == []


def test_the_table_is_what_the_rules_say_of_each_code_point_alone() -> None:
    table = canonical_table()
    entries, sequences, combining = (column.tolist() for column in table)
    wrong, expanded = [], 0
    for code_point in range(CODE_POINTS):
        character, found = chr(code_point), entries[code_point]
        category = unicodedata.category(character)
        if is_ignorable(code_point):
            expected = [IGNORED << CLASS_SHIFT]
        elif category in {"Cn", "Cs", "Co"}:
            expected = [0]
        else:
            expected = [class_of(c) << CLASS_SHIFT | ord(c) for c in fold(character)] or [0]
            if combining[code_point] != unicodedata.combining(character):
                wrong.append(code_point)
        if found >> CLASS_SHIFT == EXPANDED:
            at = found - (EXPANDED << CLASS_SHIFT)
            same = sequences[at : at + 1 + sequences[at]] == [len(expected), *expected]
            expanded += 1 + len(expected)
        else:
            same = [found] == expected
        if not same:
            wrong.append(code_point)
    assert wrong == []
    assert expanded == len(sequences)


def test_no_code_point_expands_to_more_tokens_than_the_kernel_has_room_for() -> None:
    sequences, at, longest = canonical_table().sequences.tolist(), 0, 0
    while at < len(sequences):
        longest = max(longest, sequences[at])
        at += 1 + sequences[at]
    assert 1 < longest < SPARE


def test_default_ignorable_code_points_vanish_and_their_neighbours_stay() -> None:
    for code_point in (0xAD, 0x34F, 0x200B, 0x200D, 0x202E, 0x2060, 0xFE0F, 0xFEFF, 0xE0041):
        assert is_ignorable(code_point)
        assert tokens(f"one{chr(code_point)}two") == ["onetwo"], hex(code_point)
    neighbours = (0xAC, 0xAE, 0x200A, 0x2010, 0x2029, 0x2070, 0xFE10, 0xE1000)
    assert [each for each in neighbours if is_ignorable(each)] == []
