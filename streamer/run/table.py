"""Verdicts as CSV: a line a verdict, flat, after a line of column names.

The columns are the same under all settings; a cell is empty where a verdict has no such field, or
null there. `carried` is JSON. True and false are 1 and 0.

Spreadsheets run a cell that begins as a formula does. So one that begins with =, +, -, @, a tab or
a carriage return gets an apostrophe before it, and one that begins with an apostrophe too: to
remove one gives any cell back as it was.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import TextIO

import msgspec

from streamer.index.messages import Verdicts
from streamer.model import Location, Verdict
from streamer.run.stages import Locate, verdicts

COLUMNS = (
    "page_topic", "page_partition", "page_offset", "url", "verdict", "basis", "similarity",
    "representative_topic", "representative_partition", "representative_offset",
    "representative_url", "representative_index", "same_url", "text_bytes", "index", "carried",
    "text", "exact", "change", "change_similarity",
)  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")

Cell = str | int | float | None


def table_head() -> bytes:
    """Return the line of column names."""
    return f"{','.join(COLUMNS)}\n".encode()


def table_lines(block: Verdicts, locate: Locate, fingerprint: str) -> bytes:
    """Return the verdicts of a block as lines of CSV; equal verdicts give equal bytes."""
    out = io.StringIO(newline="")
    write_table(out, map(cells, verdicts(block, locate, fingerprint)))
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


def cells(verdict: Verdict) -> Iterator[Cell]:
    """Yield the cells of a verdict, one a column."""
    other = verdict.representative
    yield from _place(verdict.page)
    yield verdict.url
    yield str(verdict.verdict)
    yield str(verdict.basis)
    yield verdict.similarity
    yield from _place(other.page) if other else (None, None, None)
    yield other.url if other else None
    yield _told(other.index) if other else None
    yield verdict.same_url
    yield verdict.text_bytes
    yield verdict.index
    carried = msgspec.json.encode(verdict.carried).decode()
    yield None if carried == "{}" else carried
    yield _told(verdict.text)
    yield None if verdict.exact is msgspec.UNSET else verdict.exact
    yield _told(verdict.change)
    change_similarity = verdict.change_similarity
    yield None if change_similarity is msgspec.UNSET else change_similarity


def _place(page: Location) -> tuple[Cell, ...]:
    return page.topic, page.partition, page.offset


def _told(value: str | msgspec.UnsetType) -> Cell:
    return None if value is msgspec.UNSET else str(value)


def _shown(cell: Cell) -> Cell:
    """Return what CSV has for a cell."""
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell
    return int(cell) if isinstance(cell, bool) else cell
