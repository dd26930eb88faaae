"""Chosen rows of Parquet files as a Parquet file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from streamer.errors import InputError
from streamer.pages import table_copy
from streamer.pages.table_copy import copy_rows


def table(start: int, count: int) -> Any:
    numbers = range(start, start + count)
    columns = {
        "url": [f"u{number}" for number in numbers],
        "meta": [{"tags": ["x"] * (number % 3)} for number in numbers],
    }
    return pa.table(columns).replace_schema_metadata({"made": "here"})


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@given(st.lists(st.sets(st.integers(0, 29)), min_size=1, max_size=3), st.sampled_from([1, 10**9]))
def test_the_chosen_rows_come_with_their_columns_in_the_order_of_the_files(
    scratch: Path, chosen: list[set[int]], group_bytes: int
) -> None:
    files = {}
    for number, ordinals in enumerate(chosen):
        path = scratch / f"{number}.parquet"
        parquet.write_table(table(100 * number, 30), path, row_group_size=8)
        files[str(path)] = np.array(sorted(ordinals), np.uint64)
    with (
        mock.patch.object(table_copy, "GROUP_BYTES", group_bytes),
        mock.patch.object(table_copy, "_BATCH_ROWS", 7),
    ):
        copy_rows(files, out := io.BytesIO())
    found = parquet.read_table(io.BytesIO(out.getvalue()))
    first = parquet.read_schema(scratch / "0.parquet")
    assert found.schema.equals(first, check_metadata=True)
    assert found.to_pylist() == [
        row
        for number, ordinals in enumerate(chosen)
        for place, row in enumerate(table(100 * number, 30).to_pylist())
        if place in ordinals
    ]


def test_other_columns_and_damage_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one.parquet", tmp_path / "other.parquet"
    parquet.write_table(table(0, 3), one)
    parquet.write_table(pa.table({"url": ["u"]}), other)
    row = np.array([0], np.uint64)
    with pytest.raises(InputError, match=r"other\.parquet: has other columns than .*one\.parquet"):
        copy_rows({str(one): row, str(other): row}, io.BytesIO())
    other.write_bytes(one.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"other\.parquet: cannot be read as Parquet .*copy the"):
        copy_rows({str(one): row, str(other): row}, io.BytesIO())
