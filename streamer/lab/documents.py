"""Texts from files of any kind: plain text and saved pages one a file, page files many, pairs.

What has a page file's name (JSON lines, WARC) is read as a replay reads it. Every other file is one
text: its charset is found, and HTML gives its visible text. A file of pairs has two texts a line,
parted by a tab or as a JSON object.

Records that are no pages are passed over, as a replay passes them over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamer.errors import InputError
from streamer.model import Location
from streamer.pages.chunk import PAGE_BYTES_MAX, PageBatch
from streamer.pages.files import Source, is_page_file, open_sources
from streamer.pages.parse import PageParser
from streamer.sketch.method import PageText
from streamer.text.charset import decode_body
from streamer.text.visible import HTML, Buffer, TextPart, looks_like_html, text_parts
from streamer.text.words import CanonicalOptions


def batches(
    sources: Sequence[Source],
    parser: PageParser,
    progress: Callable[[int, int], None] = lambda _bytes, _pages: None,
) -> Iterator[tuple[str, PageBatch]]:
    """Yield the pages of `sources` in order, with the name of their source.

    `progress` is told the bytes read of all sources and the pages found.

    Raises:
        InputError: a source cannot be read.
    """
    before = pages = 0
    for source in sources:
        read = 0
        for chunk in source.read():
            batch = parser.parse(chunk)
            yield source.name, batch
            read, pages = chunk.amount, pages + len(batch)
            progress(before + read, pages)
        before += read


def page_texts(
    sources: Sequence[Source],
    parser: PageParser,
    canonical: CanonicalOptions,
    progress: Callable[[int, int], None] = lambda _bytes, _pages: None,
) -> Iterator[PageText]:
    """Yield the texts of the pages of `sources`, as `batches` does."""
    for _, batch in batches(sources, parser, progress):
        for body, flags in zip(batch.bodies, batch.flags, strict=True):
            yield PageText.of_body(body, flags, canonical)


class FoundText(NamedTuple):
    """A page's URL, its place (None of a text that is no record), and its body as `flags` tell."""

    url: str
    place: Location | None
    body: bytes
    flags: int


def find_texts(
    files: Sequence[str],
    names: Collection[str],
    progress: Callable[[int], None] = lambda _bytes: None,
) -> dict[str, FoundText]:
    """Return the first page with each name: a URL, or `source:number` with the file's name.

    The folder of a place does not count, because files may have moved since. `progress` is told the
    bytes read so far.

    Raises:
        InputError: a file cannot be read.
    """
    wanted = set(names)
    by_place = {_without_folder(name): name for name in wanted}
    found: dict[str, FoundText] = {}
    sources = open_sources(files).sources
    for name, batch in batches(sources, PageParser(), lambda read, _pages: progress(read)):
        own = Path(name).name
        columns = map(bytes.decode, batch.urls), batch.sequences, batch.bodies, batch.flags
        for url, number, body, flags in zip(*columns, strict=True):
            place = by_place.get(f"{own}:{number}", url)
            for each in wanted.intersection((url, place)):
                at = Location(name, 0, number)
                found.setdefault(each, FoundText(url, at, bytes(body), flags))
    return found


def _without_folder(place: str) -> str:
    head, colon, number = place.rpartition(":")
    return f"{head.rpartition('/')[2]}{colon}{number}"


_TYPES = {".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml"}
_TAB = "\t"


class Document(NamedTuple):
    """A text with the name of its source: a file, or a page's URL.

    `parts` is all that a reader of the page sees, where some of it is not compared.
    """

    name: str
    page: PageText
    parts: Sequence[TextPart] = ()


class Body(NamedTuple):
    """What a document is read from: UTF-8 as `flags` tell (text/visible.py)."""

    name: str
    utf8: Buffer
    flags: int

    def document(self, canonical: CanonicalOptions) -> Document:
        """Return the text under these options."""
        page = PageText.of_body(self.utf8, self.flags, canonical)
        if canonical.text == "visible":
            return Document(self.name, page)
        return Document(self.name, page, text_parts(self.utf8, canonical.marks(self.flags)))


def read_document(path: Path, canonical: CanonicalOptions) -> Document:
    """Return the one text of a file.

    Raises:
        InputError: the file cannot be read, is too large, or holds several pages.
    """
    return read_body(path).document(canonical)


def read_body(path: Path) -> Body:
    """Return the one body of a file, for what signs it.

    Raises:
        InputError: the file cannot be read, is too large, or holds several pages.
    """
    if is_page_file(path):
        pages = _bodies(path)
        found = next(pages, None)
        if found is None or next(pages, None) is not None:
            raise InputError(f"{path}: holds no page or several; name a file with one text")
        return found
    body = _read(path)
    if b"\0" in body and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: is binary; give plain text or HTML")
    html = looks_like_html(body, _TYPES.get(path.suffix.lower()))
    return Body(str(path), decode_body(body, None, html=html).utf8, HTML if html else 0)


def read_documents(paths: Sequence[Path], canonical: CanonicalOptions) -> Iterator[Document]:
    """Yield the texts of files, and of all files below folders by name.

    Raises:
        InputError: a file cannot be read.
    """
    for path in files_of(paths):
        if is_page_file(path):
            yield from (body.document(canonical) for body in _bodies(path))
        else:
            yield read_document(path, canonical)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Return the files that `paths` name; a folder stands for all files below it, sorted.

    Raises:
        InputError: a path is not there, or a folder holds no file.
    """
    result: list[Path] = []
    for path in paths:
        below = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        if not below or not path.exists():
            raise InputError(f"{path}: no such file, or an empty folder; check the path")
        result += below
    return result


def _bodies(path: Path) -> Iterator[Body]:
    """Yield the pages of a page file, under their URLs."""
    for _, batch in batches([Source(str(path), is_regular=True)], PageParser()):
        yield from map(Body, map(bytes.decode, batch.urls), batch.bodies, batch.flags)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            body = file.read(PAGE_BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the file") from error
    if len(body) > PAGE_BYTES_MAX:
        raise InputError(f"{path}: is larger than {PAGE_BYTES_MAX:,} bytes; give a part of it")
    return body


class _Pair(msgspec.Struct):
    a: str
    b: str


def read_pairs(path: Path, canonical: CanonicalOptions) -> Iterator[tuple[Document, Document]]:
    """Yield the pairs of a file, named by their lines; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, or a line is no pair.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    name = f"line {number}"
                    texts = _both(line.rstrip("\r\n"), f"{path}, {name}")
                    one, other = (PageText(text, "", canonical) for text in texts)
                    yield Document(name, one), Document(name, other)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text ({error}); check it") from error


def _both(line: str, where: str) -> tuple[str, str]:
    if line.startswith("{"):
        try:
            pair = msgspec.json.decode(line, type=_Pair)
        except msgspec.DecodeError as error:
            raise InputError(f"{where}: {error}; give an object with the texts a and b") from error
        return pair.a, pair.b
    one, tab, other = line.partition(_TAB)
    if not tab or _TAB in other:
        raise InputError(f"{where}: has not two columns; part the two texts by one tab")
    return one, other
