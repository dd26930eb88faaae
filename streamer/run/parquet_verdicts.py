"""Verdicts as Parquet: the columns of the table in CSV, with types.

A Parquet file can be read only once its footer is there, after all rows. So a run writes its
verdicts as compressed JSON lines next to the file, exactly once as all outputs, and makes the
Parquet file of all of these lines when it ends. That file replaces the one before in one step: a
reader finds a whole file or none, whatever kill came between. An index needs the lines to continue.
Columns of near misses are there if a line has any.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from streamer.errors import InputError, needs_extra
from streamer.model import VERDICT_SCHEMA
from streamer.pages.tables import arrow_errors, parquet_file, said_by
from streamer.run.outputs import Claim, OutputSink, complete_output, read_lines_within
from streamer.run.table import Cell, cells, columns_of, nest
from streamer.run.verdict_lines import ReadVerdict

_BATCH_ROWS, _GROUP_BATCHES = 4096, 16  # a row group has 65,536 verdicts, about 20 MB in memory


_decode = msgspec.json.Decoder(ReadVerdict).decode
_encode = msgspec.json.Encoder().encode


def verdict_schema(*, near: bool) -> Any:  # noqa: ANN401 - a pyarrow.Schema
    """Return the columns of verdicts as Parquet and their types."""
    with needs_extra("parquet", "Verdicts as Parquet"):
        import pyarrow as pa  # noqa: PLC0415 - an extra
    columns = columns_of(near=near)
    fields = [pa.field(each.name, each.arrow, each.optional) for each in columns]
    return pa.schema(fields, {"schema": VERDICT_SCHEMA})


@dataclass(frozen=True)
class VerdictTable:
    """Verdicts as Parquet, made of the file of all their lines."""

    name: str
    lines: Path

    @property
    def amount(self) -> None:
        """Return nothing: how many verdicts there are is not known before."""

    def write(self, progress: Callable[[int], None], claim: Claim) -> None:
        """Make the file; `claim` is as for `complete_output`.

        Raises:
            StreamerError: it cannot be written.
            InputError: the lines are damaged.
        """
        from pyarrow import parquet  # noqa: PLC0415 - an extra

        try:
            near = any(b'"nearest' in line for line in _lines_of(self.lines))
            schema = verdict_schema(near=near)
            with (
                complete_output(self.name, claim) as file,
                parquet.ParquetWriter(OutputSink(file), schema, compression="zstd") as writer,
            ):
                rows = 0
                for group in _groups(self.lines, schema, near=near):
                    writer.write_table(group)
                    progress(rows := rows + len(group))
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"{self.lines}: {why}; put the file back") from error


def _lines_of(path: Path) -> Iterator[bytes]:
    return read_lines_within(path, path.stat().st_size)


def _groups(lines: Path, schema: Any, *, near: bool) -> Iterator[Any]:  # noqa: ANN401 - a pyarrow.Schema, Tables
    """Yield the verdicts of a file of JSON lines as tables, a row group each."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    rows = (list(cells(_decode(line), near=near)) for line in _lines_of(lines))
    parts = iter(lambda: list(islice(rows, _BATCH_ROWS)), [])
    batches = (batch_of(part, schema) for part in parts)
    while group := list(islice(batches, _GROUP_BATCHES)):
        yield pa.Table.from_batches(group, schema)


def batch_of(rows: Iterable[Iterable[Cell]], schema: Any) -> Any:  # noqa: ANN401 - as _groups
    """Return rows as a batch of Arrow."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.record_batch([pa.array(column, each.type) for column, each in columns], schema)


def lines_of_parquet(path: Path) -> Iterator[bytes]:
    """Yield the verdicts of a Parquet file as the lines of JSON that they were.

    Raises:
        InputError: the file cannot be read, or lacks a column of verdicts.
    """
    try:
        with needs_extra("parquet", "Reading verdicts from Parquet"):
            opened = parquet_file(str(path))
        with closing(opened):
            has = set(opened.schema_arrow.names)
            missing = [each.name for each in columns_of(near=False) if each.name not in has]
            if missing:
                raise InputError(f"{path}: not a file of verdicts (no column {missing[0]!r})")
            there = [each.name for each in columns_of(near=True) if each.name in has]
            for batch in opened.iter_batches(_BATCH_ROWS, columns=there):
                yield from (_encode(nest(row)) + b"\n" for row in batch.to_pylist())
    except arrow_errors() as error:
        raise InputError(f"{path}: is damaged ({said_by(error)}); copy the file again") from error
