"""CSV and TSV: a row becomes a JSON object under the names of the first row, and is read as that.

So fields are found by the same pointers, and a dead letter holds the row as JSON. Quotes and
delimiters are as the standard library's `csv` has them (RFC 4180). Memory is bounded: a row that is
over the page limit becomes a dead letter, and a line that is far over it ends the reading.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streamer.errors import InputError
from streamer.pages.bytestream import ByteStream, Parts
from streamer.pages.lines import LineRecords
from streamer.pages.records import InputFile

_LIMITS = 4  # page limits that a row may take, in characters, before the reading ends
COLUMNS_MAX = 16_384  # whose names each row becomes an object under
_encode = msgspec.json.Encoder().encode


def open_rows(file: InputFile, stream: ByteStream, delimiter: str) -> LineRecords:
    """Return the rows of a file as JSON lines.

    Raises:
        InputError: the first row cannot be the names of columns.
    """
    rows = _RowLines(file, stream.reader, delimiter)
    stream.convert(Parts(rows.made(rows.names(file.name))), lambda: rows.damage)
    return LineRecords(file, stream)


def check_columns(what: str, names: Sequence[str]) -> None:
    """See that rows can become objects under these names; `what` has them, in the message.

    Raises:
        InputError: there are too many, or two are equal.
    """
    if len(names) > COLUMNS_MAX:
        raise InputError(
            f"{what} has {len(names):,} columns, and at most {COLUMNS_MAX:,} are read; leave out "
            "those that are not needed"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{what} has the column {min(twice)!r} twice; rename one of them")


class _RowLines:
    """The rows of a text in columns, a JSON object a line."""

    def __init__(self, file: InputFile, source: io.BufferedReader[Any], delimiter: str) -> None:
        self.damage = ""
        self._limit = _LIMITS * file.page_bytes_max
        self._text = io.TextIOWrapper(source, "utf-8-sig", errors="replace", newline="")
        self._raw: list[str] = []  # the lines of the row in hand
        csv.field_size_limit(max(self._limit, csv.field_size_limit()))  # of all readers
        self._rows = csv.reader(self._lines(), delimiter=delimiter, strict=True)

    def names(self, path: str) -> list[str]:
        """Return the names of the columns, which the first row has."""
        try:
            names = next(self._rows, [])
        except csv.Error as error:
            raise InputError(f"{path}: its first row cannot be read ({error})") from error
        check_columns(f"{path}: its first row", names)
        return names

    def _lines(self) -> Iterator[str]:
        size = 0
        while line := self._text.readline(self._limit):
            size = size + len(line) if self._raw else len(line)
            if size >= self._limit:
                self._end(f"a row of more than {self._limit:,} characters; is a quote not closed?")
                return
            self._raw.append(line)
            yield line

    def _end(self, why: str) -> None:
        self.damage = self.damage or f"after line {self._rows.line_num:,} of its text comes {why}"

    def made(self, names: list[str]) -> Iterator[bytes]:
        """Yield a line for each row: an object, or what becomes a dead letter.

        That is an array for a row with more cells than there are names, and a string for one that
        is no row. A row that the end cuts off is damage.
        """
        while True:
            self._raw.clear()
            try:
                row = next(self._rows)
            except StopIteration:
                return
            except csv.Error as error:
                if "end of data" in str(error):
                    self._end("a row without an end: a quote is not closed")
                    return
                yield _encode("".join(self._raw)) + b"\n"
                continue
            found = row if len(row) > len(names) else dict(zip(names, row, strict=False))
            yield (_encode(found) if row else b"") + b"\n"
