"""The verdicts of a replay as Parquet and CSV: the same as the JSON lines, and each once."""

import csv
import json
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer import read_verdicts
from streamer.errors import StoreUnavailable
from streamer.run.verdict_files import open_verdicts
from tests.helpers.place import Place, lines, page
from tests.helpers.verdict_lines import COLUMNS, NEAR_COLUMNS


def flat(verdict: dict[str, Any]) -> dict[str, str]:
    """Return the cells that a line of JSON should have in the table."""
    other = verdict.pop("representative") or {"page": {}}
    cells = {f"page_{name}": value for name, value in verdict.pop("page").items()}
    cells |= {f"representative_{name}": value for name, value in other.pop("page").items()}
    cells |= {f"representative_{name}": value for name, value in other.items()}
    near = verdict.pop("nearest", None) or {"page": {}}
    cells |= {f"nearest_{name}": value for name, value in near.pop("page").items()}
    cells |= {f"nearest_{name}": value for name, value in near.items()}
    cells |= verdict | {"carried": msgspec.json.encode(verdict["carried"]).decode()}
    shown = {name: int(cell) if isinstance(cell, bool) else cell for name, cell in cells.items()}
    return {name: "" if cell in (None, "{}") else str(cell) for name, cell in shown.items()}


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
    for row, line in zip(rows, lines(plain), strict=True):
        assert line.pop("schema") == "streamer.verdict/1"
        expected = dict.fromkeys(columns, "") | flat(line)
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
