"""Tables of the terminal as Markdown.

A table's title stands above it in bold; the first column is text and the others are figures, as
they were made. Where a name begins with spaces, the indent that a terminal shows is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
