"""Figures as lines of a table: what was measured, and beside it the target where there is one.

Every subject that has targets prints in this form. Nothing is judged here, and nothing computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable


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
