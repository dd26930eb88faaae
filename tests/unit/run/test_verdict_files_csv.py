"""Verdicts as CSV have the fields of the JSON lines, and no cell that a spreadsheet runs."""

import csv
import io
from pathlib import Path

import pytest

from streamer.errors import InputError, SettingsError
from streamer.model import Location, NearestKept
from streamer.run.output_checks import is_table
from streamer.run.verdict_files import (
    cells,
    has_near_columns,
    read_verdicts,
    table_head,
    write_table,
)
from tests.helpers.verdict_lines import COLUMNS, NEAR_COLUMNS, unique


def test_the_name_tells() -> None:
    assert all(map(is_table, ("v.csv", "V.CSV.gz", "v.csv.zst")))
    assert not any(map(is_table, ("v.csv.jsonl", "-")))


def test_cells_that_begin_as_a_formula_are_text_and_numbers_are_not() -> None:
    out = io.StringIO(newline="")
    write_table(out, [["=1+1", "+1", "-1", "@a", "'a", "a=b", -1, None, "a\rb", 'a"b,c']])
    cells = next(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert cells == ["'=1+1", "'+1", "'-1", "'@a", "''a", "a=b", "-1", "", "a\rb", 'a"b,c']


def test_columns_of_near_misses_are_there_if_the_table_began_with_them(tmp_path: Path) -> None:
    near = NearestKept(
        Location("p", 1, 2), "http://n.example/", "clean", similarity=0.75, exact=True
    )
    plain, none = unique(0), unique(0, nearest=None, nearest_min=0.65)
    found = unique(0, nearest=near, nearest_min=0.65)
    width = len(COLUMNS)
    assert [len(list(cells(each, near=False))) for each in (plain, found)] == [width, width]
    rows = [[*cells(each, near=True)][width:] for each in (found, none, plain)]
    assert rows[0] == ["p", 1, 2, "http://n.example/", "clean", 0.75, True, 0.65]
    assert rows[1:] == [[*[None] * 7, 0.65], [None] * 8]
    assert table_head(near=True).decode().strip().split(",") == [*COLUMNS, *NEAR_COLUMNS]
    path, length = tmp_path / "v.csv", len(table_head(near=False))
    assert [has_near_columns(path, 0, asked=asked) for asked in (True, False)] == [True, False]
    path.write_bytes(table_head(near=False) + b"more")
    assert not has_near_columns(path, length, asked=False)
    with pytest.raises(
        SettingsError, match=r"v\.csv was begun without --near-misses.*Name another"
    ):
        has_near_columns(path, length, asked=True)
    path.write_bytes(table_head(near=True))
    assert has_near_columns(path, path.stat().st_size, asked=False)
    packed = tmp_path / "v.csv.gz"
    packed.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="the column names cannot be read"):
        has_near_columns(packed, 5, asked=True)


def test_a_table_is_not_read_as_verdicts(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes(table_head(near=False))
    with pytest.raises(InputError, match=r"v\.csv: verdicts as CSV are not read; give a file of"):
        next(read_verdicts(tmp_path / "v.csv"))
