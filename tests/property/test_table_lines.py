"""Rows of tables become the JSON lines that msgspec makes of a dictionary for each row."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.pages.table_lines import ABSENT, NULL, Cells, batch_lines, json_objects
from streamer.text.slices import Slices

ENCODER = msgspec.json.Encoder()

runs = st.sampled_from(["x" * 31, "y" * 32, "é" * 16, 'a"b\\c' * 7, "\x00\x1f\n\t\r\b\f\x7f"])
texts = st.lists(runs | st.text(max_size=4), max_size=4).map("".join)
names = st.text(max_size=3)
odd_bytes = st.binary(max_size=4) | texts.map(str.encode)
TEXT, RAW = "text", "raw"
cells = st.sampled_from([None, ABSENT]) | texts
Column = tuple[str, str, list[Any]]


def columns_of(rows: int) -> st.SearchStrategy[list[Column]]:
    kinds = st.sampled_from([TEXT, RAW])
    column = st.tuples(names, kinds, st.lists(cells, min_size=rows, max_size=rows))
    return st.lists(column, max_size=4, unique_by=lambda each: each[0])


def made(name: str, kind: str, column: list[Any]) -> Cells:
    """Return a column as the kernels take it."""
    values = ["" if cell == ABSENT else cell for cell in column]
    held = (
        [b"" if value is None else value.encode() for value in values]
        if kind == TEXT
        else [ENCODER.encode(value) for value in values]
    )
    block = Slices.joined(held)
    starts = block.starts.copy()
    if kind == TEXT:
        starts[[cell is None for cell in column]] = NULL
    starts[[cell == ABSENT for cell in column]] = ABSENT
    return Cells(name, block.data, starts, block.ends, is_text=kind == TEXT)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 5).flatmap(lambda rows: st.tuples(st.just(rows), columns_of(rows))))
@example((2, []))
@example((2, [("a", TEXT, [ABSENT, None])]))
@example((128, [("each byte", TEXT, [f"{'x' * 20}{chr(i)}{'y' * 20}" for i in range(128)])]))
def test_objects_are_those_of_an_encoder(table: tuple[int, list[Column]]) -> None:
    rows, columns = table
    found = json_objects([made(*column) for column in columns], rows)
    wanted = [
        {name: column[row] for name, _, column in columns if column[row] != ABSENT}
        for row in range(rows)
    ]
    assert list(found) == [ENCODER.encode(row) + b"\n" for row in wanted]
    assert np.array_equal(found.starts[1:], found.ends[:-1])  # nothing in between


def expected(batch: Any, kinds: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a batch of text and bytes, whose cells are given as bytes."""
    rows = []
    for row in batch.to_pylist():
        other = {}
        for name, cell in [*row.items()]:
            if cell is None:
                continue
            try:
                row[name] = cell.decode()
            except UnicodeDecodeError:
                row[name] = cell.decode(errors="replace")
                if pa.types.is_binary(kinds[name]) or pa.types.is_large_binary(kinds[name]):
                    del row[name]
                    other[f"{name}_base64"] = cell
        rows.append(row | other)
    return rows


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(*[st.none() | odd_bytes] * 4), min_size=1, max_size=6), st.integers(0, 5))
def test_cells_of_text_and_bytes_are_what_python_makes_of_them(
    rows: list[tuple[bytes | None, ...]], skipped: int
) -> None:
    kinds = {"s": pa.string(), "S": pa.large_string(), "b": pa.binary(), "B": pa.large_binary()}
    stored = {
        name: pa.array(column, pa.large_binary() if name.isupper() else pa.binary())
        for (name, column) in zip(kinds, zip(*rows, strict=True), strict=True)
    }
    views = [stored[name].view(kind) for name, kind in kinds.items()]
    batch = pa.RecordBatch.from_arrays(views, names=[*kinds]).slice(skipped)
    plain = pa.RecordBatch.from_arrays([*stored.values()], names=[*kinds]).slice(skipped)
    wanted = [ENCODER.encode(row) + b"\n" for row in expected(plain, kinds)]
    assert list(batch_lines(batch)) == wanted
