"""Pairs of short texts, and what the preset for them finds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import short_texts
from benchmarks.short_texts import (
    LANGUAGES,
    WORDS_MAX,
    WORDS_MIN,
    Change,
    found_shares,
    short_pairs,
)
from streamer.analysis.sample.prose import ENGLISH, Language
from streamer.analysis.sample.reference import tokens
from streamer.analysis.trial import select
from streamer.cli.main import app


def test_pairs_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    assert list(short_pairs(ENGLISH, 3, seed=1)) == list(short_pairs(ENGLISH, 3, seed=1))
    assert list(short_pairs(ENGLISH, 3, seed=1)) != list(short_pairs(ENGLISH, 3, seed=2))


@pytest.mark.parametrize(
    ("change", "least", "most"),
    [(Change.ONE_WORD, 1, 1), (Change.TWO_WORDS, 1, 2), (Change.HALF, 3, WORDS_MAX // 2)],
)
def test_a_pair_differs_in_as_many_words_as_its_change_says(
    change: Change, least: int, most: int
) -> None:
    for pair in short_pairs(ENGLISH, 60):
        if pair.change is change:
            one, other = Counter(tokens(pair.one)), Counter(tokens(pair.other))
            assert WORDS_MIN <= pair.words == one.total() <= WORDS_MAX
            assert max((one - other).total(), (other - one).total()) <= most
            assert pair.one != pair.other
            if change is Change.HALF:
                places = zip(tokens(pair.one), tokens(pair.other), strict=True)
                assert least <= sum(a != b for a, b in places) == max(3, pair.words // 2)


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


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.code)
def test_a_pair_is_found_as_a_stream_of_it_finds_it(language: Language, tmp_path: Path) -> None:
    (selected,) = select(["short-texts"])
    pairs = [pair for pair in short_pairs(language, 4) if pair.change is not Change.OTHER]
    key = tmp_path / "key"
    key.write_text(bytes(32).hex())
    key.chmod(0o600)
    lines = [
        json.dumps({"url": f"{part}{number}", "body": getattr(pair, part)})
        for number, pair in enumerate(pairs)
        for part in ("one", "other")
    ]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines), "utf-8")
    arguments = ["replay", str(tmp_path / "pages.jsonl"), "--method", "short-texts"]
    arguments += ["--verdicts", str(tmp_path / "v.jsonl"), "--key-file", str(key)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    verdicts = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    of = {one["url"]: (one["representative"] or {}).get("url") for one in verdicts}
    streamed = {number: of[f"other{number}"] == f"one{number}" for number in range(len(pairs))}
    numbered = ((pair.one, pair.other, number) for number, pair in enumerate(pairs))
    found = found_shares(numbered, selected.signature, selected.rules, bytes(32))
    assert streamed == {number: bool(share) for number, share in found.items()}
    assert {True, False} == set(streamed.values())
