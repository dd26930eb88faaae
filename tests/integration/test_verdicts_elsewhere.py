"""The lines of docs/verdicts.md that keep the unique pages with other programs."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.missing import leave_out
from tests.helpers.place import Place, page

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


@pytest.mark.parametrize("line", [line for line in LINES.values() if "infer_schema_length" in line])
def test_polars_needs_the_types_of_all_lines(line: str, folder: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        urls_of(line.replace(", infer_schema_length=None", ""), folder)
    assert b"ComputeError" in failed.value.stderr
