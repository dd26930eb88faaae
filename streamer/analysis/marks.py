"""Pairs of pages with a label: whether they are the same page, as people or a data set say.

The file has a pair a line, parted by tabs, below the names of its columns: `url_a`, `url_b`,
`label`, and where several pages have one URL `place_a` and `place_b`, each as SOURCE:NUMBER. The
label `different` says that two pages are no duplicates of each other, `same` that they are, and an
empty one takes back what was said. In the file of a data set, which has no places, any other label,
such as `plagiarised`, says the same as `same`. Of several lines on a pair the last one counts, so a
file is only ever appended to. Nothing is quoted: tabs and ends of lines are escaped as in URLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from streamer.errors import InputError, StoreUnavailable
from streamer.model import Location
from streamer.run.appending import appending
from streamer.run.outputs import check_writable

Label = Literal["same", "different", ""]
SAME, DIFFERENT = "same", "different"
_NEEDED, _PLACES = ("url_a", "url_b", "label"), ("place_a", "place_b")
_COLUMNS = (*_NEEDED, *_PLACES)
_HEADER = "\t".join(_COLUMNS).encode() + b"\n"
_ESCAPED = str.maketrans({"\t": "%09", "\n": "%0A", "\r": "%0D"})


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

    @property
    def escaped(self) -> PageOfPair:
        """Return it as it is in a file."""
        return PageOfPair(self.url.translate(_ESCAPED), self.place.translate(_ESCAPED))


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
        InputError: the file cannot be read, has other columns, or a label that is not known.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    return [mark for mark in _last_marks(path, content).values() if mark.label]


_Marks = dict[frozenset[PageOfPair], PairMark]


def _last_marks(path: Path, content: bytes) -> _Marks:
    """Return the last mark of each pair, in their order; one that was taken back has no label."""
    found: _Marks = {}
    with _as_marks(path):
        text = content[: _whole_bytes(content)].decode("utf-8-sig")
        for mark in () if _is_new(content) else _marks_in(text):
            found.pop(mark.pair, None)
            found[mark.pair] = mark
    return found


def _marks_in(text: str) -> Iterator[PairMark]:
    """Yield the marks of a file's lines, of which the first one names the columns.

    Raises:
        KeyError: a column is missing.
        ValueError: a label is not known.
    """
    columns, *lines = [line.removesuffix("\r").split("\t") for line in text.split("\n")]
    _check_columns(columns, _NEEDED)
    has_places = set(_PLACES) <= set(columns)
    for number, fields in enumerate(lines, 2):
        row = dict(zip(columns, fields, strict=False))
        if "url_a" in row and "url_b" in row:
            one, other = (PageOfPair(row[f"url_{s}"], row.get(f"place_{s}", "")) for s in "ab")
            label = row.get("label", "").strip()
            plain = label.casefold()
            if plain in {SAME, DIFFERENT}:
                label = plain
            elif plain and (has_places or plain.startswith("diff")):
                raise ValueError(f"line {number} has the label {label!r}, not same or different")
            yield PairMark(one, other, label)


def _check_columns(columns: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in columns:
            raise KeyError(name)


def _is_new(content: bytes) -> bool:
    """Return whether a file has no mark yet, and nothing else."""
    return _HEADER.startswith(content)


def _whole_bytes(content: bytes) -> int:
    """Return how many bytes whole lines have: a kill may have cut the last one short.

    A last line without its end is whole if it has all columns, and nothing of a mark is in the last
    of these but a label that is known.
    """
    size = content.rfind(b"\n") + 1
    columns = content.partition(b"\n")[0].removesuffix(b"\r").split(b"\t")
    *before, last = content[size:].split(b"\t")
    name = columns[-1].decode(errors="replace")
    if size and len(before) + 1 == len(columns):
        known = last.strip().lower() in {SAME.encode(), DIFFERENT.encode()}
        if known if name == "label" else name not in _COLUMNS:
            return len(content)
    return size


@contextmanager
def _as_marks(path: Path) -> Iterator[None]:
    """Say of errors that the file has no marks."""
    try:
        yield
    except (KeyError, ValueError) as error:
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
        self._marks: _Marks = {}
        self.refresh()

    def label_of(self, one: PageOfPair, other: PageOfPair) -> str:
        """Return how two pages are marked; '' for not at all.

        Raises:
            InputError: as `refresh`.
        """
        self.refresh()
        both = frozenset((one.escaped, other.escaped))
        mark = self._marks.get(both) or self._marks.get(_bare(both))
        return mark.label if mark else ""

    def __len__(self) -> int:
        """Return how many pairs are marked."""
        self.refresh()
        return sum(mark.label != "" for mark in self._marks.values())

    @property
    def trouble(self) -> str:
        """Return why the file cannot be read now; '' for nothing."""
        try:
            self.refresh()
        except InputError as error:
            return f"Marks are not shown. {error}."
        return ""

    def refresh(self) -> None:
        """Read the file, unless it is as it was.

        Raises:
            InputError: it has other columns by now, or cannot be read any more.
        """
        try:
            found = self.path.stat()
            seen = found.st_size, found.st_mtime_ns
            if seen == self._seen:
                return
            content = self.path.read_bytes() if found.st_size else b""
        except FileNotFoundError:
            self._seen, self._marks = (0, 0), {}
            return
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror or error}; check the path") from error
        self._marks, self._seen = _last_marks(self.path, content), seen

    def append(self, mark: PairMark) -> None:
        """Append a mark, which is on the disk then; other processes may append at the same time.

        What was said of the URLs alone is replaced, too.

        Raises:
            InputError: the file has other columns, or none for the places.
            StoreUnavailable: it cannot be written.
        """
        try:
            with appending(self.path) as file:
                content = file.content()
                columns = self._columns_of(content)
                rows = [mark._replace(one=mark.one.escaped, other=mark.other.escaped)]
                old = _last_marks(self.path, content).get(_bare(rows[0].pair))
                if old and old.label and old.pair != rows[0].pair:
                    rows.append(old._replace(label=mark.label))
                whole = 0 if _is_new(content) else _whole_bytes(content)
                start = b"\n" if whole and content[whole - 1] != ord("\n") else b""
                file.cut(whole)
                lines = "".join(_line(columns, row) for row in rows)
                file.write((start if whole else _HEADER) + lines.encode("utf-8", "replace"))
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot write {self.path}: {error.strerror or error}; choose another --marks."
            ) from error

    def check(self) -> None:
        """Find out whether marks can be appended.

        Raises:
            InputError: as `append`.
            SettingsError: the file cannot be written.
        """
        check_writable(self.path)
        if self.path.is_file():
            self._columns_of(self.path.read_bytes())

    def _columns_of(self, content: bytes) -> Sequence[str]:
        """Return the columns of a file, those of a new one if it is empty."""
        if _is_new(content):
            return _COLUMNS
        with _as_marks(self.path):
            first = content.partition(b"\n")[0].decode("utf-8-sig")
            columns = first.removesuffix("\r").split("\t")
            _check_columns(columns, _NEEDED)
        if not set(_PLACES) <= set(columns):
            raise InputError(
                f"{self.path}: has no columns place_a and place_b, by which marks name one of "
                "several pages with a URL; add them to its first line, or choose another --marks"
            )
        return columns


def _bare(pair: frozenset[PageOfPair]) -> frozenset[PageOfPair]:
    return frozenset(page._replace(place="") for page in pair)


def _line(columns: Sequence[str], mark: PairMark) -> str:
    (url_a, place_a), (url_b, place_b), label = mark
    values = dict(zip(_COLUMNS, (url_a, url_b, label, place_a, place_b), strict=True))
    return "\t".join(values.get(name, "") for name in columns) + "\n"
