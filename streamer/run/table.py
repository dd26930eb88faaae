"""Verdicts as CSV: a line a verdict, flat, after a line of column names.

The columns are the same under all settings, except those about near misses: a table has these if it
was begun with `--near-misses`. A cell is empty where a verdict has no such field, or null there.
`carried` is JSON. True and false are 1 and 0.

Spreadsheets run a cell that begins as a formula does. So one that begins with =, +, -, @, a tab or
a carriage return gets an apostrophe before it, and one that begins with an apostrophe too: to
remove one gives any cell back as it was.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from streamer.errors import InputError, SettingsError
from streamer.index.messages import Verdicts
from streamer.model import Location, Verdict
from streamer.run.outputs import lines_within
from streamer.run.stages import Locate, verdicts

COLUMNS = (
    "page_topic", "page_partition", "page_offset", "url", "verdict", "basis", "similarity",
    "representative_topic", "representative_partition", "representative_offset",
    "representative_url", "representative_index", "same_url", "text_bytes", "index", "carried",
    "text", "exact", "change", "change_similarity",
)  # fmt: skip
NEAR_COLUMNS = (
    "nearest_topic", "nearest_partition", "nearest_offset", "nearest_url", "nearest_index",
    "nearest_similarity", "nearest_exact", "nearest_min",
)  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")

Cell = str | int | float | None


def columns_of(*, near: bool) -> tuple[str, ...]:
    """Return the names of all columns, of which those of near misses are optional."""
    return COLUMNS + NEAR_COLUMNS if near else COLUMNS


def table_head(*, near: bool) -> bytes:
    """Return the line of column names."""
    return f"{','.join(columns_of(near=near))}\n".encode()


def has_near_columns(path: Path, length: int, *, asked: bool) -> bool:
    """Return whether a table has the columns of near misses; one of no bytes if they are `asked`.

    Raises:
        SettingsError: they are asked for, and a table of `length` bytes was begun without.
        InputError: its column names cannot be read.
    """
    if not length:
        return asked
    try:
        head = next(lines_within(path, length), b"")
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
        shown = [_shown(cell) for cell in row]
        # A carriage return is quoted only where it ends lines.
        returns = any(isinstance(cell, str) and "\r" in cell for cell in shown)
        (quoting if returns else plain).writerow(shown)


def cells(verdict: Verdict, *, near: bool) -> Iterator[Cell]:
    """Yield the cells of a verdict, one a column."""
    other = verdict.representative
    yield from _place(verdict.page)
    yield verdict.url
    yield str(verdict.verdict)
    yield str(verdict.basis)
    yield verdict.similarity
    yield from _place(other.page) if other else (None, None, None)
    yield other.url if other else None
    yield _optional(other.index) if other else None
    yield verdict.same_url
    yield verdict.text_bytes
    yield verdict.index
    carried = msgspec.json.encode(verdict.carried).decode()
    yield None if carried == "{}" else carried
    yield _optional(verdict.text)
    yield _known(verdict.exact)
    yield _optional(verdict.change)
    yield _known(verdict.change_similarity)
    if near:
        nearest = verdict.nearest or None
        yield from _place(nearest.page) if nearest else (None, None, None)
        yield nearest.url if nearest else None
        yield _optional(nearest.index) if nearest else None
        yield nearest.similarity if nearest else None
        yield _known(nearest.exact) if nearest else None
        yield _known(verdict.nearest_min)


def _place(page: Location) -> tuple[Cell, ...]:
    return page.topic, page.partition, page.offset


def _known(value: float | msgspec.UnsetType | None) -> Cell:
    return None if value is msgspec.UNSET else value


def _optional(value: str | msgspec.UnsetType) -> Cell:
    return None if value is msgspec.UNSET else str(value)


def _shown(cell: Cell) -> Cell:
    """Return what CSV has for a cell."""
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell
    return int(cell) if isinstance(cell, bool) else cell
