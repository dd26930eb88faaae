"""Pairs of pages with a label: whether they are the same page, as people or a data set say.

The file has a pair a line, parted by tabs, below the names of its columns: `url_a`, `url_b`,
`label`, and where several pages have one URL `place_a` and `place_b`, each as SOURCE:NUMBER. The
label `different` says that two pages are no duplicates of each other; any other one, such as `same`
or `plagiarised`, that they are; an empty one takes back what was said. Of several lines on a pair
the last one counts, so a file is only ever appended to.
"""

from __future__ import annotations

import csv
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from streamer.errors import InputError
from streamer.model import Location

Label = Literal["same", "different", ""]
DIFFERENT = "different"
_NEEDED = ("url_a", "url_b", "label")
_COLUMNS = (*_NEEDED, "place_a", "place_b")
_DIALECT = "excel-tab"


class PageOfPair(NamedTuple):
    """One page of a pair; `place`, as SOURCE:NUMBER, may be unknown."""

    url: str
    place: str = ""

    @property
    def location(self) -> Location | None:
        """Return the place, if it is known and one of a file."""
        source, _, number = self.place.rpartition(":")
        known = source and number.isascii() and number.isdecimal()
        return Location(source, 0, int(number)) if known else None


class PairMark(NamedTuple):
    """A pair of pages with its label."""

    one: PageOfPair
    other: PageOfPair
    label: str

    @property
    def pair(self) -> frozenset[PageOfPair]:
        """Return the pages, in no order."""
        return frozenset((self.one, self.other))

    @property
    def is_same(self) -> bool:
        """Return whether the pages are said to be duplicates."""
        return self.label != DIFFERENT


def read_marks(path: Path) -> list[PairMark]:
    """Return the pairs of a file that have a label, each once.

    Raises:
        InputError: the file cannot be read, or has other columns.
    """
    found: dict[frozenset[PageOfPair], PairMark] = {}
    with _as_marks(path), path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, dialect=_DIALECT):
            one, other = (
                PageOfPair(row[f"url_{side}"], row.get(f"place_{side}") or "") for side in "ab"
            )
            mark = PairMark(one, other, row["label"] or "")
            found.pop(mark.pair, None)
            if mark.label:
                found[mark.pair] = mark
    return list(found.values())


@contextmanager
def _as_marks(path: Path) -> Iterator[None]:
    """Say of errors that the file has no marks."""
    try:
        yield
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path}: not a file of labelled pairs ({error}); its columns are url_a, url_b, label"
        ) from error


class MarkFile:
    """A file of marks that grows, also by other processes; it need not be there.

    Raises:
        InputError: it has other columns, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = (0, 0)  # size and time of the file as it was read
        self._labels: dict[frozenset[PageOfPair], str] = {}
        self._read()

    def label_of(self, one: PageOfPair, other: PageOfPair) -> str:
        """Return how two pages are marked; '' for not at all.

        Raises:
            InputError: the file cannot be read any more.
        """
        self._read()
        bare = frozenset((PageOfPair(one.url), PageOfPair(other.url)))
        return self._labels.get(frozenset((one, other))) or self._labels.get(bare, "")

    def __len__(self) -> int:
        """Return how many pairs are marked."""
        self._read()
        return len(self._labels)

    def _read(self) -> None:
        with _as_marks(self.path):
            try:
                found = self.path.stat()
            except FileNotFoundError:
                self._seen, self._labels = (0, 0), {}
                return
            if found.st_size and (found.st_size, found.st_mtime_ns) != self._seen:
                self._labels = {mark.pair: mark.label for mark in read_marks(self.path)}
                self._seen = found.st_size, found.st_mtime_ns

    def append(self, mark: PairMark) -> None:
        """Append a mark, which is on the disk then; other processes may append at the same time.

        Raises:
            InputError: the file cannot be written, or has other columns.
        """
        with _as_marks(self.path), self.path.open("a+", encoding="utf-8", newline="") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            columns = next(csv.reader(file, _DIALECT), None)
            writer = csv.DictWriter(
                file, columns or _COLUMNS, dialect=_DIALECT, restval="", extrasaction="ignore",
                lineterminator="\n",
            )  # fmt: skip
            if columns is None:
                writer.writeheader()
            elif missing := set(_NEEDED) - set(columns):
                raise KeyError(min(missing))
            elif not _ends_a_line(self.path):
                file.write("\n")
            (url_a, place_a), (url_b, place_b), label = mark
            values = (url_a, url_b, label, place_a, place_b)
            # The writer would not quote this end of a line; in URLs it is escaped like that.
            escaped = (value.replace("\r", "%0D") for value in values)
            writer.writerow(dict(zip(_COLUMNS, escaped, strict=True)))
            file.flush()
            os.fsync(file.fileno())


def _ends_a_line(path: Path) -> bool:
    """Return whether a file that is not empty ends with a line."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
