"""The same text has the same tokens under each version of Unicode that Python may have."""

import unicodedata
from types import ModuleType

import pytest
import unicodedata2

from streamer.text import canonical
from streamer.text.canonical import CODE_POINTS, UNICODE, category, class_of, fold, is_assigned

# What Unicode 18.0 says otherwise of a character that 14.0 had. Neither is of another class.
CHANGED = {"\u0295": ("Ll", "Lo"), "\U0001171e": ("Mn", "Mc")}


def _characters() -> list[str]:
    return [*filter(is_assigned, map(chr, range(CODE_POINTS)))]


def test_what_is_assigned_is_what_unicode_14_assigned() -> None:
    there = [c for c in map(chr, range(CODE_POINTS)) if unicodedata.category(c) != "Cn"]
    assert {*_characters()} <= {*there}
    if unicodedata.unidata_version.startswith(UNICODE):
        assert _characters() == there


def test_later_versions_move_no_character_between_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unicodedata2.unidata_version.startswith("18.")
    characters = _characters()
    own = [(class_of(c), unicodedata.combining(c), fold(c)) for c in characters]
    kinds = dict(zip(characters, map(category, characters), strict=True))
    later: ModuleType = unicodedata2
    monkeypatch.setattr(canonical, "unicodedata", later)
    assert [(class_of(c), later.combining(c), fold(c)) for c in characters] == own
    changed = {c: (kinds[c], category(c)) for c in characters if kinds[c] != category(c)}
    assert changed.items() <= CHANGED.items()


@pytest.mark.parametrize("code_point", [0x1E4D0, 0x1C89, 0x10D40, 0x31350])
def test_a_character_that_came_later_is_unassigned(code_point: int) -> None:
    character = chr(code_point)
    assert (category(character), fold(character)) == ("Cn", character)
    assert class_of(character) == canonical.SEPARATOR
