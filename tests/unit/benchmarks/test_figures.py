"""Tables as Markdown."""

from __future__ import annotations

from rich.table import Table

from benchmarks.figures import markdown


def test_a_table_becomes_markdown_with_its_indents_and_bars_kept() -> None:
    table = Table("name", "us", title="times")
    table.add_row("a|b", "1")
    table.add_row("  of it", "2")
    assert markdown([table, "A sentence."]).splitlines() == [
        "**times**",
        "",
        "| name | us |",
        "| --- | ---: |",
        r"| a\|b | 1 |",
        "| &emsp;of it | 2 |",
        "",
        "A sentence.",
    ]
