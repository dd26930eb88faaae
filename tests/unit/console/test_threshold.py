from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamer.analysis.marks import MarkFile, PageOfPair, PairMark
from streamer.console.answers import ConsoleData
from streamer.console.threshold import ThresholdQuery, threshold
from streamer.model import NearestKept, Verdict
from tests.helpers.verdict_lines import duplicate, place, unique, url_of
from tests.unit.console.conftest import folded


def near(offset: int, similarity: float) -> Verdict:
    kept = NearestKept(place(0), url_of(0), similarity=similarity)
    return unique(offset, nearest=kept, nearest_min=0.65)


def test_another_threshold_has_its_duplicates_and_examples(data: ConsoleData) -> None:
    found = threshold(data, ThresholdQuery(0.9))
    assert (found.least, found.duplicates, found.reaching, found.content) == (0.82, 16, 8, 0)
    assert [each.similarity for each in found.above] == [0.9, 0.91, 0.92, 0.93, 0.94]
    assert [each.similarity for each in found.below] == [0.89, 0.88, 0.87, 0.86, 0.85]
    assert sum(bar.pages for bar in found.histogram) == 16
    assert threshold(data, ThresholdQuery()).at == 0.82


def test_below_the_threshold_of_the_run_near_misses_are_counted(tmp_path: Path) -> None:
    lines = [
        unique(0), duplicate(1, of=0, similarity=0.85), near(2, 0.79), near(3, 0.7), near(4, 0.66),
        unique(5, nearest=None, nearest_min=0.65),
    ]  # fmt: skip
    with folded(tmp_path, *lines) as data:
        found = threshold(data, ThresholdQuery(0.7))
        assert (found.near, found.near_min, found.reaching) == (2, 0.65, 1)
        assert [each.similarity for each in found.above] == [0.7, 0.79, 0.85]
        assert [each.similarity for each in found.below] == [0.66]
        assert [(bar.least, bar.pages) for bar in found.near_misses] == [
            (0.66, 1), (0.7, 1), (0.79, 1),
        ]  # fmt: skip
        assert [each.mark for each in found.above] == [None] * 3


def test_a_run_without_near_misses_has_none(tmp_path: Path) -> None:
    with folded(tmp_path, unique(0), duplicate(1, of=0)) as data:
        found = threshold(data, ThresholdQuery(0.5))
    assert (found.near, found.near_min, found.near_misses) == (0, None, [])


def test_examples_have_the_marks_of_people(tmp_path: Path, data: ConsoleData) -> None:
    marks = MarkFile(tmp_path / "marks.tsv")
    one, other = (PageOfPair(url_of(n), f"pages.jsonl:{n}") for n in (10, 0))
    marks.append(PairMark(one, other, "different"))
    found = threshold(replace(data, marks=marks), ThresholdQuery(0.9))
    assert [each.mark for each in found.above] == ["different", "", "", "", ""]
    (tmp_path / "marks.tsv").write_text("one\tother\n", "utf-8")  # the view stays
    found = threshold(replace(data, marks=marks), ThresholdQuery(0.9))
    assert [each.mark for each in found.above] == [None] * 5
    assert found.warning.startswith("Marks are not shown.")
