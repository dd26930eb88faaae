"""Files of verdicts: as CSV and Parquet they are written, and all but CSV are read.

Verdicts as CSV are a line a verdict, flat, after a line of column names.

The columns are the fields of the type `Verdict`: a new field is a column here and in Parquet. They
are the same under all settings, except those about near misses: a table has these if it was begun
with `--near-misses`. A cell is empty where a verdict has no such field, or null there. `carried` is
JSON. True and false are 1 and 0.

Spreadsheets run a cell that begins as a formula does. So one that begins with =, +, -, @, a tab or
a carriage return gets an apostrophe before it, and one that begins with an apostrophe too: to
remove one gives any cell back as it was.

Verdicts as Parquet have the columns of the table in CSV, with types. A Parquet file can be read
only once its footer is there, after all rows. So a run writes its verdicts as compressed JSON lines
next to the file, exactly once as all outputs, and makes the Parquet file of all of these lines when
it ends. That file replaces the one before in one step: a reader finds a whole file or none,
whatever kill came between. An index needs the lines to continue. Columns of near misses are there
if a line has any.
"""

import csv
import io
import os
import shutil
import tempfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, TypeVar, cast

import msgspec
from msgspec import inspect

from streamer.compression import is_parquet, unpack, zstd
from streamer.errors import InputError, SettingsError, needs_extra
from streamer.index.messages import Verdicts
from streamer.model import VERDICT_SCHEMA, Verdict
from streamer.pages.stored_file import explaining_disk
from streamer.pages.tables import arrow_errors, parquet_file, said_by
from streamer.run.output_checks import is_table
from streamer.run.outputs import Claim, OutputSink, complete_output, read_lines_within
from streamer.run.stages import Locate, verdicts
from streamer.run.verdict_lines import ReadVerdict, VerdictCheck, VerdictLine, check_regular

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")

# A verdict that has the one has the other too, if only as null.
_NULL_WITH = {"change_similarity": "change", "nearest": "nearest_min"}
_ARROW: dict[type[inspect.Type], str] = {
    inspect.StrType: "string", inspect.EnumType: "string", inspect.DictType: "string",
    inspect.IntType: "int64", inspect.FloatType: "double", inspect.BoolType: "bool",
}  # fmt: skip
_SHAPE = cast(inspect.StructType, inspect.type_info(Verdict))

Cell = str | int | float | None
Said = TypeVar("Said", Verdict, VerdictLine)


class VerdictColumn(NamedTuple):
    """A column of verdicts: a field of theirs, or of a place or a page that such a field holds.

    Attributes:
        name: that of the path, without the `page` of another page: representative_offset.
        path: the names of the fields that lead to it.
        arrow: the name of its type in Parquet.
        optional: whether a verdict may have nothing there.
    """

    name: str
    path: tuple[str, ...]
    arrow: str
    optional: bool


def _columns(
    shape: inspect.StructType, path: tuple[str, ...], *, optional: bool
) -> Iterator[VerdictColumn]:
    for field in shape.fields:
        here, may_lack = (*path, field.name), optional or not field.required
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        may_lack |= len(kinds) > 1
        if isinstance(kinds[0], inspect.StructType):
            yield from _columns(kinds[0], here, optional=may_lack)
        elif here != ("schema",):
            name = "_".join(here[:1] + tuple(each for each in here[1:] if each != "page"))
            yield VerdictColumn(name, here, _ARROW[type(kinds[0])], may_lack)


_ALL = [*_columns(_SHAPE, (), optional=False)]
_WITHOUT_NEAR = [each for each in _ALL if not each.name.startswith("nearest_")]


def columns_of(*, near: bool) -> list[VerdictColumn]:
    """Return the columns, with those of near misses or without."""
    return _ALL if near else _WITHOUT_NEAR


def table_head(*, near: bool) -> bytes:
    """Return the line of column names."""
    return f"{','.join(each.name for each in columns_of(near=near))}\n".encode()


def has_near_columns(path: Path, length: int, *, asked: bool) -> bool:
    """Return whether a table has the columns of near misses; one of no bytes if they are `asked`.

    Raises:
        SettingsError: they are asked for, and a table of `length` bytes was begun without.
        InputError: its column names cannot be read.
    """
    if not length:
        return asked
    try:
        head = next(read_lines_within(path, length), b"")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the column names cannot be read ({error})") from error
    found = head == table_head(near=True)
    if asked and not found:
        raise SettingsError(
            f"{path} was begun without --near-misses, so it has no columns for it. Name another "
            "file with --verdicts, or leave --near-misses out."
        )
    return found


def table_lines(block: Verdicts, locate: Locate, fingerprint: str, *, near: bool) -> bytes:
    """Return the verdicts of a block as lines of CSV; equal verdicts give equal bytes."""
    out = io.StringIO(newline="")
    write_table(out, (cells(each, near=near) for each in verdicts(block, locate, fingerprint)))
    return out.getvalue().encode()


def write_table(out: TextIO, rows: Iterable[Iterable[Cell]]) -> None:
    """Write rows as CSV, text as the module says; None is an empty cell."""
    plain = csv.writer(out, lineterminator="\n")
    quoting = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        shown = [_show_cell(cell) for cell in row]
        # A carriage return is quoted only where it ends lines.
        returns = any(isinstance(cell, str) and "\r" in cell for cell in shown)
        (quoting if returns else plain).writerow(shown)


def cells(verdict: Verdict, *, near: bool) -> Iterator[Cell]:
    """Yield the cells of a verdict, one a column."""
    for column in columns_of(near=near):
        found: Any = verdict
        for name in column.path:
            found = getattr(found, name)
            if found is None or found is msgspec.UNSET:
                found = None
                break
        if isinstance(found, dict | msgspec.Raw):
            found = msgspec.json.encode(found).decode()
            found = None if found == "{}" else found
        yield str(found) if isinstance(found, StrEnum) else found


def nest(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a verdict from the values of its columns, in their order."""
    return _nest_fields(_SHAPE, row, "") | {"schema": VERDICT_SCHEMA}


def _nest_fields(shape: inspect.StructType, row: dict[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in shape.fields:
        name = prefix + field.name
        kind = field.type.types[0] if isinstance(field.type, inspect.UnionType) else field.type
        value = row.get(name)
        if isinstance(kind, inspect.StructType):
            inner = prefix if prefix and field.name == "page" else f"{name}_"
            is_there = row.get(f"{inner}topic") is not None
            value = _nest_fields(kind, row, inner) if is_there else None
        elif isinstance(kind, inspect.DictType):
            value = msgspec.Raw((value or "{}").encode())
        is_null = field.required or row.get(_NULL_WITH.get(name, "")) is not None
        if value is not None or is_null:
            found[field.name] = value
    return found


def _show_cell(cell: Cell) -> Cell:
    """Return what CSV has for a cell."""
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell
    return int(cell) if isinstance(cell, bool) else cell


# ---- Parquet -------------------------------------------------------------------------------------


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


# ---- read again ----------------------------------------------------------------------------------

REPORT_LINES = 10_000  # after so many lines `progress` is called
_decode_line = msgspec.json.Decoder(VerdictLine).decode


def read_verdicts(path: str | os.PathLike[str]) -> Iterator[Verdict]:
    """Yield the verdicts of a file of JSON lines (also .gz, .zst) or Parquet, in its order.

    Raises:
        InputError: the file cannot be read, or a line is not a verdict; the message has its number.
    """
    with explaining_disk(str(path), "check the path"), open_verdicts(Path(path)) as file:
        yield from verdicts_in(file, path)


def verdicts_in(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[Verdict]:
    """Yield the verdicts of a file that `open_verdicts` has opened, from where it is.

    Raises:
        InputError: as `verdict_lines_in`.
    """
    decode = msgspec.json.Decoder(Verdict).decode
    return (said for _, said in verdict_lines_in(file, path, decode) if said is not None)


def verdict_lines_in(
    file: BinaryIO, path: str | os.PathLike[str], decode: Callable[[bytes], Said]
) -> Iterator[tuple[bytes, Said | None]]:
    """Yield the lines of such a file and the verdicts in them; None where a line has none.

    Raises:
        InputError: a line is not a verdict, or does not go with those before.
    """
    check = VerdictCheck(path)
    for number, line in enumerate(file, 1):
        said = None
        if not line.isspace():
            try:
                said = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InputError(f"{path}:{number}: not a verdict ({error})") from error
            if said.verdict is not None:
                check.check(said, number)
        yield line, said if said is None or said.verdict is not None else None


@contextmanager
def open_verdicts(path: Path) -> Iterator[BinaryIO]:
    """Open a verdict file as JSON lines; others than plain ones become a temporary file first.

    Raises:
        InputError: the file is damaged or cut off, or is CSV or a pipe.
    """
    if is_table(path.name):
        why = f"{path}: verdicts as CSV are not read; give a file of JSON lines or Parquet"
        raise InputError(why)
    check_regular(path)
    with path.open("rb") as file, tempfile.TemporaryFile() as plain:
        content, opened = unpack(file, path.name), cast("BinaryIO", plain)
        if is_parquet(path.name):
            plain.writelines(lines_of_parquet(path))
        elif content is file:
            opened = file
        elif not path.stat().st_size:
            raise InputError(f"{path}: is empty, which no compressed file is; copy it again")
        else:
            try:
                shutil.copyfileobj(content, plain)
            except (EOFError, zlib.error, zstd.ZstdError) as error:
                raise InputError(f"{path}: is damaged ({error}); copy the file again") from error
        opened.seek(0)
        opened.seek(len(BOM_UTF8) if opened.read(len(BOM_UTF8)) == BOM_UTF8 else 0)
        yield opened


def read_places(
    path: Path, progress: Callable[[int], None] = lambda _bytes: None
) -> Iterator[tuple[int, VerdictLine]]:
    """Yield (place of the line in bytes, verdict) of a file, in its order, for who measures.

    Lines without a `verdict` (dead letters in the same stream) are skipped. A verdict is found
    again by the place of its line, so that no text has to be kept. `progress` gets the bytes read
    so far, now and then.

    Raises:
        InputError: the file cannot be read, has lines and no verdict, or a line is not a verdict;
            the message has its number.
    """
    with explaining_disk(str(path), "check the path"), open_verdicts(path) as file:
        place, any_verdict = file.tell(), False
        for number, (line, said) in enumerate(verdict_lines_in(file, path, _decode_line), 1):
            if said is not None:
                any_verdict = True
                yield place, said
            place += len(line)
            if number % REPORT_LINES == 0:
                progress(place)
        progress(place)
        if place and not any_verdict:
            raise InputError(f"{path}: has no verdict; give what `replay --verdicts` wrote")


def read_verdict_at(file: BinaryIO, place: int) -> VerdictLine:
    """Return the verdict whose line begins at `place`, as `read_places` yields it."""
    file.seek(place)
    return _decode_line(file.readline())
