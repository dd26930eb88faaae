"""What the methods of sentences make of a page, by their definitions."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import SettingsError
from streamer.sketch.method import ABSENT_KEY, PageText, similarity_of
from streamer.sketch.methods.sentences import Segments, cut
from tests.unit.sketch.methods.test_lexical import made

# ---- page vector -------------------------------------------------------------------------------


# ---- segments ----------------------------------------------------------------------------------


TEXT = " ".join(f"w{n}" for n in range(100))


@given(st.lists(st.text(max_size=3), max_size=50), st.integers(1, 20))
def test_pieces_hold_all_parts_in_order_and_are_of_like_size(parts: list[str], pieces: int) -> None:
    result = cut(parts, pieces)
    assert list(chain.from_iterable(result)) == parts
    sizes = [len(piece) for piece in result]
    assert len(sizes) == pieces
    assert max(sizes) - min(sizes) <= 1


def test_a_page_is_cut_between_sentences_by_that_rule() -> None:
    page = PageText("One two three. Four five?\nSix seven eight nine... Ten, eleven!")
    strings = made(Segments, segments=2, equal=1, rule="sentences", min_words=2).strings(page)
    assert strings == ["one two three four five", "six seven eight nine ten eleven"]


def test_a_short_page_has_fewer_pieces() -> None:
    one = made(Segments, segments=10, min_words=5)
    assert one.strings(PageText(" ".join(TEXT.split()[:12]))) == [
        "w0 w1 w2 w3 w4 w5",
        "w6 w7 w8 w9 w10 w11",
    ]
    assert one.strings(PageText("four words are few")) == []


def test_a_sentence_with_few_words_is_a_piece_without_a_key() -> None:
    one = made(Segments, segments=3, equal=1, rule="sentences", min_words=3)
    keys = one.sign(PageText("Home. A sentence of five words. Another one of them.")).keys
    assert [key == ABSENT_KEY for key in keys] == [True, False, False]


def test_a_change_in_one_place_costs_one_piece_of_ten() -> None:
    one = made(Segments)
    a, b = one.sign(PageText(TEXT)), one.sign(PageText(TEXT.replace("w42", "other")))
    assert similarity_of(one.measure, a.sketch, b.sketch) == 0.9
    equal = [x == y for x, y in zip(a.keys, b.keys, strict=True)]
    assert equal == [n != 4 for n in range(10)]


@pytest.mark.parametrize("equal", range(1, 8))
def test_m_equal_pieces_of_n_make_a_duplicate_and_fewer_do_not(equal: int) -> None:
    one = made(Segments, segments=7, equal=equal)
    a = one.sign(PageText(TEXT)).sketch
    for changed, duplicate in ((7 - equal, True), (8 - equal, False)):
        words = TEXT.split()
        for piece in range(changed):
            words[100 * piece // 7] = "other"
        b = one.sign(PageText(" ".join(words))).sketch
        assert (similarity_of(one.measure, a, b) >= one.threshold) is duplicate


def test_more_equal_pieces_than_there_are_is_an_error() -> None:
    with pytest.raises(SettingsError, match="at most that"):
        made(Segments, segments=4)


def test_equal_pieces_at_different_places_have_different_keys() -> None:
    one = made(Segments, segments=2, equal=1, min_words=1)
    first, second = one.sign(PageText("same words same words")).keys
    assert first != second
