"""incrededup (Rust, by `cargo install incrededup`): a program that marks the duplicates in a table.

It is no library, and no lock has it: without the program the peer is absent. Each call runs it over
a SQLite table that has the new documents, so that its times have start, reading and signing in
them, which those of others have not; and its memory, that of another process, is not counted.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROGRAM = shutil.which("incrededup")
if PROGRAM is None:
    raise ModuleNotFoundError("incrededup")  # as for a library

_TABLES = """
CREATE TABLE documents (
    id TEXT PRIMARY KEY, content TEXT NOT NULL, content_len INTEGER NOT NULL, filename TEXT,
    is_parent INTEGER
);
CREATE TABLE dupes (
    child_id TEXT PRIMARY KEY, parent_id TEXT NOT NULL, jaccard_similarity REAL NOT NULL,
    size_difference INTEGER NOT NULL, size_difference_pct REAL NOT NULL
);
"""
_ADD = "INSERT INTO documents (id, content, content_len) VALUES (?, ?, ?)"


class IncrededupIndex:
    """Its index under the default settings, next to a table of the texts."""

    def __init__(self, folder: Path) -> None:
        self._table, self._index, self._documents = folder / "table.sqlite", folder / "index", 0
        with closing(sqlite3.connect(self._table)) as table:
            table.executescript(_TABLES)

    def sign(self, texts: Sequence[bytes]) -> list[str]:
        """Return the texts: the program signs them itself."""
        return [text.decode() for text in texts]

    def judge(self, batches: Sequence[list[str]]) -> int:
        """Add the documents, and have the program mark the duplicates; return how many are new."""
        with closing(sqlite3.connect(self._table)) as table:
            before = self._duplicates(table)
            for number, text in enumerate(chain.from_iterable(batches), self._documents):
                table.execute(_ADD, (str(UUID(int=number)), text, len(text)))
            table.commit()
            self._documents += sum(map(len, batches))
            subprocess.run(
                [
                    str(PROGRAM), "--sqlite", str(self._table), "--data-dir", str(self._index),
                    "--min-content-len", "1",
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            return self._duplicates(table) - before

    def _duplicates(self, table: sqlite3.Connection) -> int:
        return int(table.execute("SELECT count(*) FROM dupes").fetchone()[0])

    def settle(self) -> None:
        """Do nothing: each run ends with all of it on the disk."""
