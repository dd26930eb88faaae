"""Rows of Parquet files, chosen by their numbers, as a Parquet file with the same columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from io import RawIOBase
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from streamer.errors import InputError
from streamer.pages.remote import RemoteObject
from streamer.pages.tables import arrow_errors, parquet_file, said_by

GROUP_BYTES = 64 << 20  # of a row group that is written, before compression
_BATCH_ROWS = 1024

Ordinals = npt.NDArray[np.uint64]


def copy_rows(
    chosen: Mapping[str, Ordinals],
    out: IO[bytes] | RawIOBase,
    remote: Mapping[str, RemoteObject | None] | None = None,
) -> None:
    """Write rows of files, by their ascending ordinals, in the order of the files.

    Columns, types and metadata are those of the first file. `remote` has those of the files that
    are not on this machine.

    Raises:
        InputError: a file cannot be read, or has other columns than the first one.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    first, schema, writer = "", None, None
    try:
        for name, ordinals in chosen.items():
            with closing(_opened(name, (remote or {}).get(name))) as opened:
                if writer is None:
                    first, schema = name, opened.schema_arrow
                    writer = parquet.ParquetWriter(out, schema, compression="zstd")
                elif not opened.schema_arrow.equals(schema):
                    raise InputError(
                        f"{name}: has other columns than {first}, or other types. Select it into "
                        "an output of its own, with --some."
                    )
                for group in _groups(name, opened, ordinals):
                    writer.write_table(pa.Table.from_batches(group, schema))
    finally:
        if writer is not None:
            writer.close()


def _opened(name: str, remote: RemoteObject | None) -> Any:  # noqa: ANN401 - a pyarrow.parquet.ParquetFile
    try:
        return parquet_file(remote.open() if remote else name)
    except arrow_errors() as error:
        raise _unreadable(name, error) from error


def _groups(name: str, opened: Any, ordinals: Ordinals) -> Iterator[list[Any]]:  # noqa: ANN401 - as above
    """Yield the chosen rows of a file as batches, as many together as make a row group."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    group: list[Any] = []
    start = size = 0
    batches = opened.iter_batches(batch_size=_BATCH_ROWS)
    while True:
        try:
            batch = next(batches, None)
        except arrow_errors() as error:
            raise _unreadable(name, error) from error
        if batch is None:
            break
        begin, end = np.searchsorted(ordinals, [start, start + batch.num_rows]).tolist()
        if begin < end:
            group.append(batch.take(pa.array(ordinals[begin:end] - np.uint64(start))))
            size += group[-1].nbytes
        start += batch.num_rows
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _unreadable(name: str, error: Exception) -> InputError:
    return InputError(f"{name}: cannot be read as Parquet ({said_by(error)}); copy the file again")
