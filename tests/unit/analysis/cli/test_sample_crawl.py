from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from streamer.analysis.cli.sample_crawl import sample, score

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer()
app.command()(sample)
app.command()(score)
runner = CliRunner()


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Write a crawl and verdicts that call all pages unique but the second a copy of the first."""
    folder = tmp_path / "crawl"
    result = runner.invoke(app, ["sample", str(folder), "--pages", "60", "--seed", "4"])
    assert result.exit_code == 0, result.output
    lines = (folder / "truth.tsv").read_text("utf-8").splitlines()[1:]
    place = {"topic": "pages.jsonl", "partition": 0}
    rows = [line.split("\t") for line in lines]
    verdicts = []
    for ordinal, row in enumerate(rows):
        page = {"page": {**place, "offset": ordinal}, "url": row[1]}
        if row[2] == "exact_copy":
            origin = {"page": {**place, "offset": int(row[3])}, "url": row[4]}
            verdicts.append({**page, "verdict": "duplicate", "representative": origin})
        else:
            verdicts.append({**page, "verdict": "unique"})
    text = "".join(json.dumps(verdict) + "\n" for verdict in verdicts)
    (folder / "verdicts.jsonl").write_text(text, "utf-8")
    return folder


def test_sample_says_in_one_line_what_it_wrote(tmp_path: Path) -> None:
    result = runner.invoke(app, ["sample", str(tmp_path / "a"), "--pages", "7"])
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert "7 records" in result.stdout
    assert len((tmp_path / "a" / "pages.jsonl").read_bytes().splitlines()) == 7


def test_score_prints_one_json_object(crawl: Path) -> None:
    files = [str(crawl / "pages.jsonl"), str(crawl / "verdicts.jsonl")]
    result = runner.invoke(app, ["score", *files, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    copies = report["kinds"]["exact_copy"]
    assert copies["pages"] == copies["duplicates"] == report["all"]["duplicates"] > 0
    assert 0 < report["all"]["recall"] < 1
    assert report["clusters"][0]["size"] >= 2
    nothing = [one for one in report["kinds"].values() if not one["duplicates"]]
    assert nothing
    assert {one["precision"] for one in nothing} == {None}


def test_score_prints_tables_with_the_kinds_and_the_largest_clusters(crawl: Path) -> None:
    files = [str(crawl / "pages.jsonl"), str(crawl / "verdicts.jsonl")]
    result = runner.invoke(app, ["score", *files], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    of_nothing = next(
        line for line in result.stdout.splitlines() if line.split()[:1] == ["original"]
    )
    assert of_nothing.split()[-3:] == ["-", "-", "-"]
    for word in ("precision", "session_mirror", "outside the margin", "largest clusters"):
        assert word in result.stdout


def test_a_folder_of_pages_is_scored_like_its_file(crawl: Path) -> None:
    verdicts = str(crawl.parent / "verdicts.jsonl")
    (crawl / "verdicts.jsonl").rename(verdicts)
    by_folder = runner.invoke(app, ["score", str(crawl), verdicts, "--json"])
    by_file = runner.invoke(app, ["score", str(crawl / "pages.jsonl"), verdicts, "--json"])
    assert by_folder.exit_code == 0, by_folder.output
    assert by_folder.stdout == by_file.stdout


def test_kinds_are_left_out_where_there_is_no_truth_file(crawl: Path) -> None:
    (crawl / "truth.tsv").unlink()
    files = [str(crawl / "pages.jsonl"), str(crawl / "verdicts.jsonl")]
    result = runner.invoke(app, ["score", *files, "--json"])
    assert json.loads(result.stdout)["kinds"] == {}
