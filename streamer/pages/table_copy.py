"""Rows of Parquet and Arrow files, chosen by their numbers, as one file with the same columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import InputError, SettingsError
from streamer.pages.files import ARROW, PARQUET, Source, format_by_name
from streamer.pages.remote import RemoteFile, RemoteObject
from streamer.pages.tables import OpenTable, arrow_errors, open_table, said_by, schema_of

GROUP_BYTES = 64 << 20  # of a row group that is written, before compression
_SCHEMAS_AT_ONCE = 16  # files that are looked at, mostly to wait for a store
_HEAD_BYTES = 8  # tell Parquet from Arrow

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

    @classmethod
    def of(cls, source: Source) -> TableFile | None:
        """Return the table that a source is; None: it is none.

        Raises:
            InputError: the source cannot be read.
        """
        kind = source.likely_format(_HEAD_BYTES)
        if kind not in {PARQUET, ARROW}:
            return None
        return cls(source.name, source.name, kind is ARROW, source.remote)


class ChosenRows(NamedTuple):
    """Rows of a file, by their ascending ordinals."""

    file: TableFile
    ordinals: Ordinals


def is_table_name(name: str) -> bool:
    """Tell by its name whether a file has rows with columns and types: Parquet or Arrow."""
    return format_by_name(name) in {PARQUET, ARROW}


def common_schema(name: str, files: Sequence[TableFile], remedy: str) -> Schema:
    """Return the schema of a table `name` of rows of these files: that of the first one.

    Raises:
        InputError: a file cannot be read, or is another one than its digest says.
        SettingsError: one has other columns than the first, or the format has no such type;
            `remedy` says what to do about other columns.
    """
    with ThreadPoolExecutor(_SCHEMAS_AT_ONCE, "schema") as pool:
        schemas = pool.map(_schema_of, files)
        first = next(schemas)
        for file, schema in zip(files[1:], schemas, strict=True):
            _check_same(file, schema, files[0], first, remedy)
    _writer(name, io.BytesIO(), first).close()
    return first


def _check_same(
    file: TableFile, schema: Schema, first: TableFile, wanted: Schema, remedy: str
) -> None:
    if not schema.equals(wanted):
        raise SettingsError(
            f"{file.name} has other columns than {first.name}, or other types. {remedy}"
        )


def _schema_of(file: TableFile) -> Schema:
    if file.digest:
        with _opened(file) as table:
            return table.schema
    with _place(file) as place, _explained(file):
        return schema_of(place, is_arrow=file.is_arrow)


def copy_rows(
    chosen: Iterable[ChosenRows],
    name: str,
    out: IO[bytes] | io.RawIOBase,
    remedy: str,
    metadata: Mapping[bytes, bytes] = {},
    progress: Progress = lambda _rows: None,
) -> None:
    """Write rows of files, in this order, to `out`, a table by its `name`.

    Columns, types and metadata are those of the first file, with `metadata` more. `progress` is
    told how many rows have been written.

    Raises:
        InputError: a file cannot be read, or is another one than its digest says.
        SettingsError: as `common_schema`.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra

    written = 0
    with ExitStack() as stack:
        writer, first, schema = None, None, None
        for file, ordinals in chosen:
            with _opened(file) as table:
                if writer is None or first is None:
                    more = {**(table.schema.metadata or {}), **metadata}
                    first, schema = file, table.schema.with_metadata(more or None)
                    writer = stack.enter_context(_writer(name, out, schema))
                _check_same(file, table.schema, first, schema, remedy)
                for group in _groups(file, table, ordinals):
                    writer.write_table(pa.Table.from_batches(group, schema))
                    written += sum(batch.num_rows for batch in group)
                    progress(written)


def _writer(name: str, out: IO[bytes] | io.RawIOBase, schema: Schema) -> Any:  # noqa: ANN401 - of pyarrow
    """Return what writes tables of a schema.

    Raises:
        SettingsError: the format cannot hold a type.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

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
        raise SettingsError(
            f"{name} cannot hold these columns ({said_by(error)}). Name the output .arrow."
        ) from error


def _has_dictionary(kind: Any) -> bool:  # noqa: ANN401 - a pyarrow.DataType
    import pyarrow as pa  # noqa: PLC0415 - an extra

    parts = (kind.field(number).type for number in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, parts))


@contextmanager
def _place(file: TableFile) -> Iterator[str | RemoteFile]:
    """Return where a file is read."""
    if file.remote is None:
        yield file.path
        return
    with closing(file.remote.open()) as opened:
        yield opened


@contextmanager
def _opened(file: TableFile) -> Iterator[OpenTable]:
    """Open a file for its rows; raise InputError where it cannot be, or is another one now."""
    with ExitStack() as stack:
        place = stack.enter_context(_place(file))
        with _explained(file):
            table = open_table(place, is_arrow=file.is_arrow)
        stack.callback(table.close)
        if file.digest and table.digest != file.digest:
            raise InputError(has_changed(file.name))
        yield table


@contextmanager
def _explained(file: TableFile) -> Iterator[None]:
    """Turn what Arrow says about a file into our error."""
    try:
        yield
    except arrow_errors() as error:
        kind = "Arrow" if file.is_arrow else "Parquet"
        why = getattr(error, "strerror", None) or said_by(error)
        raise InputError(
            f"{file.name}: cannot be read as {kind} ({why}); copy the file again"
        ) from error


def has_changed(name: str) -> str:
    """Return the message about a file that is not the one whose rows were judged."""
    return f"{name}: has changed since its rows were judged; put that file back"


def _groups(file: TableFile, table: OpenTable, ordinals: Ordinals) -> Iterator[list[Any]]:
    """Yield the chosen rows of a file as batches, as many together as make a row group.

    Parts without a chosen row are not read.
    """
    group: list[Any] = []
    end = size = 0
    for number, part in enumerate(table.parts):
        start, end = end, end + part.rows
        first, last = np.searchsorted(ordinals, np.array([start, end], np.uint64)).tolist()
        if first == last:
            continue
        batches = iter(table.read(number, part.batch_rows, table.names))
        own = ordinals[first:last]
        while len(own):
            with _explained(file):
                batch = next(batches, None)
                if batch is None:
                    raise OSError(f"part {number + 1} has fewer than {part.rows:,} rows")
            taken = int(np.searchsorted(own, np.uint64(start + batch.num_rows)))
            if taken:
                group.append(batch.take(_indices(own[:taken] - np.uint64(start))))
                size += group[-1].nbytes
            own, start = own[taken:], start + batch.num_rows
            if size >= GROUP_BYTES:
                yield group
                group, size = [], 0
    if group:
        yield group


def _indices(rows: Ordinals) -> Any:  # noqa: ANN401 - a pyarrow.UInt64Array
    """Return numbers of rows for Arrow; `pyarrow.array` would import pandas for them."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return pa.Array.from_buffers(pa.uint64(), len(rows), [None, pa.py_buffer(rows)])
