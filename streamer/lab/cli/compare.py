"""`streamer compare`: two texts, by every measure and method, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from streamer.cli.options import command
from streamer.cli.progress import compile_with_bar
from streamer.errors import SettingsError
from streamer.lab.comparison import (
    MethodOptions,
    Panel,
    Piece,
    Report,
    compare_documents,
    highlighted,
    in_place,
    side_by_side,
    visible,
)
from streamer.lab.documents import read_document, read_pairs
from streamer.run.outputs import check_writable
from streamer.sketch.scheme import read_options, split_options
from streamer.sketch.settings import MAIN_TEXT
from streamer.text.words import CanonicalOptions

SHOWN_CHARACTERS_MAX = 20_000  # of both texts on a terminal; longer ones go into --html
COLOURS = ("green", "yellow", "cyan", "magenta", "blue", "red")

Canonical = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A step to canonical form, as stem=english."),
]
Width = Annotated[int, typer.Option("--shingle-width", min=1, max=32, help="Words a shingle.")]
Pairs = Annotated[
    Path | None,
    typer.Option(
        help='File of pairs of texts: a line each, parted by a tab, or JSON with "a" and "b".'
    ),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Have methods decide as an index with --exact does.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one object a pair.")]


@dataclass(frozen=True)
class Form:
    """The options that say what of a text is compared."""

    canonical: Canonical = None
    keep_tags: Annotated[
        bool, typer.Option("--keep-tags", help="As --canonical keep_tags=true.")
    ] = False
    text: Annotated[
        Literal["visible", "main"],
        typer.Option(help="What of HTML is compared: all visible text or the page's main text."),
    ] = "visible"

    def steps(self) -> list[str]:
        """Return them all as options of the canonical form."""
        tags = ["keep_tags=true"] if self.keep_tags else []
        return [*(self.canonical or []), *tags, *(MAIN_TEXT if self.text == "main" else ())]


@command
def compare(  # noqa: PLR0913 - the options of the command
    a: Annotated[Path | None, typer.Argument(help="A text, an HTML file or a page file.")] = None,
    b: Annotated[Path | None, typer.Argument(help="Another one.")] = None,
    *,
    pairs: Pairs = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method or preset, or two as KEYS+ACCEPT. \\[default: all methods]"),
    ] = None,
    method_option: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD.NAME=VALUE", help="A parameter of a method."),
    ] = None,
    exact: Exact = False,
    shingle_width: Width = 5,
    form: Form,
    html: Annotated[
        Path | None, typer.Option(help="Write both texts side by side as a page.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two texts: exact shares, what each method says, and the fragments they share.

    Shares are of shingles, fit to a text shorter than one. Methods have their default parameters
    unless told otherwise, and call two texts duplicates as the stream would.

    With --text main, what belongs to the site and does not count is shown too, in grey.

    Example: streamer compare old.html new.html --html difference.html

    Example: streamer compare a.html b.html --text main --method minhash
    """
    canonical = read_options(CanonicalOptions, split_options(form.steps()), "the canonical form")
    options = _method_options(method_option or [])
    panel = Panel(method or ["all"], options, form.steps(), exact=exact)
    compile_with_bar(main_text=canonical.text == "main")
    if pairs is not None:
        if a or b or html:
            raise SettingsError("--pairs goes without A, B and --html; leave those out.")
        both = read_pairs(pairs, canonical)
        reports = (compare_documents(one, other, shingle_width, panel) for one, other in both)
        _print_pairs(reports, as_json=as_json)
        return
    if a is None or b is None:
        raise SettingsError("Two texts are compared; name both files, or give --pairs.")
    if html is not None:
        check_writable(html)
    one, other = (read_document(path, canonical) for path in (a, b))
    report = compare_documents(one, other, shingle_width, panel)
    pieces = highlighted(one.page.text, other.page.text, report.fragments)
    shown = in_place(pieces[0], one.parts), in_place(pieces[1], other.parts)
    if html is not None:
        _write(html, side_by_side(report, *shown))
    if as_json:
        typer.echo(_json(report))
    else:
        _print(report, *shown, html)


def _method_options(given: Sequence[str]) -> MethodOptions:
    """Return `method.name=value` texts by method.

    Raises:
        SettingsError: one has another form.
    """
    result: dict[str, dict[str, str]] = {}
    for name, value in split_options(given).items():
        method, dot, option = name.partition(".")
        if not dot:
            raise SettingsError(f"The option {name} names no method; write METHOD.{name}=VALUE.")
        result.setdefault(method, {})[option] = value
    return result


def _json(report: Report) -> str:
    fragments = [
        {"a": list(one.one), "b": list(one.other), "words": one.words} for one in report.fragments
    ]
    exact = report.exact_shares()
    return msgspec.json.encode({**asdict(report), "exact": exact, "fragments": fragments}).decode()


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise SettingsError(
            f"Cannot write {path}: {error.strerror or error}; give another --html."
        ) from error


def _print_pairs(reports: Iterator[Report], *, as_json: bool) -> None:
    """Print a line a pair as soon as it is compared, and how many there were."""
    console, count, duplicates = Console(), 0, 0
    for report in reports:
        count += 1
        said = sorted(one.name for one in report.methods if one.duplicate)
        duplicates += bool(said)
        if as_json:
            typer.echo(_json(report))
            continue
        rows = dict(report.exact_rows())
        console.print(
            f"{report.a}  Jaccard {rows['Jaccard similarity']}  Dice {rows['Dice']}"
            f"  duplicates for: {', '.join(said) or 'none'}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if not as_json:
        console.print(f"{count:,} pairs; duplicates for at least one method: {duplicates:,}")


def _print(report: Report, one: Sequence[Piece], other: Sequence[Piece], html: Path | None) -> None:
    """Print the figures, and the texts if they are not too long to read there."""
    console = Console()
    figures = Table(show_header=False, box=None, pad_edge=False)
    for name, value in report.exact_rows():
        figures.add_row(name, value)
    console.print(figures)
    if report.methods:
        table = Table(box=SIMPLE_HEAD)
        for column in ("method", "similarity", "threshold", "shared keys", "says"):
            table.add_column(column, overflow="fold")
        for row in report.method_rows():
            table.add_row(*map(Text, row))
        console.print(table)
    if sum(len(piece.text) for piece in (*one, *other)) > SHOWN_CHARACTERS_MAX:
        console.print("The texts are too long to show here; --html OUT writes them to a page.")
    else:
        texts = Table(box=SIMPLE_HEAD, expand=True)
        for name in (report.a, report.b):
            texts.add_column(Text(visible(name)), ratio=1)
        texts.add_row(_coloured(one), _coloured(other))
        console.print(texts)
    if html is not None:
        console.print(f"wrote {html}", markup=False, highlight=False)


def _coloured(pieces: Sequence[Piece]) -> Text:
    result = Text()
    for piece in pieces:
        if not piece.counts:
            result.append(visible(piece.text), "dim")
            continue
        colour = None if piece.group is None else COLOURS[piece.group % len(COLOURS)]
        style = Style(color=Color.parse("black"), bgcolor=Color.parse(colour)) if colour else None
        result.append(visible(piece.text), style)
    return result
