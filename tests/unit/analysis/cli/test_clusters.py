"""The command `clusters`: its outputs, its warnings and what it refuses."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import Result

from streamer.errors import SettingsError
from tests.helpers.commands import invoked, run
from tests.unit.analysis.test_clusters import verdict, write


@pytest.fixture
def verdicts(tmp_path: Path) -> Path:
    """Write 20 verdicts; the last twelve pages are duplicates of the first, one by https."""
    said = [verdict(n) for n in range(8)]
    said += [verdict(n, of=0) for n in range(8, 19)]
    return write(tmp_path / "verdicts.jsonl", [*said, verdict(19, 0, "https://a.example/19")])


def summary_of(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stderr.splitlines()]


def test_json_lines_go_to_standard_output_and_the_summary_beside_it(verdicts: Path) -> None:
    result = invoked("clusters", verdicts)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == 13
    assert [line["url"] for line in lines if line["survivor"]] == ["http://a.example/0"]
    assert summary_of(result)[:6] == [
        "verdicts 20", "of duplicates 12", "clusters 1", "pages in them 13",
        "pages to drop 12", "largest cluster 13",
    ]  # fmt: skip


def test_the_output_is_csv_by_its_ending(verdicts: Path) -> None:
    out = verdicts.with_name("out.CSV")
    assert run("clusters", verdicts, "--out", out, "--policy", "https") == ""
    table = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert [row["url"] for row in table if row["survivor"] == "1"] == ["https://a.example/19"]


def test_a_large_cluster_is_warned_of_with_source_share_and_survivor(verdicts: Path) -> None:
    result = invoked("clusters", verdicts)
    assert (
        "one cluster holds 65% of pages.jsonl (13 pages); its survivor is http://a" in result.stderr
    )
    quiet = invoked("clusters", verdicts, "--warn-share", "0.66")
    assert "Warning" not in quiet.stderr


def test_the_policy_may_be_a_carried_field_and_a_missing_one_is_warned_of(verdicts: Path) -> None:
    lines = [json.loads(line) for line in verdicts.read_text("utf-8").splitlines()]
    for line in lines[8:]:
        line["carried"] = {"rank": 2, "score": 1}
    write(verdicts, lines)
    result = invoked("clusters", verdicts, "--policy", "rank:max", "--warn-share", "1")
    urls = [json.loads(line)["url"] for line in result.stdout.splitlines()]
    assert urls[0] == "http://a.example/8"
    assert urls[-1] == "http://a.example/0"
    assert "1 of 13 verdicts in clusters carry no rank" in result.stderr
    nutch = invoked("clusters", verdicts, "--policy", "nutch", "--warn-share", "1").stderr
    assert "1 of 13 verdicts in clusters carry no score" in nutch
    assert "13 of 13 verdicts in clusters carry no fetched_at" in nutch
    quiet = invoked("clusters", verdicts, "--policy", "longest", "--warn-share", "1")
    assert "Warning" not in quiet.stderr


@pytest.mark.parametrize("out", ["clusters.txt", "verdicts.jsonl"])
def test_an_output_of_unknown_form_or_the_input_itself_is_refused(verdicts: Path, out: str) -> None:
    before = verdicts.read_bytes()
    with pytest.raises(SettingsError):
        run("clusters", verdicts, "--out", verdicts.with_name(out))
    assert verdicts.read_bytes() == before


def test_all_pages_are_listed_with_those_that_have_no_duplicate(verdicts: Path) -> None:
    result = invoked("clusters", verdicts, "--all", "--warn-share", "1")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(line["page"]["offset"] for line in lines) == [*range(20)]
    assert [(line["pages"], line["survivor"]) for line in lines[13:]] == [(1, True)] * 7
    assert summary_of(result)[1:] == [
        "of duplicates 12", "clusters 8", "pages in them 20", "pages to drop 12",
        "largest cluster 13",
    ]  # fmt: skip
