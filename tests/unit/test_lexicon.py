from __future__ import annotations

from typing import Any

import pytest

from streamer.errors import SettingsError
from streamer.sketch.method import ABSENT_KEY, PageText, similarity_of
from streamer.sketch.methods.lexical import Lexicon, RandomLexicon
from streamer.sketch.scheme import method

SECRET = bytes(range(32))
MIDDLE = "bridge captain harbour lantern orchard pumpkin rainbow trumpet village window"


def lexicon(**parameters: Any) -> Lexicon:
    one = method("lexicon", parameters, SECRET)
    assert isinstance(one, Lexicon)
    return one


def random_lexicon(**parameters: Any) -> RandomLexicon:
    one = method("random_lexicon", parameters, SECRET)
    assert isinstance(one, RandomLexicon)
    return one


def test_words_of_middle_frequency_are_joined_by_alphabet() -> None:
    page = PageText("The window, a bridge, an incomprehensible village and the bridge's captain")
    assert lexicon(min_words=1).string(page) == "bridge captain village window"


def test_shares_at_both_ends_of_the_dictionary_belong_to_it() -> None:
    page = PageText("four sixsix eightsix elevenletter")  # 1/8, 1/32, 1/128, 1/2048
    parameters = {"least_share": 1 / 128, "most_share": 1 / 32, "min_words": 1}
    assert lexicon(**parameters).string(page) == "eightsix sixsix"


def test_a_word_counts_from_its_least_number_of_occurrences_on() -> None:
    page = PageText("bridge village bridge window bridge village")
    assert lexicon(occurrences=2, min_words=1).string(page) == "bridge village"


def test_a_page_with_too_few_words_of_the_dictionary_has_no_key() -> None:
    one = lexicon(min_words=3)
    assert one.sign(PageText("bridge window and so on")).keys == [ABSENT_KEY]
    assert one.sign(PageText("bridge window village and so on")).keys != [ABSENT_KEY]


def test_a_dictionary_without_room_is_an_error() -> None:
    with pytest.raises(SettingsError, match="no word lies between"):
        lexicon(least_share=0.5, most_share=0.1)


def test_each_part_lacks_about_a_third_of_the_words_and_the_first_has_all() -> None:
    words = [f"word{a}{b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst"]
    whole, *parts = random_lexicon().strings(PageText(" ".join(words)))
    assert whole.split() == sorted(words)
    assert len(parts) == 10
    assert len(set(parts)) == 10
    for part in parts:
        kept = part.split()
        assert kept == [word for word in sorted(words) if word in set(kept)]
        assert 210 <= len(kept) <= 320  # 400 * 2/3 = 267, five standard deviations of 9.4 about


def test_a_word_is_in_a_part_whatever_else_the_page_has() -> None:
    one = random_lexicon(min_words=1)
    together = one.strings(PageText(MIDDLE))
    alone = [one.strings(PageText(word)) for word in MIDDLE.split()]
    for part in range(one.bands):
        assert together[part].split() == [a[part] for a in alone if a[part]]


def test_one_changed_word_spares_the_parts_that_lack_it() -> None:
    one = random_lexicon(min_words=1)
    page, changed = PageText(MIDDLE), PageText(MIDDLE.replace("window", "wisdom"))
    a, b = one.sign(page), one.sign(changed)
    pairs = zip(one.strings(page), one.strings(changed), strict=True)
    spared = [x == y for x, y in pairs]
    assert any(spared)
    assert not all(spared)
    assert [x == y for x, y in zip(a.keys, b.keys, strict=True)] == spared
    assert similarity_of(one.measure, a.sketch, b.sketch) == int(10_000 * sum(spared) / 11) / 10_000
    assert similarity_of(one.measure, a.sketch, b.sketch) >= one.threshold


def test_equal_strings_of_two_parts_have_different_keys() -> None:
    one = random_lexicon(min_words=1, dropped=0.001)
    assert len(set(one.strings(PageText(MIDDLE)))) < one.bands
    keys = one.sign(PageText(MIDDLE)).keys
    assert len(set(keys)) == one.bands


def test_a_single_equal_part_of_the_most_parts_reaches_the_threshold() -> None:
    one = random_lexicon(parts=31)
    a = one.sign(PageText(MIDDLE)).sketch
    b = a.copy()
    b[2:33] ^= 1  # all slots of 64 bits but the first
    assert similarity_of(one.measure, a, b) >= one.threshold
    b[1] ^= 1
    assert similarity_of(one.measure, a, b) < one.threshold
