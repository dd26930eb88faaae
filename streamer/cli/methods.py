"""`streamer methods`: what there is for --method, with parameters, defaults and advice."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from streamer.errors import SettingsError
from streamer.sketch.describe import decision, default_threshold, markdown, options_of
from streamer.sketch.registry import PRESETS, method_class
from streamer.sketch.registry import methods as all_methods


def methods(
    name: Annotated[
        str | None, typer.Argument(help="Show this one with its parameters.", show_default=False)
    ] = None,
    *,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print docs/methods.md: all of it.")
    ] = False,
) -> None:
    """List the methods by which pages are compared, or tell all about one.

    Example: streamer methods supershingles
    """
    if as_markdown and name is not None:
        raise SettingsError("Give a method or --markdown, not both.")
    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    console = Console()
    if name is None:
        console.print(_list())
    else:
        _show(console, name)


def _list() -> Table:
    """Return all methods and presets as a table."""
    table = Table("method", "what it does", "threshold", box=SIMPLE_HEAD)
    for name, method in all_methods().items():
        table.add_row(name, method.summary, f"{default_threshold(method):.4g}")
    table.add_section()
    for name, preset in PRESETS.items():
        table.add_row(name, f"Preset of {preset.method}. {preset.purpose}", f"{preset.threshold:g}")
    return table


def _show(console: Console, name: str) -> None:
    """Print one method, or the one that a preset stands for."""
    method = method_class(PRESETS[name].method if name in PRESETS else name)
    console.print(f"[bold]{method.name}[/bold]  {method.summary}\n\n{method.advice}\n")
    console.print(decision(method))
    table = Table("parameter", "default", "meaning", box=SIMPLE_HEAD)
    own = PRESETS[name].options if name in PRESETS else {}
    for option in options_of(method.defaults):
        table.add_row(option.name, own.get(option.name, option.default), option.meaning)
    console.print(table)
