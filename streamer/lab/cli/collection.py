"""The commands `collection build` and `collection show`: document frequencies for methods."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streamer.cli.main import Command, Group
from streamer.cli.options import command, page_parser
from streamer.cli.progress import compile_with_bar, progress_bar
from streamer.config import Settings
from streamer.errors import InputError, SettingsError
from streamer.lab.documents import page_texts
from streamer.pages.files import open_sources
from streamer.run.outputs import check_writable
from streamer.sketch.collection import Collection, count_words, load_collection
from streamer.sketch.scheme import read_options, split_options
from streamer.text.words import CanonicalOptions

collection = typer.Typer(
    cls=Group,
    help="Count in how many pages each word stands, for methods that weigh words.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@collection.command(cls=Command)
@command
def build(
    pages: Annotated[
        list[str],
        typer.Argument(
            metavar="PAGES",
            help="JSONL (.jsonl, .gz, .zst) or WARC/WET files, directories of these, "
            "or - for standard input.",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="File to write.", dir_okay=False)],
    min_pages: Annotated[
        int, typer.Option(min=1, help="Leave out words on fewer pages; they count as unseen.")
    ] = 1,
    settings: Annotated[Settings, "canonical", "preset", "fields"],
) -> None:
    """Count on how many pages each word stands, and write that to a file.

    Methods that weigh words take it as --method-option collection=FILE, with the same --canonical.
    The same pages give the same file, whatever their order.

    Example: streamer collection build crawl/ --out words.json
    """
    options = read_options(
        CanonicalOptions, split_options(settings.canonical), "the canonical form"
    )
    parser = page_parser(settings)
    sources = open_sources(pages, settings.page_bytes_max).sources
    check_writable(out)
    compile_with_bar(main_text=options.text == "main")
    started = time.perf_counter()
    with progress_bar(sources) as report:
        texts = page_texts(sources, parser, options, report)
        result = count_words((page.words for page in texts), options, min_pages)
    if not result.documents:
        raise InputError(f"{', '.join(pages)}: no pages with words; give page files")
    _write(out, result)
    print_collection(out, result, time.perf_counter() - started)


@collection.command(cls=Command)
def show(
    file: Annotated[Path, typer.Argument(help="File that `collection build` wrote.")],
) -> None:
    """Show what a collection's file holds.

    Example: streamer collection show words.json
    """
    print_collection(file, load_collection(file))


def _write(out: Path, result: Collection) -> None:
    """Write a collection's file whole or not at all."""
    part = out.with_name(out.name + ".part")
    try:
        part.write_bytes(result.to_bytes())
        part.replace(out)
    except OSError as error:
        raise SettingsError(
            f"Cannot write {out}: {error.strerror or error}; give another --out"
        ) from error


def print_collection(file: Path, result: Collection, seconds: float | None = None) -> None:
    """Print the figures of a collection as a table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right", overflow="fold")
    table.add_row("file", str(file))
    table.add_row("pages", f"{result.documents:,}")
    table.add_row("words", f"{result.words:,}")
    table.add_row("fingerprint", result.fingerprint)
    if seconds is not None:
        table.add_row("seconds", f"{seconds:,.1f}")
    Console().print(table)
