"""The one console of all commands: it shows each string as it is; and bars, on a terminal only.

rich reads brackets in a string as markup and `:name:` as an emoji. Names of files, URLs and the
remedies of errors contain both, so a `Terminal` does neither, in tables and titles as little as in
sentences. Colour comes from styles and from `Text`. ruff refuses rich's own classes elsewhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import typer
from rich import progress as bars
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.errors import OutputClosed, mask

if TYPE_CHECKING:
    from streamer.pages.files import Source
    from streamer.run.reading import Progress as ReplayReport

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


# ---- bars ----------------------------------------------------------------------------------------


class PlainColumn(bars.TextColumn):
    """A column of a progress bar that shows its text as it is."""

    def __init__(self, text: str) -> None:
        super().__init__(text, markup=False)


@contextmanager
def progress_bar(
    sources: Sequence[Source], console: Terminal | None = None
) -> Iterator[ReplayReport]:
    """Yield a function to call with (bytes read, records judged).

    It draws on the console of standard error; what is printed on that meanwhile is above it.
    """
    sizes = [source.total_bytes for source in sources]
    total = sum(size or 0 for size in sizes) if all(size is not None for size in sizes) else None
    with records_bar(total, bars.DownloadColumn(), console or Terminal(stderr=True)) as report:
        yield report


@contextmanager
def records_bar(
    total: int | None, share: bars.ProgressColumn, console: Terminal
) -> Iterator[ReplayReport]:
    """Yield a function to call with (amount of `total` that was read, records judged)."""
    records = PlainColumn("{task.fields[records]:,} records")
    rate = PlainColumn("{task.fields[rate]:,.0f} records/s")
    times = bars.TimeElapsedColumn(), bars.TimeRemainingColumn()
    columns = records, bars.BarColumn(), share, rate, *times
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, records=0, rate=0.0)

        def report(amount: int, records: int) -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, completed=amount, records=records, rate=records / elapsed)

        yield report


def _passing_bar(done: bars.ProgressColumn) -> bars.Progress:
    """Return a bar that goes when it ends; it shows how much is done as this column does."""
    what, console = PlainColumn("{task.description}"), Terminal(stderr=True)
    columns = what, bars.BarColumn(), done, bars.TimeRemainingColumn()
    return bars.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def amount_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much of `total` is done; it draws on standard error."""
    with _passing_bar(bars.TimeElapsedColumn()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def count_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function to call with (what, done, total); it draws on standard error."""
    with _passing_bar(bars.MofNCompleteColumn()) as bar:
        task = bar.add_task("")
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total or None
        )


def compile_with_bar(*, main_text: bool = False) -> None:
    """Compile the kernels that this version has not compiled yet; show how many are done.

    Those that only main text needs are compiled where it is asked for.
    """
    from streamer import kernel  # noqa: PLC0415 - imports numba

    if kernel.has_all_compiled(main_text=main_text):
        return
    from streamer.run.warm import compile_kernels  # noqa: PLC0415 - imports every kernel

    console = Terminal(stderr=True)
    where = "once for this version and machine" if kernel.FOLDER else "in memory"
    what = f"Compiling the kernels, {where}"
    if not console.is_terminal:
        console.print(f"{what}.")
    with count_bar() as report:
        compile_kernels(partial(report, what), main_text=main_text)
