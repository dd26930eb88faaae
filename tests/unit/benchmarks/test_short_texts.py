"""What the preset for short texts finds."""

from __future__ import annotations

from benchmarks import short_texts
from benchmarks.short_texts import LANGUAGES, Change, found_shares
from streamer.analysis.trial import select


def test_the_preset_keeps_what_the_page_of_results_promises() -> None:
    tried = short_texts.measure_preset(pairs=150, seed=99)
    for change, least in short_texts.FOUND_MIN.items():
        assert tried.share(change) >= least, (change, tried)
    for change, most in short_texts.FALSE_MAX.items():
        assert tried.share(change) <= most, (change, tried)


def test_each_change_of_each_language_is_tried() -> None:
    tried = short_texts.measure_preset(pairs=2)
    assert tried.found.keys() == {language.code for language in LANGUAGES}
    assert all(one.keys() == {str(change) for change in Change} for one in tried.found.values())


def test_texts_of_too_few_distinct_words_are_found_only_where_they_are_equal() -> None:
    (preset,) = select(["short-texts"])
    pairs = [("red blue red blue", "red blue red", "near"), ("red blue", "Red: blue", "equal")]
    found = found_shares(pairs, preset.signature, preset.rules, bytes(32))
    assert found == {"near": 0, "equal": 1}
    lower = preset.rules.model_copy(update={"shingles_min": 2})
    assert found_shares(pairs, preset.signature, lower, bytes(32)) == {"near": 1, "equal": 1}
