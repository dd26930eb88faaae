"""The command `select`: its outputs and what it refuses, with nothing left of a refused run."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from streamer.errors import InputError, SettingsError
from tests.helpers.commands import invoked
from tests.helpers.growing_index import everything
from tests.unit.analysis.test_clusters import place, verdict, write

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


def run(crawl: Path, *options: str | Path, out: str = "out.jsonl") -> Result:
    files = (crawl / "verdicts.jsonl", crawl / "pages.jsonl")
    return invoked("select", *files, "--out", crawl / out, *options)


@pytest.mark.parametrize(
    ("policy", "survivor"),
    [
        ("https", 2), ("nutch", 2), ("fetched_at:max", 1), ("score:min", 0),
    ],
)  # fmt: skip
def test_the_survivor_of_a_cluster_is_by_policy(crawl: Path, policy: str, survivor: int) -> None:
    result = run(crawl, "--policy", policy)
    assert (crawl / "out.jsonl").read_bytes() == line(survivor) + line(3)
    summary = [" ".join(each.split()) for each in result.stdout.splitlines()]
    assert summary == [
        "verdicts 4", "clusters 1", "pages written 2", "pages left out 2", "duplicates 2",
        "excluded 0", "pages without a verdict 0",
    ]  # fmt: skip
    assert "Warning" not in result.stderr


def test_a_policy_by_a_field_that_no_verdict_carries_is_refused(crawl: Path) -> None:
    with pytest.raises(InputError, match=r"carries rank, .* --carry rank, or correct the name"):
        run(crawl, "--policy", "rank:max")
    assert not (crawl / "out.jsonl").exists()


def test_excluded_urls_are_left_out_and_are_no_survivors_in_the_table(crawl: Path) -> None:
    (crawl / "urls.txt").write_text(f"{url(0)}\n{url(3)}\n")
    table = crawl / "clusters.csv"
    run(crawl, "--exclude-urls", crawl / "urls.txt", "--clusters", table, out="out.jsonl.gz")
    assert gzip.decompress((crawl / "out.jsonl.gz").read_bytes()) == line(1)
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [(row["url"], row["survivor"]) for row in rows] == [
        (url(1), "1"), (url(2), "0"), (url(0), "0"),
    ]  # fmt: skip
    (crawl / "urls.txt").write_text("".join(f"{url(number)}\n" for number in range(3)))
    options = ("--exclude-urls", crawl / "urls.txt", "--clusters", table, "--overwrite")
    run(crawl, *options)
    assert (crawl / "out.jsonl").read_bytes() == line(3)
    assert "1" not in [row["survivor"] for row in csv.DictReader(table.read_text().splitlines())]


def test_an_existing_output_is_replaced_only_where_that_is_asked_for(crawl: Path) -> None:
    (crawl / "out.jsonl").write_bytes(b"mine")
    (crawl / "clusters.csv").write_bytes(b"mine, too")
    before = everything(crawl)
    for options in ((), ("--clusters", crawl / "clusters.csv")):
        with pytest.raises(SettingsError, match="give --overwrite"):
            run(crawl, *options, out="out.jsonl" if not options else "new.jsonl")
        assert everything(crawl) == before
    run(crawl, "--overwrite")
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
        run(crawl, "--overwrite", "--clusters", crawl / "clusters.csv")
    assert " ".join(str(refused.value).split()).endswith("--preset of that run.")
    assert everything(crawl) == before


def test_pages_without_a_verdict_are_left_out_and_warned_of(crawl: Path) -> None:
    with (crawl / "pages.jsonl").open("ab") as file:
        file.write(line(4) + b"{broken\n")
    result = run(crawl)
    assert (crawl / "out.jsonl").read_bytes() == line(0) + line(3)
    assert "Warning: 1 pages have no verdict in" in " ".join(result.stderr.split())
