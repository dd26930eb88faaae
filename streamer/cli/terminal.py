"""The one console of all commands: it shows each string as it is.

rich reads brackets in a string as markup and `:name:` as an emoji. Names of files, URLs and the
remedies of errors contain both, so a `Terminal` does neither, in tables and titles as little as in
sentences. Colour comes from styles and from `Text`. ruff refuses rich's own classes elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamer.errors import InputError


def figures() -> Table:
    """Return an empty table of names and their figures, without lines."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    return table


class Terminal(Console):
    """A console without markup, emoji and highlighting."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:  # noqa: ANN401 - Console's own
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def say(self, sentence: str) -> None:
        """Print a sentence in one line, however long."""
        self.print(sentence, soft_wrap=True)

    def warn(self, sentence: str) -> None:
        """Print a warning in one line."""
        self.print(Text.assemble(("Warning:", "yellow"), " ", sentence), soft_wrap=True)

    def fail(self, sentence: str) -> None:
        """Print an error in one line."""
        self.print(Text.assemble(("Error:", "red"), " ", sentence), soft_wrap=True)


@contextmanager
def opened(out: str, standard: Any, mode: str) -> Iterator[Any]:  # noqa: ANN401 - text or bytes
    """Open a file for writing; for `-` it is `standard`.

    Raises:
        InputError: it cannot be written.
    """
    if out == "-":
        yield standard
        return
    encoding, newline = ("utf-8", "") if mode == "w" else (None, None)
    try:
        with Path(out).open(mode, encoding=encoding, newline=newline) as file:
            yield file
    except OSError as error:
        raise InputError(f"{out}: {error.strerror or error}; choose another file") from error
