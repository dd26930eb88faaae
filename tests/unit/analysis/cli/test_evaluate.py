"""The commands `evaluate`, `tune`, `sample` and `score`: what they print, draw and refuse."""

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from streamer.analysis.sample.crawl import Kind, write_crawl
from streamer.analysis.trial import Trial
from streamer.analysis.tuning import rank_bandings
from streamer.config import load_settings
from streamer.errors import InputError
from tests.helpers.commands import refusal, run


def rows_of(output: str) -> list[list[str]]:
    """Return the cells of the lines that begin with bands and rows."""
    return [line.split() for line in output.splitlines() if re.match(r"\s+\d+\s+\d+\s", line)]


def test_it_prints_a_table_a_dataset(labelled: Path) -> None:
    shown = run("evaluate", str(labelled), "--methods", "minhash,exact_content", columns=140)
    for word in ("labelled: duplicates", "exact_content", "ARI"):
        assert word in shown


def test_the_command_prints_json_and_counts_the_words_of_the_dataset(labelled: Path) -> None:
    arguments = ["evaluate", str(labelled), "--methods", "idf_string", "--own-collection"]
    again = labelled.parent / ".." / labelled.parent.name / labelled.name  # counts once
    (trial,) = msgspec.json.decode(run(*arguments, "--json", again), type=list[Trial])
    assert (trial.dataset, trial.method) == ("labelled", "idf_string")


def test_without_weights_the_default_is_the_best_for_its_threshold() -> None:
    shown = run("tune")
    [best, *others] = rows_of(shown)
    assert (best[:2], best[-1]) == (["14", "6"], "*")
    assert "*" not in [row[-1] for row in others]
    assert "* the default" in shown
    assert "--threshold 0.8 --bands 14 --rows 6\n" in shown


def test_the_settings_to_paste_are_those_of_the_best_banding(tmp_path: Path) -> None:
    shown = run("tune", "--threshold", "0.9", "--weight-fp", "0.1")
    best = rank_bandings(0.9, 84, 0.1)[0]
    text = shown.partition("Settings file:\n")[2].partition("Flags:")[0]
    file = tmp_path / "settings.toml"
    file.write_text(text, "utf-8")
    assert tomllib.loads(text) == {"threshold": 0.9, "bands": best.bands, "rows": best.rows}
    assert load_settings(file).bands == best.bands
    assert f"--threshold 0.9 --bands {best.bands} --rows {best.rows}\n" in shown


def test_candidates_are_counted_on_the_sample(tmp_path: Path) -> None:
    kinds = write_crawl(tmp_path / "crawl", 150, seed=3)
    pages = 150 - sum(kinds[kind] for kind in (Kind.INVALID_JSON, Kind.MISSING_BODY, Kind.NOT_TEXT))
    shown = run("tune", "--sample", tmp_path / "crawl", "--best", "2")
    assert f"candidates on the sample of {pages} pages" in " ".join(shown.split())
    for row in rows_of(shown)[2:]:
        candidates, true, _, recall = map(float, row[2:6])
        assert min(candidates, true) > 0
        assert 0.5 < recall <= 1


def test_a_sample_without_pages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text("no page\n", "utf-8")
    with pytest.raises(InputError, match="no page that can be judged"):
        run("tune", "--keep-going", "--sample", tmp_path / "pages.jsonl")


def test_curves_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: no plot")
    file = tmp_path / "curve.svg"
    run("tune", "--plot", file, "--best", "2")
    best = rank_bandings(0.8, 84)[0]
    assert f"{best.bands} x {best.rows}" in file.read_text("utf-8")


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
