"""The verdicts of a replay as Parquet and CSV: the same as the JSON lines, and each once.

The lines of docs/verdicts.md keep the unique pages of all forms with other programs.
"""

import csv
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer import read_verdicts
from streamer.errors import StoreUnavailable
from streamer.run.verdict_files import open_verdicts
from tests.helpers.missing import leave_out
from tests.helpers.place import Place, lines, page
from tests.helpers.verdict_lines import COLUMNS, NEAR_COLUMNS


@pytest.mark.parametrize(
    "more",
    [
        [], ["--track-changes", "--exact"], ["--text", "main"], ["--near-misses", "0.99"],
        ["--near-misses", "0.99", "--exact"],
    ],
)  # fmt: skip
def test_tables_have_what_the_lines_have(place: Place, tmp_path: Path, more: list[str]) -> None:
    numbers = (1, 2, 1, 3, 2, 2)
    near = [2] if "--near-misses" in more else []
    columns = COLUMNS + NEAR_COLUMNS * ("--near-misses" in more)
    pages = [page(n, score={"a": [n, "ü", 1.50]}, rank=rank) for rank, n in enumerate(numbers)]
    pages += [page(9, url="=cmd()"), b'{"url": "-a,\\"b\\"", "body": "b"}\n']
    changed = json.loads(pages[0])["body"].replace("fox1", "cat1 and", 1)
    pages[2:2] = [page(1, body=changed, url="http://near.example/")]
    given = place.write("in.jsonl", *pages)
    options = [*more, *map(str, place.key), "--carry", "score"]
    plain, table, cells = (tmp_path / name for name in ("v.jsonl", "v.parquet", "v.csv"))
    for name in (plain, table, cells):
        assert place.streamer("replay", given, "--verdicts", name, *options) == 0

    with open_verdicts(table) as file:
        assert file.read() == plain.read_bytes()
    assert list(read_verdicts(table)) == list(read_verdicts(plain))
    found = parquet.read_table(table)
    assert tuple(found.column_names) == columns
    assert found["page_offset"].to_pylist() == list(range(len(pages)))
    assert found["similarity"].to_pylist() == [each["similarity"] for each in lines(plain)]
    assert found["carried"][0].as_py() == '{"score":{"a":[1,"ü",1.5]}}'
    assert found.schema.field("same_url").type == pa.bool_()
    assert not (tmp_path / "v.parquet.jsonl.zst").exists()

    with cells.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert tuple(rows[0]) == columns
    assert [row["url"] for row in rows[-2:]] == ["'=cmd()", '\'-a,"b"']
    assert [int(row["page_offset"]) for row in rows if row.get("nearest_url")] == near
    for row, values in zip(rows, found.to_pylist(), strict=True):
        shown = {n: int(cell) if isinstance(cell, bool) else cell for n, cell in values.items()}
        expected = {n: "" if cell in (None, "{}") else str(cell) for n, cell in shown.items()}
        assert {**row, "url": row["url"].removeprefix("'")} == expected


def test_an_index_goes_on_in_a_table_that_a_command_reads(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "v.parquet"
    for run in (1, 2, 3):
        given = place.write(f"{run}.jsonl", *([page(run), page(1)] if run < 3 else []))
        assert place.streamer("replay", given, "--verdicts", table, "--index", place.index) == 0
        whole = parquet.read_table(table)
        assert whole.num_rows == 2 * min(run, 2)
    assert whole["page_topic"].to_pylist() == [f"{tmp_path}/{n}.jsonl" for n in (1, 1, 2, 2)]
    out = tmp_path / "clean.jsonl"
    both = [tmp_path / f"{number}.jsonl" for number in (1, 2)]
    assert place.streamer("select", table, *both, "--out", out) == 0
    assert [each["url"] for each in lines(out)] == ["http://a.example/1", "http://a.example/2"]


def test_a_run_without_verdicts_makes_a_table_without_rows(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "v.parquet"
    assert place.streamer("replay", place.write("in.jsonl"), "--verdicts", table) == 0
    assert tuple(parquet.read_schema(table).names) == COLUMNS
    assert list(read_verdicts(table)) == []


def test_a_failure_at_the_end_without_an_index_leaves_nothing_in_the_way(
    place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "v.parquet"
    run = ("replay", place.write("in.jsonl", page(1)), "--verdicts", table)
    full = StoreUnavailable(f"No space is left for {table}. Free some and run the same command.")
    with mock.patch("streamer.cli.replay.VerdictTable.write", side_effect=full):
        assert place.streamer(*run) == 1
    assert "Free some and run the same command." in " ".join(capfd.readouterr().err.split())
    assert not [*tmp_path.glob("v.*")]
    assert place.streamer(*run) == 0
    assert parquet.read_table(table).num_rows == 1


def test_files_of_others_are_not_replaced(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    given = place.write("in.jsonl", page(1))
    table = place.write("v.parquet", b"PAR1")
    run = ("replay", given, "--verdicts", table)
    refused = {
        (): "already exists",
        ("--dead-letters", table): "--dead-letters and --verdicts must be different files",
        ("--summary", table): "is an output already",
    }
    for more, why in refused.items():
        assert place.streamer(*run, *more) == 2
        assert why in " ".join(capfd.readouterr().err.split())
        assert table.read_bytes() == b"PAR1"
    assert place.streamer(*run, "--overwrite") == 0
    assert parquet.read_table(table).num_rows == 1
    assert place.streamer("replay", table, "--verdicts", table, "--overwrite") == 2


DOCUMENT = Path(__file__).parents[2] / "docs" / "verdicts.md"
SECTION = DOCUMENT.read_text("utf-8").split("## The unique pages, with other programs")[1]
ROWS = re.findall(r"^\| (.+?) \| `(.+?)` \| (?:`(.+?)`|.+?) \|$", SECTION, re.MULTILINE)
LINES = {
    f"{name}, {kind}": line
    for name, *two in ROWS
    for kind, line in zip(("JSON", "CSV"), two, strict=True)
    if line
}
TABLES = {
    f"{line.split('.')[0]}, Parquet": line
    for line in re.findall(r"`([^`]*v\.parquet[^`]*)`", SECTION)
}
URLS = {
    "pandas": "unique['url'].to_list()",
    "polars": "unique['url'].to_list()",
    "duckdb": "[url for url, in unique.select('url').fetchall()]",
    "spark": "[row['url'] for row in unique.select('url').collect()]",
}
SPARK = (
    "from pyspark.sql import SparkSession as S; spark = S.builder.master('local[1]').getOrCreate()"
)
# pyspark is no dependency of the tests: with Java it is 500 MB for three lines. They were checked
# with pyspark 4.3.0 on Java 17, and are where somebody has it.
NEEDS_SPARK = pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed")
HARD = ["123", "NA", "null", 'http://a.example/a,"b"', "true"]  # what is not taken for text
ORDINARY = 120  # more than polars looks at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the verdicts of a crawl, in all forms; its duplicates come last."""
    place = Place(tmp_path_factory.mktemp("verdicts"))
    unique = [page(number, url=url) for number, url in enumerate(HARD)]
    unique += [page(number) for number in range(len(HARD), ORDINARY)]
    copies = [page(1, url="http://copy.example/"), page(ORDINARY - 1, score={"a": 1})]
    pages = place.write("pages.jsonl", *unique, *copies)
    for name in ("v.jsonl", "v.csv", "v.parquet"):
        made = place.streamer(
            "replay", pages, "--verdicts", place.folder / name, "--carry", "score"
        )
        assert made == 0
    return place.folder


def urls_of(line: str, folder: Path) -> list[str]:
    """Return the URLs of the pages that a line of the document keeps."""
    if line.startswith("jq "):
        if shutil.which("jq") is None:
            leave_out("jq", ".ci/tools queries, as root")
        done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, check=True)  # noqa: S602 - a line for a shell
        return [json.loads(kept)["url"] for kept in done.stdout.splitlines()]
    names = {"pd": "pandas", "pl": "polars", "duckdb": "duckdb", "spark": "spark"}
    short = line.split(".", maxsplit=1)[0]
    opened = SPARK if short == "spark" else f"import {names[short]} as {short}"
    program = f"import json; {opened}\nunique = {line}\nprint(json.dumps({URLS[names[short]]}))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, check=True
    )
    urls: list[str] = json.loads(done.stdout)
    return urls


def test_the_document_has_both_forms_for_each_program() -> None:
    assert len(LINES) == 2 * len(ROWS) - 1, "jq reads no CSV"
    assert {name.split(",")[0] for name in LINES} == {"pandas", "polars", "DuckDB", "Spark", "jq"}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[NEEDS_SPARK] if line.startswith("spark") else [], id=name)
        for name, line in (LINES | TABLES).items()
    ],
)
def test_a_line_keeps_the_unique_pages(line: str, folder: Path) -> None:
    ordinary = [f"http://a.example/{number}" for number in range(len(HARD), ORDINARY)]
    assert urls_of(line, folder) == HARD + ordinary
