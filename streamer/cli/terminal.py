"""The one console of all commands: it shows each string as it is.

rich reads brackets in a string as markup and `:name:` as an emoji. Names of files, URLs and the
remedies of errors contain both, so a `Terminal` does neither, in tables and titles as little as in
sentences. Colour comes from styles and from `Text`. ruff refuses rich's own classes elsewhere.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.errors import OutputClosed, mask

Cell = str | int | Text
Figure = tuple[str, str | int]  # its name before it
Report = TypeVar("Report")


def figures(rows: Iterable[Figure], justify: Literal["left", "right"] = "right") -> Table:
    """Return a table of names and their figures, without lines."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=justify == "left")
    table.add_column(justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(_show, row))
    return table


def sum_rows(name: str, counts: Mapping[str, int], each: str = "  ") -> list[Figure]:
    """Return the row of a sum, and below it a row for each part."""
    parts = ((f"{each}{one}", counts[one]) for one in sorted(counts))
    return [(name, sum(counts.values())), *parts]


def listing(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    text: int = 1,
    title: str | None = None,
    caption: str | None = None,
) -> Table:
    """Return a table under names of columns: the first `text` columns are text, others figures.

    Integers are grouped by thousands. An empty row is a line between the rows around it.
    """
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for number, head in enumerate(heads):
        if number < text:
            table.add_column(head, overflow="fold")
        else:
            table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        if row:
            table.add_row(*map(_show, row))
        else:
            table.add_section()
    return table


def _show(cell: Cell) -> str | Text:
    return f"{cell:,}" if isinstance(cell, int) else cell


def show(report: Report, as_text: Callable[[Report], None], *, as_json: bool) -> None:
    """Print a report: as JSON, or as `as_text` prints it."""
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        as_text(report)


class Terminal(Console):
    """A console without markup, emoji and highlighting."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:  # noqa: ANN401 - Console's own
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def on_broken_pipe(self) -> None:
        """Raise OutputClosed, where rich would end the process with exit code 1."""
        self.quiet = True
        raise OutputClosed

    def say(self, sentence: str) -> None:
        """Print a sentence in one line, however long."""
        self.print(mask(sentence), soft_wrap=True)

    def warn(self, sentence: str) -> None:
        """Print a warning in one line."""
        self.print(Text.assemble(("Warning:", "yellow"), " ", mask(sentence)), soft_wrap=True)

    def fail(self, sentence: str) -> None:
        """Print an error in one line."""
        self.print(Text.assemble(("Error:", "red"), " ", mask(sentence)), soft_wrap=True)


@contextmanager
def open_output(out: str, standard: Any, mode: str) -> Iterator[Any]:  # noqa: ANN401 - text or bytes
    """Open a file that is there once it is complete, as `complete_output`; `-` is `standard`.

    Raises:
        OutputClosed: that is none, since the process has none.
    """
    if out == "-":
        if standard is None:
            raise OutputClosed
        yield standard
        return
    from streamer.run.outputs import OutputSink, complete_output  # noqa: PLC0415 - imports numpy

    with complete_output(out) as file, io.BufferedWriter(OutputSink(file)) as data:  # type: ignore[type-var]
        if mode == "wb":
            yield data
            return
        with io.TextIOWrapper(data, "utf-8", newline="") as text:
            yield text
