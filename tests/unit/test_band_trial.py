"""Candidates on a sample: the pairs of a banding against a plain count, and true against false."""

from __future__ import annotations

import json
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import InputError
from streamer.lab.tuning import BandTrial, candidate_pairs, try_bandings
from streamer.pages.files import open_sources

if TYPE_CHECKING:
    from pathlib import Path


def plain_pairs(keys: list[list[int]], bucket_max: int) -> set[tuple[int, int]]:
    """Return (later, earlier) of the pages that share a key, the first ones of a bucket only."""
    pairs = set()
    for band in range(len(keys[0]) if keys else 0):
        buckets: dict[int, list[int]] = {}
        for page, row in enumerate(keys):
            bucket = buckets.setdefault(row[band], [])
            pairs |= {(page, other) for other in bucket}
            if len(bucket) < bucket_max:
                bucket.append(page)
    return pairs


@given(
    st.integers(1, 3).flatmap(
        lambda bands: st.lists(
            st.lists(st.sampled_from([0, 1, 5, 2**64 - 1]), min_size=bands, max_size=bands),
            min_size=1,
            max_size=25,
        )
    ),
    st.integers(1, 4),
)
def test_pairs_are_those_of_earlier_pages_in_a_bucket(
    keys: list[list[int]], bucket_max: int
) -> None:
    found = candidate_pairs(np.array(keys, np.uint64), bucket_max).tolist()
    assert {(pair >> 32, pair & 0xFFFF_FFFF) for pair in found} == plain_pairs(keys, bucket_max)
    assert found == sorted(set(found))


def words(rng: Random, count: int) -> list[str]:
    return [f"w{rng.randrange(1_000_000)}" for _ in range(count)]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Write 30 originals; of each a copy with resemblance near 0.9, and one with 0.3 and less."""
    rng = Random(1)
    texts = []
    for _ in range(30):
        text = words(rng, 200)
        texts += [text, [*text[:190], *words(rng, 10)], [*text[:90], *words(rng, 110)]]
    texts.append(["too", "short"])
    path = tmp_path / "sample.jsonl"
    lines = (
        json.dumps({"url": f"https://a.example/{number}", "body": " ".join(text)})
        for number, text in enumerate(texts)
    )
    path.write_text("\n".join(lines) + "\n\n", "utf-8")
    return path


def test_true_candidates_false_ones_and_missed_ones_are_told_apart(sample: Path) -> None:
    read: list[int] = []
    sources = open_sources([str(sample)]).sources
    bandings = [(42, 1), (14, 6), (1, 32)]
    trials = try_bandings(sources, bandings, 0.8, progress=read.append)
    many, fair, few = trials
    assert [(trial.bands, trial.rows) for trial in trials] == bandings
    assert {trial.pages for trial in trials} == {91}
    assert (many.true, many.missed) == (30, 0)
    assert many.false >= 30  # the copies at 0.3 share one of 42 min-hashes
    assert fair.recall is not None
    assert fair.recall >= 0.95
    assert fair.false <= 5
    assert few.true + few.missed == 30
    assert few.missed > 0
    assert read[-1] == sample.stat().st_size


def test_what_no_asked_banding_finds_is_known_to_be_missed(sample: Path) -> None:
    (trial,) = try_bandings(open_sources([str(sample)]).sources, [(1, 32)], 0.8)
    assert trial.true + trial.missed == 30
    assert trial.missed > 0


def test_ratios_are_of_pages_and_of_known_pairs() -> None:
    trial = BandTrial(14, 6, pages=100, candidates=50, true=30, missed=10)
    assert (trial.candidates_a_page, trial.false, trial.recall) == (0.5, 20, 0.75)
    empty = BandTrial(14, 6, pages=0, candidates=0, true=0, missed=0)
    assert (empty.candidates_a_page, empty.recall) == (0.0, None)


def test_a_sample_without_pages_gives_empty_trials(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("", "utf-8")
    (trial,) = try_bandings(open_sources([str(path)]).sources, [(14, 6)], 0.8)
    assert (trial.pages, trial.candidates, trial.true, trial.missed) == (0, 0, 0, 0)


def test_a_sample_that_is_gone_is_an_error_with_its_name(sample: Path) -> None:
    sources = open_sources([str(sample)]).sources
    sample.unlink()
    with pytest.raises(InputError, match=r"sample\.jsonl"):
        try_bandings(sources, [(14, 6)], 0.8)


def test_the_pairs_of_the_plain_count_are_all_pairs_where_a_bucket_holds_all() -> None:
    assert plain_pairs([[7]] * 5, 64) == {(b, a) for a, b in combinations(range(5), 2)}
