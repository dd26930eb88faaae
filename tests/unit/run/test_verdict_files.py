"""Verdicts as CSV and Parquet have the fields of the JSON lines, and read back as these."""

import csv
import io
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer.compression import zstd
from streamer.errors import InputError, SettingsError
from streamer.model import Basis, Change, Location, NearestKept, Representative, SignedText, Verdict
from streamer.run import verdict_files
from streamer.run.output_checks import LINES_SUFFIX, is_table, part_of
from streamer.run.outputs import read_lines_within
from streamer.run.verdict_files import (
    VerdictTable,
    cells,
    has_near_columns,
    open_verdicts,
    read_verdicts,
    table_head,
    write_table,
)
from tests.helpers.commands import run
from tests.helpers.verdict_lines import COLUMNS, NEAR_COLUMNS, duplicate, unique


def test_the_name_tells() -> None:
    assert all(map(is_table, ("v.csv", "V.CSV.gz", "v.csv.zst")))
    assert not any(map(is_table, ("v.csv.jsonl", "-")))


def test_cells_that_begin_as_a_formula_are_text_and_numbers_are_not() -> None:
    out = io.StringIO(newline="")
    write_table(out, [["=1+1", "+1", "-1", "@a", "'a", "a=b", -1, None, "a\rb", 'a"b,c']])
    [row] = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert row == ["'=1+1", "'+1", "'-1", "'@a", "''a", "a=b", "-1", "", "a\rb", 'a"b,c']


def test_columns_of_near_misses_are_there_if_the_table_began_with_them(tmp_path: Path) -> None:
    near = NearestKept(Location("p", 1, 2), "http://n/", "clean", similarity=0.75, exact=True)
    plain, none = unique(0), unique(0, nearest=None, nearest_min=0.65)
    found = unique(0, nearest=near, nearest_min=0.65)
    width = len(COLUMNS)
    assert [len(list(cells(each, near=False))) for each in (plain, found)] == [width, width]
    rows = [[*cells(each, near=True)][width:] for each in (found, none, plain)]
    assert rows[0] == ["p", 1, 2, "http://n/", "clean", 0.75, True, 0.65]
    assert rows[1:] == [[*[None] * 7, 0.65], [None] * 8]
    assert table_head(near=True).decode().strip().split(",") == [*COLUMNS, *NEAR_COLUMNS]
    path, length = tmp_path / "v.csv", len(table_head(near=False))
    assert [has_near_columns(path, 0, asked=asked) for asked in (True, False)] == [True, False]
    path.write_bytes(table_head(near=False) + b"more")
    assert not has_near_columns(path, length, asked=False)
    with pytest.raises(SettingsError, match=r"v\.csv was begun without.*Name another"):
        has_near_columns(path, length, asked=True)
    path.write_bytes(table_head(near=True))
    assert has_near_columns(path, path.stat().st_size, asked=False)
    packed = tmp_path / "v.csv.gz"
    packed.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="the column names cannot be read"):
        has_near_columns(packed, 5, asked=True)


@pytest.mark.parametrize("name", ["v.csv", "v.csv.gz", "v.csv.zst"])
def test_a_table_begins_with_the_names_of_its_columns(tmp_path: Path, name: str) -> None:
    pages, out = tmp_path / "pages.jsonl", tmp_path / name
    pages.write_text('{"url": "http://a/", "body": "one two"}\n')
    run("replay", pages, "--verdicts", out)
    lines = [*read_lines_within(out, out.stat().st_size)]
    assert (lines[0], len(lines)) == (table_head(near=False), 2)


def test_a_table_is_not_read_as_verdicts(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes(table_head(near=False))
    with pytest.raises(InputError, match=r"v\.csv: verdicts as CSV are not read; give a file of"):
        next(read_verdicts(tmp_path / "v.csv"))


PAGE = Location("a b.jsonl", 0, 2**40 - 1)
PLAIN = msgspec.structs.replace(unique(0), page=PAGE, url="", basis=Basis.TOO_SHORT)
COPY = duplicate(
    1, of=0, similarity=0.8765, url="http://a.example/é", exact=False, text=SignedText.MAIN,
    carried={"n": 2**70, "x": [1.0, None, {"": "é"}]},
)  # fmt: skip
CHANGED = msgspec.structs.replace(
    duplicate(2, of=0, exact=True, change=Change.NEW, change_similarity=None),
    representative=Representative(PAGE, "http://a.example/", index="clean"),
)
EDITED = unique(3, change=Change.EDITED, change_similarity=1.0)


def made(path: Path, verdicts: list[Verdict]) -> bytes:
    """Make a Parquet file of verdicts; return their lines."""
    lines = msgspec.json.Encoder().encode_lines(verdicts)
    stored = Path(f"{path}{LINES_SUFFIX}")
    stored.write_bytes(zstd.compress(lines))
    write(path, stored)
    return lines


def write(path: Path, stored: Path) -> None:
    """Make a Parquet file of lines."""
    written = list[int]()
    VerdictTable(str(path), stored).write(written.append, lambda _part: None)
    assert written[-1:] == [parquet.read_metadata(path).num_rows]


def test_verdicts_come_back_as_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    verdicts = [PLAIN, COPY, CHANGED, EDITED]
    lines = made(path, verdicts)
    with open_verdicts(path) as file:
        assert file.read() == lines
    assert list(read_verdicts(path)) == verdicts


def test_near_misses_have_columns_only_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    near = NearestKept(PAGE, "http://n/", similarity=0.75)
    elsewhere = msgspec.structs.replace(near, index="clean", exact=False)
    verdicts = [
        unique(0, nearest=near, nearest_min=0.65), COPY, unique(2, nearest=None, nearest_min=0.65),
        unique(3, nearest=elsewhere), unique(4),
    ]  # fmt: skip
    lines = made(path, verdicts)
    assert tuple(parquet.read_schema(path).names) == COLUMNS + NEAR_COLUMNS
    with open_verdicts(path) as file:
        assert file.read() == lines
    assert list(read_verdicts(path)) == verdicts
    made(path, [PLAIN, COPY])
    assert tuple(parquet.read_schema(path).names) == COLUMNS


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_files, "_BATCH_ROWS", 3)
    monkeypatch.setattr(verdict_files, "_GROUP_BATCHES", 2)
    path = tmp_path / "v.parquet"
    lines = made(path, [PLAIN, COPY] * 10)
    found = parquet.read_metadata(path)
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [6, 6, 6, 2]
    with open_verdicts(path) as file:
        assert file.read() == lines


def test_damaged_lines_make_no_table(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    made(path, [PLAIN])
    whole = path.read_bytes()
    stored = Path(f"{path}{LINES_SUFFIX}")
    stored.write_bytes(b"no frame")
    with pytest.raises(InputError, match=r"v\.parquet\.jsonl\.zst: damaged, .*; put the file back"):
        write(path, stored)
    assert path.read_bytes() == whole
    assert not part_of(str(path)).exists()


@pytest.mark.parametrize(
    ("rows", "why"), [({"url": ["a"]}, "no column 'page_topic'"), (None, "is damaged")]
)
def test_another_table_is_refused(tmp_path: Path, rows: dict[str, Any] | None, why: str) -> None:
    path = tmp_path / "v.parquet"
    if rows is None:
        path.write_bytes(b"PAR1 and what is no table")
    else:
        parquet.write_table(pa.table(rows), path)
    with pytest.raises(InputError, match=why):
        list(read_verdicts(path))
