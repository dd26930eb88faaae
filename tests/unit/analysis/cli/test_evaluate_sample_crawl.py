import json
from pathlib import Path

import pytest

from tests.helpers.commands import refusal, run


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Write a crawl, and next to it its verdicts by equal content only: others are missed."""
    folder = tmp_path / "crawl"
    run("sample", folder, "--pages", "60", "--seed", "4")
    run("replay", folder, "--verdicts", tmp_path / "verdicts.jsonl", "--method", "exact_content")
    return folder


def score(crawl: Path, *options: str, columns: int | None = None) -> str:
    verdicts = crawl.parent / "verdicts.jsonl"
    return run("score", crawl / "pages.jsonl", verdicts, *options, columns=columns)


def test_sample_says_in_one_line_what_it_wrote(tmp_path: Path) -> None:
    reported = run("sample", tmp_path / "a", "--pages", "7")
    assert reported.count("\n") == 1
    assert "7 records" in reported
    assert len((tmp_path / "a" / "pages.jsonl").read_bytes().splitlines()) == 7


def test_pages_of_somebody_else_are_not_replaced(tmp_path: Path) -> None:
    (pages := tmp_path / "pages.jsonl").write_bytes(b"not a sample")
    error, _ = refusal("sample", tmp_path, "--pages", 7)
    assert "was not made as a sample. Name another folder" in str(error)
    assert pages.read_bytes() == b"not a sample"
    run("sample", tmp_path / "a", "--pages", 7)
    run("sample", tmp_path / "a", "--pages", 5)
    assert len((tmp_path / "a" / "pages.jsonl").read_bytes().splitlines()) == 5


def test_score_prints_one_json_object(crawl: Path) -> None:
    report = json.loads(score(crawl, "--json"))
    copies = report["kinds"]["recoded"]  # which have equal text as exact copies do
    assert (copies["pages"], copies["recall"]) == (copies["duplicates"], 1.0)
    for count in ("pages", "duplicates"):
        assert sum(one[count] for one in report["kinds"].values()) == report["all"][count] > 0
    assert 0 < report["all"]["recall"] < 1
    assert report["clusters"][0]["size"] >= 2
    nothing = [one for one in report["kinds"].values() if not one["duplicates"]]
    assert nothing
    assert {one["precision"] for one in nothing} == {None}


def test_score_prints_tables_with_the_kinds_and_the_largest_clusters(crawl: Path) -> None:
    reported = score(crawl, columns=120)
    of_nothing = next(line for line in reported.splitlines() if line.split()[:1] == ["original"])
    assert of_nothing.split()[-3:] == ["-", "-", "-"]
    for word in ("precision", "session_mirror", "outside the margin", "largest clusters"):
        assert word in reported


def test_a_folder_of_pages_is_scored_like_its_file(crawl: Path) -> None:
    by_folder = run("score", crawl, crawl.parent / "verdicts.jsonl", "--json")
    assert by_folder == score(crawl, "--json")


def test_kinds_are_left_out_where_there_is_no_truth_file(crawl: Path) -> None:
    (crawl / "truth.tsv").unlink()
    reported = score(crawl, "--json")
    assert json.loads(reported)["kinds"] == {}
