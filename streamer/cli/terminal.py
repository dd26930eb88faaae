"""The one console of all commands: it shows each string as it is.

rich reads brackets in a string as markup and `:name:` as an emoji. Names of files, URLs and the
remedies of errors contain both, so a `Terminal` does neither, in tables and titles as little as in
sentences. Colour comes from styles and from `Text`. ruff refuses rich's own classes elsewhere.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.errors import mask


def figures(rows: Iterable[tuple[str, str | int]]) -> Table:
    """Return a table of names and their figures, without lines."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right", overflow="fold")
    for name, figure in rows:
        table.add_row(name, figure if isinstance(figure, str) else f"{figure:,}")
    return table


class Terminal(Console):
    """A console without markup, emoji and highlighting."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:  # noqa: ANN401 - Console's own
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

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
    """Open a file that is there once it is complete, as `complete_output`; `-` is `standard`."""
    if out == "-":
        yield standard
        return
    from streamer.run.outputs import OutputSink, complete_output  # noqa: PLC0415 - imports numpy

    with complete_output(out) as file, io.BufferedWriter(OutputSink(file)) as data:  # type: ignore[type-var]
        if mode == "wb":
            yield data
            return
        with io.TextIOWrapper(data, "utf-8", newline="") as text:
            yield text
