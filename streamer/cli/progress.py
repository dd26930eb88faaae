"""Progress bars, on a terminal only: of a replay, of the kernels, and of any amount."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from streamer.cli.terminal import Terminal
from streamer.kernel import FOLDER, has_all_compiled

if TYPE_CHECKING:
    from streamer.pages.files import Source
    from streamer.run.replay import Progress as Report


class PlainColumn(TextColumn):
    """A column of a progress bar that shows its text as it is."""

    def __init__(self, text: str) -> None:
        super().__init__(text, markup=False)


@contextmanager
def progress_bar(sources: Sequence[Source], console: Terminal | None = None) -> Iterator[Report]:
    """Yield a function to call with (bytes read, records judged).

    It draws on the console of standard error; what is printed on that meanwhile is above it.
    """
    sizes = [source.total_bytes for source in sources]
    total = sum(size or 0 for size in sizes) if all(size is not None for size in sizes) else None
    with records_bar(total, DownloadColumn(), console or Terminal(stderr=True)) as report:
        yield report


@contextmanager
def records_bar(total: int | None, share: ProgressColumn, console: Terminal) -> Iterator[Report]:
    """Yield a function to call with (amount of `total` that was read, records judged)."""
    records = PlainColumn("{task.fields[records]:,} records")
    rate = PlainColumn("{task.fields[rate]:,.0f} records/s")
    times = TimeElapsedColumn(), TimeRemainingColumn()
    with _bar(records, BarColumn(), share, rate, *times, console=console) as bar:
        task = bar.add_task("", total=total, records=0, rate=0.0)

        def report(amount: int, records: int) -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, completed=amount, records=records, rate=records / elapsed)

        yield report


def _bar(*columns: ProgressColumn, console: Terminal, transient: bool = False) -> Progress:
    """Return a bar that is drawn on a terminal only."""
    return Progress(*columns, console=console, transient=transient, disable=not console.is_terminal)


@contextmanager
def amount_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much of `total` is done; it draws on standard error."""
    columns = (PlainColumn(what), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with _bar(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def count_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function to call with (what, done, total); it draws on standard error."""
    what = PlainColumn("{task.description}")
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _bar(*columns, console=Terminal(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total or None
        )


def compile_with_bar(*, main_text: bool = False) -> None:
    """Compile the kernels that this version has not compiled yet; show how many are done.

    Those that only main text needs are compiled where it is asked for.
    """
    if has_all_compiled(main_text=main_text):
        return
    from streamer.run.warm import compile_kernels  # noqa: PLC0415 - imports every kernel

    console = Terminal(stderr=True)
    where = "once for this version and machine" if FOLDER else "in memory"
    what = f"Compiling the kernels, {where}"
    if not console.is_terminal:
        console.print(f"{what}.")
    with count_bar() as report:
        compile_kernels(partial(report, what), main_text=main_text)
