"""Chosen rows of Parquet and Arrow files as one such file."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from streamer.errors import InputError, SettingsError
from streamer.pages import chunk, table_copy
from streamer.pages.files import Source
from streamer.pages.table_copy import ChosenRows, common_schema, copy_rows
from streamer.run.kept_tables import tables_of

REMEDY = "Do otherwise."
SCHEMA = pa.schema({"url": pa.string(), "meta": pa.struct({"tags": pa.list_(pa.string())})})


def table(start: int, count: int) -> Any:
    numbers = range(start, start + count)
    columns = {
        "url": [f"u{number}" for number in numbers],
        "meta": [{"tags": ["x"] * (number % 3)} for number in numbers],
    }
    return pa.table(columns, SCHEMA).replace_schema_metadata({"made": "here"})


def write(path: Path, rows: Any, group_rows: int = 8) -> Path:
    """Write a table in the format that the name tells; `stream` in it means a stream."""
    if path.suffix == ".parquet":
        parquet.write_table(rows, path, row_group_size=group_rows)
        return path
    opened = pa.ipc.new_stream if "stream" in path.name else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression="lz4" if path.suffix == ".feather" else None)
    with path.open("wb") as file, opened(file, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=group_rows)
    return path


def rows_of(path: Path, ordinals: Iterable[int]) -> ChosenRows:
    [file] = tables_of("kept", [Source(str(path), is_regular=True)])
    return ChosenRows(file, np.array(sorted(ordinals), np.uint64))


def copied(name: str, *chosen: ChosenRows, metadata: dict[bytes, bytes] | None = None) -> Any:
    copy_rows(chosen, name, out := io.BytesIO(), REMEDY, metadata or {})
    data = io.BytesIO(out.getvalue())
    return parquet.read_table(data) if name.endswith(".parquet") else feather.read_table(data)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


FORMATS = st.sampled_from(["parquet", "arrow", "stream.arrow"])
CHOSEN = st.tuples(FORMATS, st.sets(st.integers(0, 29)))


@given(
    st.lists(CHOSEN, min_size=1, max_size=3),
    st.sampled_from(["out.parquet", "out.arrow"]),
    st.sampled_from([1, 10**9]),
)
def test_the_chosen_rows_come_with_their_columns_in_the_order_of_the_files(
    scratch: Path, chosen: list[tuple[str, set[int]]], name: str, group_bytes: int
) -> None:
    files = [
        rows_of(write(scratch / f"{number}.{suffix}", table(100 * number, 30)), ordinals)
        for number, (suffix, ordinals) in enumerate(chosen)
    ]
    with (
        mock.patch.object(table_copy, "GROUP_BYTES", group_bytes),
        mock.patch.object(chunk, "CHUNK_RECORDS_MAX", 7),
    ):
        found = copied(name, *files)
    assert found.schema.equals(SCHEMA)
    assert found.schema.metadata == {b"made": b"here"}
    assert found.to_pylist() == [
        row
        for number, (_, ordinals) in enumerate(chosen)
        for place, row in enumerate(table(100 * number, 30).to_pylist())
        if place in ordinals
    ]


def test_metadata_are_those_of_the_first_file_and_what_is_added(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table(0, 3))
    for name in ("o.parquet", "o.feather"):
        found = copied(name, rows_of(path, [1]), metadata={b"more": b"x"})
        assert found.schema.metadata == {b"made": b"here", b"more": b"x"}


def test_only_parts_with_a_chosen_row_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table(0, 40))
    groups = parquet.read_metadata(path)
    for number in (0, 2, 4):  # garbage, where nobody should look
        column = groups.row_group(number).column(0)
        data = bytearray(path.read_bytes())
        start, size = column.dictionary_page_offset or 0, column.total_compressed_size
        data[start : start + size] = b"\xff" * size
        path.write_bytes(data)
    found = copied("o.parquet", rows_of(path, [8, 15, 24, 31]))
    assert found["url"].to_pylist() == ["u8", "u15", "u24", "u31"]
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read as Parquet .*copy the file"):
        copied("o.parquet", rows_of(path, [8, 16]))


def test_other_columns_damage_and_another_file_are_refused(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one.parquet", table(0, 3)), tmp_path / "other.parquet"
    parquet.write_table(pa.table({"url": ["u"]}), other)
    both = rows_of(one, [0]), rows_of(other, [0])
    why = r"other\.parquet has other columns than .*one\.parquet, or other types\. Do otherwise\."
    with pytest.raises(SettingsError, match=why):
        copied("o.parquet", *both)
    with pytest.raises(SettingsError, match=why):
        common_schema("o.parquet", [each.file for each in both], REMEDY)
    other.write_bytes(one.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"other\.parquet: cannot be read as Parquet .*copy the"):
        copied("o.parquet", *both)
    changed = both[0].file._replace(digest="0" * 32)
    with pytest.raises(InputError, match=r"one\.parquet: has changed since its rows were judged"):
        copied("o.parquet", ChosenRows(changed, both[0].ordinals))


def test_types_that_a_format_cannot_hold_are_refused(tmp_path: Path) -> None:
    coded = pa.table({"url": pa.array(["a", "b"]).dictionary_encode()})
    path = write(tmp_path / "coded.parquet", coded)
    with pytest.raises(SettingsError, match=r"'url' has a dictionary, .* Name .*\.parquet"):
        common_schema("o.arrow", [rows_of(path, []).file], REMEDY)
    assert copied("o.parquet", rows_of(path, [1])).to_pylist() == [{"url": "b"}]
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    path = write(tmp_path / "union.arrow", pa.table({"u": union}))
    with pytest.raises(SettingsError, match=r"o\.parquet cannot hold these .*the output \.arrow"):
        common_schema("o.parquet", [rows_of(path, []).file], REMEDY)
    runs = pa.RunEndEncodedArray.from_arrays([1, 3], ["a", "b"])
    path = write(tmp_path / "runs.arrow", pa.table({"url": runs}))
    why = r"'url' has the type run_end_encoded.*no rows can be chosen .*name the output \.jsonl"
    with pytest.raises(SettingsError, match=why):
        common_schema("o.arrow", [rows_of(path, []).file], REMEDY)
    with pytest.raises(SettingsError, match=r"there are none\. Give one"):
        common_schema("o.arrow", [], REMEDY)


NESTED = pa.struct([pa.field("body", pa.binary_view(), nullable=False)])


@pytest.mark.parametrize("name", ["o.parquet", "o.arrow"])
def test_views_of_strings_stay_what_they_are(tmp_path: Path, name: str) -> None:
    columns = {
        "url": pa.array(["a", None, "a string of more than twelve bytes"], pa.string_view()),
        "tags": pa.array([["x"], None, ["y", None]], pa.list_(pa.string_view())),
        "more": pa.array([{"body": b"1"}, {"body": b"2"}, {"body": b"3"}], NESTED),
    }
    path = write(tmp_path / "views.arrow", rows := pa.table(columns))
    chosen = rows_of(path, [0, 2])
    common_schema(name, [chosen.file], REMEDY)
    found = copied(name, chosen)
    assert found.schema.equals(rows.schema)
    assert found.to_pylist() == rows.to_pylist()[::2]


@pytest.mark.parametrize("name", ["o.parquet", "o.arrow"])
@pytest.mark.parametrize(("batches", "group_bytes"), [(1_024, 64 << 20), (4, 64 << 20), (4, 300)])
def test_rows_of_many_small_files_are_few_row_groups(
    tmp_path: Path, name: str, batches: int, group_bytes: int
) -> None:
    files = [rows_of(write(tmp_path / f"{n}.parquet", table(3 * n, 3)), [0, 2]) for n in range(20)]
    out, reported = io.BytesIO(), list[int]()
    with (
        mock.patch.object(table_copy, "BATCHES_MAX", batches),
        mock.patch.object(table_copy, "GROUP_BYTES", group_bytes),
    ):
        copy_rows(files, name, out, REMEDY, progress=reported.append)
    data = pa.py_buffer(out.getvalue())
    if name == "o.parquet":
        found = parquet.ParquetFile(data)
        parts, rows = found.metadata.num_row_groups, found.read()
    else:
        opened = pa.ipc.open_file(data)
        parts, rows = opened.num_record_batches, opened.read_all()
    assert rows["url"].to_pylist() == [f"u{3 * n + row}" for n in range(20) for row in (0, 2)]
    assert parts == len(reported)
    assert reported[-1] == 40
    assert parts == 1 if group_bytes > 300 else 1 < parts < 20, parts


def test_memory_is_bounded_by_row_groups_not_by_the_file(tmp_path: Path) -> None:
    body = "x" * 10_000  # which compresses to nothing
    rows = pa.table({"url": [str(number) for number in range(6_000)], "body": [body] * 6_000})
    path = tmp_path / "large.parquet"
    parquet.write_table(rows, path, row_group_size=6_000, use_dictionary=False, compression="zstd")
    chosen = rows_of(path, range(0, 6_000, 2))
    del rows
    with mock.patch.object(table_copy, "GROUP_BYTES", 2 << 20):
        before, peak = pa.total_allocated_bytes(), 0

        def note(_written: int) -> None:
            nonlocal peak
            peak = max(peak, pa.total_allocated_bytes() - before)

        with (tmp_path / "out.parquet").open("wb") as out:
            copy_rows([chosen], "out.parquet", out, REMEDY, progress=note)
    assert parquet.read_metadata(tmp_path / "out.parquet").num_rows == 3_000
    assert peak < 24 << 20, peak  # of 60 MB
