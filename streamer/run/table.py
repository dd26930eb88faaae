"""Verdicts as CSV: a line a verdict, flat, after a line of column names.

The columns are the fields of the type `Verdict`: a new field is a column here and in Parquet. They
are the same under all settings, except those about near misses: a table has these if it was begun
with `--near-misses`. A cell is empty where a verdict has no such field, or null there. `carried` is
JSON. True and false are 1 and 0.

Spreadsheets run a cell that begins as a formula does. So one that begins with =, +, -, @, a tab or
a carriage return gets an apostrophe before it, and one that begins with an apostrophe too: to
remove one gives any cell back as it was.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

import msgspec
from msgspec import inspect

from streamer.errors import InputError, SettingsError
from streamer.index.messages import Verdicts
from streamer.model import VERDICT_SCHEMA, Verdict
from streamer.run.outputs import read_lines_within
from streamer.run.stages import Locate, verdicts

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")

# A verdict that has the one has the other too, if only as null.
_NULL_WITH = {"change_similarity": "change", "nearest": "nearest_min"}
_ARROW: dict[type[inspect.Type], str] = {
    inspect.StrType: "string", inspect.EnumType: "string", inspect.DictType: "string",
    inspect.IntType: "int64", inspect.FloatType: "double", inspect.BoolType: "bool",
}  # fmt: skip
_SHAPE = cast(inspect.StructType, inspect.type_info(Verdict))

Cell = str | int | float | None


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
