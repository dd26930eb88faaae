"""Verdicts as CSV have the fields of the JSON lines, and no cell that a spreadsheet runs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from streamer.errors import InputError
from streamer.run.outputs import is_table
from streamer.run.table import table_head, write_table
from streamer.run.verdict_files import read_verdicts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v.csv", True),
        ("V.CSV.gz", True),
        ("v.csv.zst", True),
        ("v.csv.jsonl", False),
        ("-", False),
    ],
)
def test_the_name_tells(name: str, *, expected: bool) -> None:
    assert is_table(name) == expected


def test_cells_that_begin_as_a_formula_are_text_and_numbers_are_not() -> None:
    out = io.StringIO(newline="")
    write_table(out, [["=1+1", "+1", "-1", "@a", "'a", "a=b", -1, None, "a\rb", 'a"b,c']])
    cells = next(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert cells == ["'=1+1", "'+1", "'-1", "'@a", "''a", "a=b", "-1", "", "a\rb", 'a"b,c']


def test_a_table_is_not_read_as_verdicts(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes(table_head())
    with pytest.raises(InputError, match=r"v\.csv: verdicts as CSV are not read; give a file of"):
        next(read_verdicts(tmp_path / "v.csv"))
