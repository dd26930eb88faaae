"""Figures as lines of a table, for a terminal and as Markdown.

Every subject that has targets prints them next to what was measured. Nothing is judged here, and
nothing computed. In Markdown a table's title is above it in bold; where a name begins with
spaces, the indent that a terminal shows is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Figure(NamedTuple):
    """A line: both values are text with their unit; no target is an empty one."""

    name: str
    measured: str = ""
    target: str = ""


def figures_table(title: str, figures: Iterable[Figure]) -> Table:
    """Return the figures as a table for a terminal."""
    table = empty_table(title, "figure", "measured", "target")
    for figure in figures:
        table.add_row(*figure)
    return table


def empty_table(title: str, *columns: str) -> Table:
    """Return a table whose first column is text and whose others are figures."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    return table


def mebibytes(size_bytes: float) -> str:
    """Return a size as text."""
    return f"{size_bytes / 2**20:,.0f} MiB"


def markdown(parts: Iterable[Table | str]) -> str:
    """Return tables and sentences as paragraphs of Markdown."""
    return "\n\n".join(_table(part) if isinstance(part, Table) else part for part in parts)


def _table(table: Table) -> str:
    header = [str(column.header) for column in table.columns]
    rules = ["---" if number == 0 else "---:" for number in range(len(header))]
    rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    lines = [_row(header), _row(rules), *(_row(_indented(row)) for row in rows)]
    title = [f"**{table.title}**", ""] if table.title else []
    return "\n".join([*title, *lines])


def _indented(row: Sequence[str]) -> Sequence[str]:
    first, *rest = row
    return [f"&emsp;{first.strip()}" if first.startswith(" ") else first, *rest]


def _row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
