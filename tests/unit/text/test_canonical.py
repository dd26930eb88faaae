"""Where tokens begin and end, in the plain form that defines it."""

# ruff: noqa: RUF001 - letters that look alike are what these tests are about

import unicodedata

import pytest

from streamer.text import canonical
from streamer.text.canonical import CLASS_SHIFT, canonical_table, category, fold, is_ignorable
from streamer.text.tokens import SPARE, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []), (" \ufffd\t\n\0", []), ("Hello, World", ["hello", "world"]),
        ("snake_case x2", ["snake_case", "x2"]), ("don't e-mail", ["don", "t", "e", "mail"]),
        ("漢字です", ["漢", "字", "て\u3099", "す"]), ("ไทย", ["ไ", "ท", "ย"]),
        ("ラーメン2杯", ["ラ", "ー", "メ", "ン", "2", "杯"]), ("abc漢def", ["abc", "漢", "def"]),
        ("한국어", [unicodedata.normalize("NFD", "한국어")]), ("\u0301abc", ["abc"]),
        ("co\u00adop\u200bera\u2060tion", ["cooperation"]), ("½", ["1", "2"]),
        ("e\u0301\u0323", ["e\u0323\u0301"]), ("\u2801\u2802 :-)", ["\u2801", "\u2802", *":-)"]),
        ("\u2801\u2802 p", ["\u2801", "\u2802", "p"]), ("a. b.", ["a", "b"]),
        ("\u2026\ufffd\ue000", [".", ".", ".", "\ue000"]), ("\U00010d40", ["\U00010d40"]),
    ],
)  # fmt: skip
def test_a_text_has_these_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("می‌توانم کتاب‌های یکدیگر ۱۲", "مي‌توانم كتاب‌هاي يكديگر ١٢"),
        ("كَتَبَ الوَلَدُ الدَّرْسَ", "كتب الولـــد الدرس"),
        ("שָׁלוֹם עֲלֵיכֶם", "שלום עליכם"),
        ("п’ять сім’ям об'єднання", "п\u02bcять сім\u02bcям об\u02bcєднання"),
        ("o‘zbek g'oya", "o\u02bbzbek g\u02bboya"),
    ],
)
def test_what_is_typed_in_two_ways_or_left_out_tells_no_texts_apart(one: str, other: str) -> None:
    assert one != other
    assert tokens(one) == tokens(other)


def test_hamza_and_madda_are_parts_of_letters() -> None:
    assert len({*map(str, map(tokens, ("ا", "أ", "آ", "إ", "ي", "ئ")))}) == 6


def test_folding_twice_changes_nothing_more() -> None:
    changed = [
        c
        for c in range(0x34000)
        if not 0xD800 <= c < 0xE000 and (once := fold(chr(c))) != "".join(map(fold, once))
    ]
    assert changed == []


@pytest.mark.parametrize("signs", [False, True])
def test_the_table_is_what_the_rules_say_of_each_code_point_alone(*, signs: bool) -> None:
    table = canonical.sign_table() if signs else canonical_table()
    entries, sequences, combining = (column.tolist() for column in table)
    wrong, expanded = [], 0

    def entry(character: str) -> int:
        kind, value = canonical.class_of(character), ord(character)
        if signs and kind == canonical.SEPARATOR and canonical.is_sign(character):
            kind = canonical.UNSPACED
        elif category(character) in {"Cn", "Cs", "Co"}:
            value = 0
        return kind << CLASS_SHIFT | value

    for code_point in range(canonical.CODE_POINTS):
        character, found = chr(code_point), entries[code_point]
        if is_ignorable(code_point):
            expected = [canonical.IGNORED << CLASS_SHIFT]
        else:
            expected = [*map(entry, fold(character))] or [canonical.IGNORED << CLASS_SHIFT]
            if category(character)[0] == "M":
                wrong += [code_point] * (combining[code_point] != unicodedata.combining(character))
        if found >> CLASS_SHIFT == canonical.EXPANDED:
            at = found - (canonical.EXPANDED << CLASS_SHIFT)
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
