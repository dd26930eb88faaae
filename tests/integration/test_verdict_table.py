"""The verdicts of a replay as CSV: the same as the JSON lines, and each once."""

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer.run.table import table_head
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
def test_a_table_has_what_the_lines_have(place: Place, tmp_path: Path, more: list[str]) -> None:
    numbers = (1, 2, 1, 3, 2, 2)
    near = ["2"] if "--near-misses" in more else []
    columns = COLUMNS + NEAR_COLUMNS * ("--near-misses" in more)
    pages = [page(n, score={"a": [n, "ü"]}, rank=rank) for rank, n in enumerate(numbers)]
    pages += [page(9, url="=cmd()"), b'{"url": "-a,\\"b\\"", "body": "b"}\n']
    changed = json.loads(pages[0])["body"].replace("fox1", "cat1 and", 1)
    pages[2:2] = [page(1, body=changed, url="http://near.example/")]
    given = place.write("in.jsonl", *pages)
    options = [*more, *map(str, place.key), "--carry", "score"]
    for name in ("v.jsonl", "v.csv"):
        assert place.streamer("replay", given, "--verdicts", tmp_path / name, *options) == 0
    with (tmp_path / "v.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert tuple(rows[0]) == columns
    assert [row["url"] for row in rows[-2:]] == ["'=cmd()", '\'-a,"b"']
    assert [row["page_offset"] for row in rows if row.get("nearest_url")] == near
    for row, line in zip(rows, lines(tmp_path / "v.jsonl"), strict=True):
        assert line.pop("schema") == "streamer.verdict/1"
        expected = dict.fromkeys(columns, "") | flat(line)
        assert {**row, "url": row["url"].removeprefix("'")} == expected


def test_an_index_goes_on_in_a_table_with_one_line_of_names(place: Place, tmp_path: Path) -> None:
    table = tmp_path / "v.csv"
    for number in (1, 2):
        pages = place.write(f"{number}.jsonl", page(number))
        assert place.streamer("replay", pages, "--verdicts", table, "--index", place.index) == 0
    found = table.read_bytes().splitlines(keepends=True)
    assert found[0] == table_head(near=False)
    assert [line.count(b"http://a.example/") for line in found] == [0, 1, 1]
