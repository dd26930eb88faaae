"""Rows of Parquet and Arrow files: a row becomes a JSON object, and is read as a line of JSON is.

So fields are found by the same pointers: `/text` is a column, `/meta/url` a field of a struct. Of a
wide table only the columns that are needed are read, except in its first rows, which show a wrong
field mapping. A row's ordinal is its number in the file. The next rows are decoded in a thread,
while those before them are judged.

A file is known again by what it says of itself after its rows (Parquet) or before them (Arrow):
the places, sizes and extremes of all its parts. So a run that is taken up goes straight to the part
where it was, and reads nothing before it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from streamer.errors import InputError, needs_extra
from streamer.pages import chunk as chunks
from streamer.pages.bytestream import ByteStream, Mark
from streamer.pages.chunk import Chunk, Ending
from streamer.pages.extras import pa, parquet
from streamer.pages.records import InputFile, Records
from streamer.pages.remote import RemoteFile
from streamer.pages.rows import check_columns
from streamer.pages.table_lines import batch_lines
from streamer.text.slices import Slices

_BUFFER_BYTES = 1 << 20  # of a column, read at once
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
_Batch = Any  # a pyarrow.RecordBatch: pyarrow has no types


class RowGroup(NamedTuple):
    """Rows that can be read without those before them, and about how many bytes they take."""

    rows: int
    bytes: int

    @property
    def batch_rows(self) -> int:
        """Return how many of its rows are read at once."""
        size = max(1, self.bytes // max(1, self.rows))
        return max(1, min(chunks.CHUNK_RECORDS_MAX, chunks.CHUNK_BYTES_MAX // size))


@dataclass(frozen=True, slots=True)
class OpenTable:
    """An open file: what it has, its `digest`, and how rows of a part are read, in batches."""

    schema: Any  # a pyarrow.Schema
    parts: Sequence[RowGroup]
    digest: str
    read: Callable[[int, int, list[str]], Iterator[_Batch]]  # a part, rows a batch, columns
    close: Callable[[], None]

    def batches(
        self, part: int, rows: int, columns: list[str], end: int
    ) -> Iterator[tuple[int, _Batch]]:
        """Yield the batches of a part up to a row, and where in it each begins.

        Raises:
            OSError: the part has fewer rows.
        """
        at = 0
        for batch in self.read(part, rows, columns):
            yield at, batch
            at += batch.num_rows
            if at >= end:
                return
        raise OSError(f"it has {at:,} of {end:,} rows")


def columns_read(names: Sequence[str], wanted: frozenset[str] | None) -> list[str]:
    """Return the columns that have wanted fields; None: all. Bytes become a field in base64."""
    return [
        name for name in names if wanted is None or not wanted.isdisjoint((name, f"{name}_base64"))
    ]


def needs_arrow() -> None:
    """Raise SettingsError where pyarrow is not installed."""
    with needs_extra("parquet", "Reading Parquet and Arrow files"):
        importlib.import_module("pyarrow")


def open_table_records(file: InputFile, stream: ByteStream, kind: str) -> TableRecords:
    """Return the rows of a file of a `kind`: Parquet, or an Arrow IPC file or stream.

    Raises:
        InputError: it cannot be opened.
        SettingsError: pyarrow is not installed.
    """
    needs_arrow()
    if not stream.status[0]:
        raise InputError(f"{file.name}: is empty, and so no {kind} file; copy the file again")
    try:
        table = open_table(stream.place, is_arrow=kind == "Arrow")
        check_columns(f"{file.name}:", table.schema.names)
    except arrow_errors() as error:
        why = said_by(error)
        raise InputError(f"{file.name}: is no whole {kind} file ({why}); copy it again") from error
    return TableRecords(file, stream, table)


def open_table(place: str | RemoteFile, *, is_arrow: bool) -> OpenTable:
    """Open a Parquet or an Arrow file for its rows as they are; raises `arrow_errors`."""
    return _arrow(place) if is_arrow else _parquet(place)


def schema_of(place: str | RemoteFile, *, is_arrow: bool) -> Any:  # noqa: ANN401 - a pyarrow.Schema
    """Return the columns and types of a file; raises `arrow_errors`."""
    if is_arrow:
        with _arrow_source(place) as source:
            return _ArrowBatches(source).schema
    with parquet_file(place) as opened:
        return opened.schema_arrow


def _arrow_source(place: str | RemoteFile) -> Any:  # noqa: ANN401 - a pyarrow.NativeFile
    return pa.memory_map(place) if isinstance(place, str) else pa.PythonFile(place)


def _parquet(place: str | RemoteFile) -> OpenTable:
    opened = parquet_file(place)
    # All else about a group is by column, where damage ends the process.
    groups = [opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups)]
    parts = [RowGroup(group.num_rows, max(0, group.total_byte_size)) for group in groups]

    def read(part: int, rows: int, columns: list[str]) -> Iterator[_Batch]:
        # Columns are read one after another: other threads have pages to sign meanwhile.
        options = {"row_groups": [part], "columns": columns, "use_threads": False}
        return iter(opened.iter_batches(batch_size=rows, **options))

    return OpenTable(opened.schema_arrow, parts, _footer_digest(place), read, opened.close)


def parquet_file(place: str | RemoteFile) -> Any:  # noqa: ANN401 - a pyarrow.parquet.ParquetFile
    """Open a Parquet file so that a column is read by its pages, not by whole row groups."""
    return parquet.ParquetFile(place, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def _footer_digest(place: str | RemoteFile) -> str:
    """Return the digest of a Parquet file's footer, whose length is at the end."""
    with Path(place).open("rb") if isinstance(place, str) else nullcontext(place) as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        return xxhash.xxh3_128_hexdigest(file.read(length))


def _arrow(place: str | RemoteFile) -> OpenTable:
    source = _arrow_source(place)
    batches = _ArrowBatches(source)
    # They may be compressed, so none is kept.
    parts = [RowGroup(each.num_rows, each.get_total_buffer_size()) for each in batches.all()]

    def read(part: int, rows: int, columns: list[str]) -> Iterator[_Batch]:
        batch = batches.at(part).select(columns)
        return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    layout = repr([batches.schema.serialize().to_pybytes(), parts]).encode()
    digest = xxhash.xxh3_128_hexdigest(layout)
    return OpenTable(batches.schema, parts, digest, read, source.close)


class _ArrowBatches:
    """The record batches of an Arrow file, or of a stream, which has no list of them."""

    def __init__(self, source: Any) -> None:  # noqa: ANN401 - a pyarrow.NativeFile
        self._source = source
        try:
            self._file = pa.ipc.open_file(source)
            self.schema = self._file.schema
        except pa.ArrowInvalid:
            self._file = None
            self.schema = self._begin().schema

    def _begin(self) -> Any:  # noqa: ANN401 - a pyarrow.RecordBatchStreamReader
        self._source.seek(0)
        self._next, self._stream = 0, pa.ipc.open_stream(self._source)
        return self._stream

    def all(self) -> Iterator[_Batch]:
        """Yield all batches.

        Raises:
            OSError: a stream was not ended by its writer, or something follows its end.
        """
        if self._file is not None:
            yield from map(self._file.get_batch, range(self._file.num_record_batches))
            return
        for batch in self._begin():
            self._next += 1
            yield batch
        self._source.seek(self._source.tell() - len(_STREAM_END))
        if self._source.read(len(_STREAM_END) + 1) != _STREAM_END:
            raise OSError("its stream has no end, or something follows that")

    def at(self, number: int) -> _Batch:
        """Return a batch; of a stream those before it are skipped."""
        if self._file is not None:
            return self._file.get_batch(number)
        if self._next > number:
            self._begin()
        while self._next <= number:
            batch = self._stream.read_next_batch()
            self._next += 1
        return batch


class TableRecords(Records):
    """The rows of an open table, as JSON lines."""

    def __init__(self, file: InputFile, stream: ByteStream, table: OpenTable) -> None:
        super().__init__(file, stream)
        self._table = table
        self._place = Mark()
        self._decoder = ThreadPoolExecutor(1, "decode")

    def __exit__(self, *_error: object) -> None:
        self._decoder.shutdown()  # what it reads must be open
        self._table.close()
        super().__exit__()

    def mark(self) -> Mark:
        """As in `Records`; its offset is a number of rows."""
        return self._place

    def follow(self, mark: Mark) -> Iterator[int]:
        """As in `Records`: at once, if the file says of itself what it said then."""
        self._place = Mark(mark.offset, self._table.digest)
        return iter(())

    def chunks(self, start: int, ending: Ending, *, complete: bool = True) -> Iterator[Chunk]:
        """As in `Records`; there is no record without an end."""
        del complete
        scale = self.status[0] / max(1, sum(part.bytes for part in self._table.parts))
        rows = self._read_all_rows(start, ending)
        making = self._decoder.submit(next, rows, None)
        while (made := making.result()) is not None:
            making = self._decoder.submit(next, rows, None)  # one ahead
            first, lines, done = made
            yield from self._chunks_of(first, lines, int(scale * done))

    def _read_all_rows(self, start: int, ending: Ending) -> Iterator[tuple[int, Slices, float]]:
        """Yield the rows from one on, as far as the file can be read; `ending` notes why no more.

        That is rows from a number on, and how many bytes the parts take up to their end.
        """
        begin, before = 0, 0
        for number, part in enumerate(self._table.parts):
            try:
                for own, rows, columns in self._ranges(number, part):
                    wanted = range(max(own.start, start - begin), own.stop)
                    if not wanted:
                        continue
                    for at, batch in self._table.batches(number, rows, columns, wanted.stop):
                        first, end = max(at, wanted.start), min(at + batch.num_rows, wanted.stop)
                        if first < end:
                            lines = batch_lines(batch.slice(first - at, end - first))
                            yield begin + first, lines, before + part.bytes * end / part.rows
            except arrow_errors() as error:
                ending.damage = f"part {number + 1} of {len(self._table.parts)}: {said_by(error)}"
                return
            begin += part.rows
            before += part.bytes

    def _ranges(self, number: int, part: RowGroup) -> list[tuple[range, int, list[str]]]:
        """Return which rows of a part are read together: how many at once, of which columns.

        Batches have the same rows wherever the reading begins.
        """
        all_names = self._table.schema.names
        own = columns_read(all_names, self._file.columns)
        has_all = number or len(own) == len(all_names)
        head = 0 if has_all else min(chunks.HEAD_RECORDS_MAX, part.rows)
        return [(range(head), head, all_names), (range(head, part.rows), part.batch_rows, own)]

    def _chunks_of(self, first: int, lines: Slices, amount: int) -> Iterator[Chunk]:
        """Yield lines as chunks; each that is over the page limit is a dead letter, alone."""
        limit = self._file.page_bytes_max
        begin = 0
        for over in [*np.flatnonzero(lines.lengths > limit).tolist(), len(lines)]:
            if begin < over:
                yield self._chunk(first + begin, first + over, amount, lines=lines[begin:over])
            if over < len(lines):
                line = lines[over]
                dead = chunks.over_limit(first + over, line, len(line))
                yield self._chunk(first + over, first + over + 1, amount, dead=[dead])
            begin = over + 1

    def _chunk(self, start: int, end: int, amount: int, **records: Any) -> Chunk:  # noqa: ANN401 - lines, or dead letters
        self._place = Mark(end, self._table.digest)
        return Chunk(start, end, amount, mark=self._place, **records)


def arrow_errors() -> tuple[type[Exception], ...]:
    """Return what is raised for files that cannot be read, also for names that are no UTF-8."""
    return pa.ArrowException, OSError, UnicodeDecodeError


def said_by(error: Exception) -> str:
    """Return the first line of an error, after which there may be many."""
    return str(error).partition("\n")[0]
