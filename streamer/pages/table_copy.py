"""Rows of Parquet and Arrow files, chosen by their numbers, as one file with the same columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import InputError, SettingsError
from streamer.pages.extras import pa, parquet
from streamer.pages.formats import ARROW, format_by_name
from streamer.pages.remote import RemoteFile, RemoteObject
from streamer.pages.tables import OpenTable, arrow_errors, open_table, said_by, schema_of

GROUP_BYTES = 64 << 20  # of a row group that is written, before compression
BATCHES_MAX = 1024  # that wait for it, before they become one
_SCHEMAS_AT_ONCE = 16  # files that are looked at, mostly to wait for a store

Ordinals = npt.NDArray[np.uint64]
Schema = Any  # a pyarrow.Schema: pyarrow has no types
Progress = Callable[[int], None]


class TableFile(NamedTuple):
    """A file of rows: its `name` for messages, and where it is.

    `digest` is what the file has said of itself (`OpenTable.digest`), where that is known.
    """

    name: str
    path: str
    is_arrow: bool = False
    remote: RemoteObject | None = None
    digest: str = ""


class NewColumn(NamedTuple):
    """A column of strings that rows get: its name, and what returns those of the next rows."""

    name: str
    take: Callable[[int], list[str]]


class ChosenRows(NamedTuple):
    """Rows of a file, by their ascending ordinals."""

    file: TableFile
    ordinals: Ordinals


def common_schema(name: str, files: Sequence[TableFile], remedy: str) -> Schema:
    """Return the schema of a table `name` of rows of these files: that of the first one.

    `remedy` says what to do about other columns.

    Raises:
        InputError: a file cannot be read, or is another one than its digest says.
        SettingsError: one has other columns than the first, or the format has no such type, or
            rows of it cannot be chosen, or there is no file.
    """
    if not files:
        why = f"{name} gets the columns of the files that are read, and there are none. Give one."
        raise SettingsError(why)
    with ThreadPoolExecutor(_SCHEMAS_AT_ONCE, "schema") as pool:
        schemas = pool.map(_schema_of, files)
        first = next(schemas)
        for file, schema in zip(files[1:], schemas, strict=True):
            _check_same(file, schema, files[0], first, remedy)
    _choose_schema(first)
    _writer(name, io.BytesIO(), first).close()
    return first


def _check_same(
    file: TableFile, schema: Schema, first: TableFile, wanted: Schema, remedy: str
) -> None:
    if not schema.equals(wanted):
        why = f"{file.name} has other columns than {first.name}, or other types. {remedy}"
        raise SettingsError(why)


def _schema_of(file: TableFile) -> Schema:
    if file.digest:
        with _open(file) as table:
            return table.schema
    with _place(file) as place, _explain_failures(file):
        return schema_of(place, is_arrow=file.is_arrow)


def copy_rows(
    chosen: Iterable[ChosenRows],
    name: str,
    out: IO[bytes] | io.RawIOBase,
    remedy: str,
    metadata: Mapping[bytes, bytes] = {},
    progress: Progress = lambda _rows: None,
    column: NewColumn | None = None,
) -> None:
    """Write rows of files, in this order, to `out`, a table by its `name`.

    Columns, types and metadata are those of the first file, with `metadata` more. `progress` is
    called with how many rows have been written. `column` comes after the others.

    Raises:
        InputError: a file cannot be read, or is another one than its digest says.
        SettingsError: as `common_schema`.
    """
    with ExitStack() as stack:
        rows, first = None, None
        for file, ordinals in chosen:
            with _open(file) as table:
                if rows is None or first is None:
                    more = {**(table.schema.metadata or {}), **metadata}
                    first, schema = file, table.schema.with_metadata(more or None)
                    written = _with_column(schema, column)
                    writer = stack.enter_context(_writer(name, out, written))
                    rows = _Rows(writer, schema, progress, column)
                _check_same(file, table.schema, first, rows.schema, remedy)
                for batch, own in _choose_batches(file, table, ordinals):
                    rows.add(batch, own)
        if rows is not None:
            rows.write()


@dataclass
class _Rows:
    """Rows on their way to a file, as many together as make a row group, of one file or of many."""

    _writer: Any  # of pyarrow
    schema: Schema
    _progress: Progress
    _column: NewColumn | None

    def __post_init__(self) -> None:
        self._taken = _choose_schema(self.schema)  # of the files,
        self._written_as = _with_column(self.schema, self._column)  # and as they are written
        # A part of an Arrow file is one batch; a row group is written from many, in less memory.
        self._is_joined = isinstance(self._writer, pa.ipc.RecordBatchFileWriter)
        self._batches: list[Any] = []
        self._bytes = self._written = 0

    def add(self, batch: Any, rows: Ordinals) -> None:  # noqa: ANN401 - a pyarrow.RecordBatch
        """Take rows of a batch, by their numbers in it."""
        columns = _cast(batch.columns, self._taken)
        taken = pa.RecordBatch.from_arrays(columns, schema=self._taken).take(_indices(rows))
        if self._column is not None:
            new = pa.array(self._column.take(len(rows)), pa.large_string())
            taken = taken.append_column(self._column.name, new)
        self._batches.append(taken)
        self._bytes += taken.nbytes
        if self._bytes >= GROUP_BYTES:
            self.write()
        elif len(self._batches) >= BATCHES_MAX:
            self._batches = pa.Table.from_batches(self._batches).combine_chunks().to_batches()

    def write(self) -> None:
        """Write what was taken since the last time."""
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            if self._is_joined:
                table = table.combine_chunks()
            self._batches, self._bytes = [], 0
            columns = _cast(table.columns, self._written_as)
            self._writer.write_table(pa.Table.from_arrays(columns, schema=self._written_as))
            self._written += table.num_rows
            self._progress(self._written)


def _with_column(schema: Schema, column: NewColumn | None) -> Schema:
    return schema if column is None else schema.append(pa.field(column.name, pa.large_string()))


def _cast(columns: Iterable[Any], schema: Schema) -> list[Any]:
    """Return columns with the types of a schema."""
    pairs = zip(columns, schema.types, strict=True)
    return [each if each.type == kind else each.cast(kind) for each, kind in pairs]


def _choose_schema(schema: Schema) -> Schema:
    """Return the types with which rows are taken: Arrow takes none of views of strings.

    Raises:
        SettingsError: it takes none of a type.
    """
    fields = [each.with_type(_drop_views(each.type)) for each in schema]
    for own, field in zip(schema, fields, strict=True):
        try:
            taken = pa.nulls(0, field.type).take(_indices(np.empty(0, np.uint64)))
            taken.cast(own.type)
        except pa.ArrowException as error:
            raise SettingsError(
                f"The column {own.name!r} has the type {own.type}, of which no rows can be chosen "
                f"({said_by(error)}). Write it with another type, or name the output .jsonl."
            ) from error
    return pa.schema(fields, schema.metadata)


def _drop_views(kind: Any) -> Any:  # noqa: ANN401 - a pyarrow.DataType
    """Return a type with strings in the place of views of such."""
    if kind in {pa.string_view(), pa.binary_view()}:
        return pa.large_string() if kind == pa.string_view() else pa.large_binary()
    if not pa.types.is_nested(kind):
        return kind
    parts = [kind.field(number) for number in range(kind.num_fields)]
    parts = [each.with_type(_drop_views(each.type)) for each in parts]
    if pa.types.is_struct(kind):
        return pa.struct(parts)
    if pa.types.is_list(kind):
        return pa.list_(*parts)
    return pa.large_list(*parts) if pa.types.is_large_list(kind) else kind


def _writer(name: str, out: IO[bytes] | io.RawIOBase, schema: Schema) -> Any:  # noqa: ANN401 - of pyarrow
    """Return what writes tables of a schema.

    Raises:
        SettingsError: the format cannot hold a type.
    """
    if format_by_name(name) is ARROW:
        # A file of Arrow has one dictionary a column, and each of its parts would bring another.
        if encoded := [each.name for each in schema if _has_dictionary(each.type)]:
            raise SettingsError(
                f"The column {encoded[0]!r} has a dictionary, which {name} cannot hold. Name the "
                "output .parquet."
            )
        options = pa.ipc.IpcWriteOptions(compression="lz4")  # as pyarrow writes Feather files
        return pa.ipc.new_file(out, schema, options=options)
    try:
        return parquet.ParquetWriter(out, schema, compression="zstd")
    except pa.ArrowException as error:
        why = f"{name} cannot hold these columns ({said_by(error)}). Name the output .arrow."
        raise SettingsError(why) from error


def _has_dictionary(kind: Any) -> bool:  # noqa: ANN401 - a pyarrow.DataType
    parts = (kind.field(number).type for number in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, parts))


def _place(file: TableFile) -> AbstractContextManager[str | RemoteFile]:
    """Return where a file is read."""
    return nullcontext(file.path) if file.remote is None else RemoteFile(file.remote)


@contextmanager
def _open(file: TableFile) -> Iterator[OpenTable]:
    """Open a file for its rows; raise InputError where it cannot be, or is another one now."""
    with ExitStack() as stack:
        place = stack.enter_context(_place(file))
        with _explain_failures(file):
            table = open_table(place, is_arrow=file.is_arrow)
        stack.callback(table.close)
        if file.digest and table.digest != file.digest:
            raise InputError(has_changed(file.name))
        yield table


@contextmanager
def _explain_failures(file: TableFile) -> Iterator[None]:
    """Turn what Arrow says about a file into our error."""
    try:
        yield
    except arrow_errors() as error:
        kind = "Arrow" if file.is_arrow else "Parquet"
        why = getattr(error, "strerror", None) or said_by(error)
        said = f"{file.name}: cannot be read as {kind} ({why}); copy the file again"
        raise InputError(said) from error


def has_changed(name: str) -> str:
    """Return the message about a file that is not the one whose rows were judged."""
    return f"{name}: has changed since its rows were judged; put that file back"


def _choose_batches(
    file: TableFile, table: OpenTable, ordinals: Ordinals
) -> Iterator[tuple[Any, Ordinals]]:
    """Yield the batches of a file that have chosen rows, and the numbers of these in each.

    Parts without a chosen row are not read.
    """
    end = 0
    for number, part in enumerate(table.parts):
        start, end = end, end + part.rows
        first, last = np.searchsorted(ordinals, np.array([start, end], np.uint64)).tolist()
        if first == last:
            continue
        own = ordinals[first:last] - np.uint64(start)
        rows, columns = part.batch_rows, table.schema.names
        with _explain_failures(file):
            for at, batch in table.batches(number, rows, columns, int(own[-1]) + 1):
                rows_of = np.array([at, at + batch.num_rows], np.uint64)
                first, last = np.searchsorted(own, rows_of).tolist()
                if first < last:
                    yield batch, own[first:last] - np.uint64(at)


def _indices(rows: Ordinals) -> Any:  # noqa: ANN401 - a pyarrow.UInt64Array
    """Return numbers of rows for Arrow; `pyarrow.array` would import pandas for them."""
    return pa.Array.from_buffers(pa.uint64(), len(rows), [None, pa.py_buffer(rows)])
