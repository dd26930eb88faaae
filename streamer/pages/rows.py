r"""CSV and TSV: a row becomes a JSON object under the names of the first row, and is read as that.

So fields are found by the same pointers, and a dead letter holds the row as JSON. Quotes and
delimiters of CSV are as the standard library's `csv` has them (RFC 4180). TSV has no quotes (as
registered with IANA), and `\N` is an absent cell there, as databases write it. Memory is bounded: a
row that is over the page limit becomes a dead letter, and a line that is far over it ends the
reading.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streamer.errors import InputError
from streamer.pages.bytestream import ByteStream
from streamer.pages.lines import LineRecords
from streamer.pages.made_bytes import Parts
from streamer.pages.message import BACKSLASHES, ESCAPED_QUOTE
from streamer.pages.records import InputFile

_LIMITS = 4  # page limits that a row may take, in characters, before the reading ends
COLUMNS_MAX = 16_384  # whose names each row becomes an object under
TAB = "\t"
_ABSENT = r"\N"
_ROW = re.compile(r"""^["']?https?://[^\s"]+["']?[,;\t]""", re.MULTILINE)
_QUOTED = re.compile(r'"[^"]*(?:"|$)')
_TORN = re.compile(r'\\",(?!")[^,\n]*"')  # a quote after a backslash has ended a cell
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
    if twice := [name for name, count in Counter(names).items() if name and count > 1]:
        raise InputError(f"{what} has the column {min(twice)!r} twice; rename one of them")


def _swallows_rows(cell: str) -> bool:
    """Return whether most lines of a cell begin like rows: a quote before them is too many."""
    lines = cell.count("\n")
    return lines > 1 and "http" in cell and 2 * len(_ROW.findall(cell)) > lines


class _RowLines:
    """The rows of a text in columns, a JSON object a line."""

    def __init__(self, file: InputFile, source: io.BufferedReader[Any], delimiter: str) -> None:
        self.damage = ""
        self._limit = _LIMITS * file.page_bytes_max
        self._delimiter, self._has_quotes = delimiter, delimiter != TAB
        # A cell of TSV may hold the other sign that ends lines.
        end = "" if self._has_quotes or b"\n" not in source.peek() else "\n"
        self._text = io.TextIOWrapper(source, "utf-8-sig", errors="replace", newline=end)
        self._raw: list[str] = []  # the lines of the row in hand
        csv.field_size_limit(max(self._limit, csv.field_size_limit()))  # of all readers
        quotes: Any = csv.QUOTE_MINIMAL if self._has_quotes else csv.QUOTE_NONE
        self._rows = csv.reader(self._lines(), delimiter=delimiter, quoting=quotes, strict=True)

    def names(self, path: str) -> list[str]:
        """Return the names of the columns, which the first row has."""
        try:
            names = next(self._rows, [])
        except csv.Error as error:
            raise InputError(f"{path}: its first row cannot be read ({error})") from error
        if not names and self.damage:
            raise InputError(f"{path}: {self.damage}")
        check_columns(f"{path}: its first row", names)
        if len(names) == 1 and (others := re.findall(r"[,;|\t]", names[0])):
            raise InputError(
                f"{path}: its first row is one name, {names[0][:60]!r}, as cells are separated by "
                f"{others[0]!r} and not by {'a comma' if self._has_quotes else 'a tab'}; write it "
                "again, or name it by what separates them: .csv or .tsv"
            )
        return names

    def _lines(self) -> Iterator[str]:
        size = quotes = 0
        while line := self._text.readline(self._limit):
            size, quotes = (size, quotes) if self._raw else (0, 0)
            size += len(line)
            if line.count(self._delimiter) >= COLUMNS_MAX:
                # A cell takes eight bytes, and each character may be one.
                rest = _QUOTED.sub("", line if quotes % 2 == 0 else f'"{line}')
                cells = (rest if self._has_quotes else line).count(self._delimiter) + 1
                if cells > COLUMNS_MAX:
                    self._end(f"a row of {cells:,} cells, and at most {COLUMNS_MAX:,} are read")
                    return
            quotes += line.count('"')
            if size >= self._limit:
                self._end(f"a row of more than {self._limit:,} characters; is a quote not closed?")
                return
            self._raw.append(line)
            yield line if self._has_quotes else line.rstrip("\r\n").replace("\r", " ")

    def _end(self, why: str) -> None:
        if any(ESCAPED_QUOTE in line for line in self._raw):
            why += f"; {BACKSLASHES}"
        self.damage = self.damage or f"after line {self._rows.line_num:,} of its text comes {why}"

    def _is_malformed(self, row: list[str], columns_max: int) -> bool:
        """Return whether a quote in a row has swallowed others, or ended a cell too early."""
        raw = "".join(self._raw)
        escapes = self._has_quotes and ESCAPED_QUOTE in raw
        if escapes and (len(row) > columns_max or _TORN.search(raw)):
            return True
        return any(cell and _swallows_rows(cell) for cell in row)

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
                row = None
            if row is None or self._is_malformed(row, len(names)):
                yield _encode("".join(self._raw)) + b"\n"
                continue
            cells = [None if cell == _ABSENT and not self._has_quotes else cell for cell in row]
            found = cells if len(row) > len(names) else dict(zip(names, cells, strict=False))
            yield (_encode(found) if row else b"") + b"\n"
