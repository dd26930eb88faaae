"""The commands `clusters` and `select`: outputs, warnings, and what they refuse."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from streamer.errors import InputError, SettingsError
from tests.helpers.commands import invoked, run
from tests.helpers.growing_index import everything
from tests.unit.analysis.test_clusters import place, verdict, write


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


TIMES = ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z", None]


def url(number: int) -> str:
    return f"http{'s' if number == 2 else ''}://a.example/{number}"


def line(number: int) -> bytes:
    return json.dumps({"url": url(number), "body": f"page {number}"}).encode() + b"\n"


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Write four pages and their verdicts: the second and third are duplicates of the first."""
    pages = tmp_path / "pages.jsonl"
    pages.write_bytes(b"".join(map(line, range(4))))
    said = []
    for number in range(4):
        of = 0 if number in {1, 2} else None
        more: dict[str, Any] = {"text_bytes": 9 - number * 2 if number else 8}
        more["carried"] = {"fetched_at": TIMES[number], "score": str(number % 3)}
        said.append(verdict(number, of, url(number), page=place(number, str(pages)), **more))
        if of is not None:
            said[-1]["representative"] = {"page": place(of, str(pages)), "url": url(of)}
    write(tmp_path / "verdicts.jsonl", said)
    return tmp_path


def select(crawl: Path, *options: str | Path, out: str = "out.jsonl") -> Result:
    files = (crawl / "verdicts.jsonl", crawl / "pages.jsonl")
    return invoked("select", *files, "--out", crawl / out, *options)


@pytest.mark.parametrize(
    ("policy", "survivor"),
    [
        ("https", 2), ("nutch", 2), ("fetched_at:max", 1), ("score:min", 0),
    ],
)  # fmt: skip
def test_the_survivor_of_a_cluster_is_by_policy(crawl: Path, policy: str, survivor: int) -> None:
    result = select(crawl, "--policy", policy)
    assert (crawl / "out.jsonl").read_bytes() == line(survivor) + line(3)
    summary = [" ".join(each.split()) for each in result.stdout.splitlines()]
    assert summary == [
        "verdicts 4", "clusters 1", "pages written 2", "pages left out 2", "duplicates 2",
        "excluded 0", "pages without a verdict 0",
    ]  # fmt: skip
    assert "Warning" not in result.stderr


def test_a_policy_by_a_field_that_no_verdict_carries_is_refused(crawl: Path) -> None:
    with pytest.raises(InputError, match=r"carries rank, .* --carry rank, or correct the name"):
        select(crawl, "--policy", "rank:max")
    assert not (crawl / "out.jsonl").exists()


def test_excluded_urls_are_left_out_and_are_no_survivors_in_the_table(crawl: Path) -> None:
    (crawl / "urls.txt").write_text(f"{url(0)}\n{url(3)}\n")
    table = crawl / "clusters.csv"
    select(crawl, "--exclude-urls", crawl / "urls.txt", "--clusters", table, out="out.jsonl.gz")
    assert gzip.decompress((crawl / "out.jsonl.gz").read_bytes()) == line(1)
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [(row["url"], row["survivor"]) for row in rows] == [
        (url(1), "1"), (url(2), "0"), (url(0), "0"),
    ]  # fmt: skip
    (crawl / "urls.txt").write_text("".join(f"{url(number)}\n" for number in range(3)))
    options = ("--exclude-urls", crawl / "urls.txt", "--clusters", table, "--overwrite")
    select(crawl, *options)
    assert (crawl / "out.jsonl").read_bytes() == line(3)
    assert "1" not in [row["survivor"] for row in csv.DictReader(table.read_text().splitlines())]


def test_an_existing_output_is_replaced_only_where_that_is_asked_for(crawl: Path) -> None:
    (crawl / "out.jsonl").write_bytes(b"mine")
    (crawl / "clusters.csv").write_bytes(b"mine, too")
    before = everything(crawl)
    for options in ((), ("--clusters", crawl / "clusters.csv")):
        with pytest.raises(SettingsError, match="give --overwrite"):
            select(crawl, *options, out="out.jsonl" if not options else "new.jsonl")
        assert everything(crawl) == before
    select(crawl, "--overwrite")
    assert (crawl / "out.jsonl").read_bytes() == line(0) + line(3)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--policy", "best"], "is none of earliest, longest, https, nutch, FIELD:max"),
        (["--clusters", "clusters.txt"], "--clusters .* must end in"),
        (["--out", "pages.jsonl", "--overwrite"], "and the input .* are the same file"),
        (["--out", "no/out.jsonl"], "Cannot write no/out.jsonl"),
        (["--out", "out.warc"], "holds JSON lines, but --out .* is for WARC .* with --some"),
        (["--out", "out.parquet"], "is not a Parquet or Arrow file, and --out"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    crawl: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], why: str
) -> None:
    monkeypatch.chdir(crawl)
    before = everything(crawl)
    with pytest.raises(SettingsError, match=why):
        invoked("select", "verdicts.jsonl", crawl / "pages.jsonl", "--out", "out.jsonl", *options)
    assert everything(crawl) == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: [lines[0], line(7), *lines[2:]], "record 1 of .* was another page"),
        (lambda lines: lines[:2], "of 2 verdicts are not .*, first record 2 of"),
    ],
)
def test_pages_of_another_run_change_no_output(crawl: Path, change: Any, why: str) -> None:
    (crawl / "out.jsonl").write_bytes(b"before")
    (crawl / "pages.jsonl").write_bytes(b"".join(change([*map(line, range(4))])))
    before = everything(crawl)
    with pytest.raises(InputError, match=why) as refused:
        select(crawl, "--overwrite", "--clusters", crawl / "clusters.csv")
    assert " ".join(str(refused.value).split()).endswith("--preset of that run.")
    assert everything(crawl) == before


def test_pages_without_a_verdict_are_left_out_and_warned_of(crawl: Path) -> None:
    with (crawl / "pages.jsonl").open("ab") as file:
        file.write(line(4) + b"{broken\n")
    result = select(crawl)
    assert (crawl / "out.jsonl").read_bytes() == line(0) + line(3)
    assert "Warning: 1 pages have no verdict in" in " ".join(result.stderr.split())
