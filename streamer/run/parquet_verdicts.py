"""Verdicts as Parquet: the columns of the table in CSV, with types.

A Parquet file can be read only once its footer is there, behind all rows. So a run writes its
verdicts as compressed JSON lines next to the file, exactly once as all outputs, and makes the
Parquet file of all of these lines when it ends. That file replaces the one before in one step: a
reader finds a whole file or none, whatever kill came between. An index needs the lines to continue.
Columns of near misses are there if a line has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from streamer.compression import is_parquet
from streamer.errors import InputError, needs_extra
from streamer.model import VERDICT_SCHEMA, Verdict
from streamer.pages.tables import arrow_errors, parquet_file, said_by
from streamer.run.outputs import LINES_SUFFIX, Claim, OutputSink, complete_output, lines_within
from streamer.run.table import COLUMNS, cells, columns_of

_BATCH_ROWS, _GROUP_BATCHES = 4096, 16  # a row group has 65,536 verdicts, about 20 MB in memory
_NUMBERS = {
    "page_partition": "int64", "page_offset": "int64", "similarity": "double",
    "representative_partition": "int64", "representative_offset": "int64", "same_url": "bool",
    "text_bytes": "int64", "exact": "bool", "change_similarity": "double",
    "nearest_partition": "int64", "nearest_offset": "int64", "nearest_similarity": "double",
    "nearest_exact": "bool", "nearest_min": "double",
}  # fmt: skip
_ALWAYS = {
    "page_topic", "page_partition", "page_offset", "url", "verdict", "basis", "same_url",
    "text_bytes", "index",
}  # fmt: skip


class _Line(Verdict, frozen=True):
    """A verdict whose carried fields stay the JSON that they are."""

    carried: msgspec.Raw = msgspec.Raw(b"{}")  # type: ignore[assignment]


_decode = msgspec.json.Decoder(_Line).decode
_encode = msgspec.json.Encoder().encode


def lines_name(name: str) -> str:
    """Return the name of the JSON lines of which the Parquet file of this name is made."""
    return f"{name}{LINES_SUFFIX}"


def verdicts_of(name: str) -> str:
    """Return the name of the Parquet file that is made of a file's lines; of others their own."""
    table = name.removesuffix(LINES_SUFFIX)
    return table if is_parquet(table) else name


def verdict_schema(*, near: bool) -> Any:  # noqa: ANN401 - a pyarrow.Schema
    """Return the columns of verdicts as Parquet and their types."""
    with needs_extra("parquet", "Verdicts as Parquet"):
        import pyarrow as pa  # noqa: PLC0415 - an extra
    fields = [
        pa.field(name, _NUMBERS.get(name, "string"), nullable=name not in _ALWAYS)
        for name in columns_of(near=near)
    ]
    return pa.schema(fields, {"schema": VERDICT_SCHEMA})


def write_parquet(name: str, lines: Path, claim: Claim | None = None) -> None:
    """Make the Parquet file of this name from the file of all its lines.

    `claim` is as for `complete_output`.

    Raises:
        StreamerError: it cannot be written.
        InputError: the lines are damaged.
    """
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    try:
        near = any(b'"nearest' in line for line in _lines_of(lines))
        schema = verdict_schema(near=near)
        with (
            complete_output(name, claim) as file,
            parquet.ParquetWriter(OutputSink(file), schema, compression="zstd") as writer,
        ):
            for group in _groups(lines, schema, near=near):
                writer.write_table(group)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{lines}: {why}; put the file back") from error


def _lines_of(path: Path) -> Iterator[bytes]:
    return lines_within(path, path.stat().st_size)


def _groups(lines: Path, schema: Any, *, near: bool) -> Iterator[Any]:  # noqa: ANN401 - a pyarrow.Schema, Tables
    """Yield the verdicts of a file of JSON lines as tables, a row group each."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    rows = (list(cells(_decode(line), near=near)) for line in _lines_of(lines))
    group = []
    while batch := list(islice(rows, _BATCH_ROWS)):
        columns = zip(*batch, strict=True)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
        group.append(pa.record_batch(arrays, schema=schema))
        if len(group) == _GROUP_BATCHES:
            yield pa.Table.from_batches(group, schema)
            group = []
    if group:
        yield pa.Table.from_batches(group, schema)


def lines_of_parquet(path: Path) -> Iterator[bytes]:
    """Yield the verdicts of a Parquet file as the lines of JSON that they were.

    Raises:
        InputError: the file cannot be read, or lacks a column of verdicts.
    """
    try:
        with needs_extra("parquet", "Reading verdicts from Parquet"):
            opened = parquet_file(str(path))
        with closing(opened):
            missing = [name for name in COLUMNS if name not in opened.schema_arrow.names]
            if missing:
                raise InputError(f"{path}: not a file of verdicts (no column {missing[0]!r})")
            there = [name for name in columns_of(near=True) if name in opened.schema_arrow.names]
            for batch in opened.iter_batches(_BATCH_ROWS, columns=there):
                yield from (_encode(_nested(row)) + b"\n" for row in batch.to_pylist())
    except arrow_errors() as error:
        raise InputError(f"{path}: is damaged ({said_by(error)}); copy the file again") from error


def _nested(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a verdict from its row, in their order."""
    same = ("url", "verdict", "basis", "similarity", "representative", "same_url", "text_bytes")
    other = None
    if row["representative_topic"] is not None:
        other = {"page": _place(row, "representative"), "url": row["representative_url"]}
        if row["representative_index"] is not None:
            other["index"] = row["representative_index"]
    row["representative"] = other
    found = {"page": _place(row, "page")} | {name: row[name] for name in (*same, "index")}
    found["carried"] = msgspec.Raw((row["carried"] or "{}").encode())
    for name in ("text", "change", "change_similarity", "exact"):
        if row[name] is not None or (name == "change_similarity" and row["change"] is not None):
            found[name] = row[name]
    if (least := row.get("nearest_min")) is not None or row.get("nearest_topic") is not None:
        found["nearest"] = _nearest(row)
    if least is not None:
        found["nearest_min"] = least
    return found | {"schema": VERDICT_SCHEMA}


def _nearest(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the field of that name; None where no page was near."""
    if row["nearest_topic"] is None:
        return None
    found = {"page": _place(row, "nearest"), "url": row["nearest_url"]}
    optional = ("index", "similarity", "exact")
    given = {name: row[f"nearest_{name}"] for name in optional}
    return found | {name: value for name, value in given.items() if value is not None}


def _place(row: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name: row[f"{prefix}_{name}"] for name in ("topic", "partition", "offset")}
