"""`select` from Parquet to Parquet: a clean data set with all columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.integration.test_replay import Place, lines, page


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write_set(folder: Path) -> list[dict[str, Any]]:
    """Write a folder of Parquet files; return the rows, of which every third is a copy."""
    folder.mkdir()
    rows = [
        {**json.loads(page(number - number % 3 // 2)), "score": number, "vector": [0.5] * 3}
        for number in range(300)
    ]
    for part in range(3):
        table = pa.Table.from_pylist(rows[100 * part : 100 * part + 100])
        parquet.write_table(table, folder / f"{part}.parquet", row_group_size=30)
    return rows


def test_the_rows_of_a_folder_that_survive_keep_all_columns(place: Place) -> None:
    rows, out = write_set(place.folder / "set"), place.folder / "clean.parquet"
    assert place.replay(place.folder / "set", "--carry", "score") == 0
    arguments = (place.verdicts, place.folder / "set", "--out", out)
    assert place.streamer("select", *arguments) == 0
    is_kept = [each["verdict"] == "unique" for each in lines(place.verdicts)]
    assert parquet.read_table(out).to_pylist() == [
        row for row, kept in zip(rows, is_kept, strict=True) if kept
    ]
    assert place.streamer("select", *arguments, "--policy", "score:max") == 2  # it is there
    assert place.streamer("select", *arguments, "--policy", "score:max", "--overwrite") == 0
    is_dropped = [*(duplicate for duplicate in is_kept[1:]), True]
    assert parquet.read_table(out).to_pylist() == [
        row for row, kept in zip(rows, is_dropped, strict=True) if kept
    ]


def test_lines_are_not_written_as_a_table(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path = place.write("pages.jsonl", *(page(number) for number in range(3)))
    assert place.replay(path) == 0
    out = place.folder / "clean.parquet"
    assert place.streamer("select", place.verdicts, path, "--out", out) == 2
    assert "pages.jsonl is not a Parquet or Arrow file" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()
