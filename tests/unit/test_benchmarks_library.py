"""The benchmark of the corpus in memory, on a tiny input."""

from __future__ import annotations

import io
from itertools import combinations
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import library
from benchmarks.library import MIN_JACCARD
from benchmarks.signing import raw_texts
from benchmarks.subjects import SUBJECTS, Options
from streamer.lab.sample.reference import Shingler, resemblance

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = 60


def test_the_pairs_that_it_counts_are_near_those_of_exact_resemblance() -> None:
    shingler = Shingler()
    exact = [shingler.exact(text.decode()) for text in raw_texts(TEXTS)]
    values = [resemblance(one, other) for one, other in combinations(exact, 2)]
    found = library.measure(TEXTS, rounds=1)
    assert found.texts == TEXTS
    at_least = sum(value >= MIN_JACCARD - 0.05 for value in values)
    surely = sum(value >= MIN_JACCARD + 0.1 for value in values)
    assert 0 < surely <= found.edges <= at_least
    assert found.build_rate > 0
    assert 3000 < found.mean_bytes < 6000


def test_it_is_a_subject_whose_table_has_the_target(tmp_path: Path) -> None:
    (subject,) = [one for one in SUBJECTS if one.name == "library"]
    result = subject.measure(Options(folder=tmp_path, library_texts=20))
    assert isinstance(result, library.Library)
    text = io.StringIO()
    for part in subject.shown(result):
        Console(file=text, width=100).print(part)
    assert "10,000" in text.getvalue()
    assert "texts/s to build" in text.getvalue()
