"""Texts from files of any kind: plain text and saved pages one a file, page files many, pairs.

What has a page file's name (JSON lines, WARC) is read as a replay reads it. Every other file is one
text: its charset is found, and HTML gives its visible text. A file of pairs has two texts a line,
parted by a tab or as a JSON object.

Records that are no pages are skipped, as a replay skips them.
"""

from __future__ import annotations

import io
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from streamer.errors import InputError
from streamer.model import Location
from streamer.pages.body import looks_like_html
from streamer.pages.bytestream import ByteStream, read_whole
from streamer.pages.chunk import PAGE_BYTES_MAX
from streamer.pages.files import Source, list_files_below
from streamer.pages.folders import BESIDE, UNKNOWN
from streamer.pages.formats import has_records
from streamer.pages.lists import expand_lists
from streamer.pages.remote import is_remote, name_of
from streamer.run.explanation import KeptIndex
from streamer.run.reading import DEFAULT_READER, PageReader, Progress
from streamer.sketch.method import PageText
from streamer.sketch.scheme import canonical_options
from streamer.text.charset import decode_body
from streamer.text.visible import HTML, Buffer, TextPart, meta_description, text_parts
from streamer.text.words import CanonicalOptions


def page_texts(
    reader: PageReader,
    sources: Sequence[Source],
    canonical: CanonicalOptions,
    progress: Progress = lambda _bytes, _pages: None,
) -> Iterator[PageText]:
    """Yield the texts of the pages of `sources`, as `reader` reads them."""
    for body in read_bodies(reader, sources, progress):
        yield PageText.of_body(body.utf8, body.flags, canonical)


def find_texts(
    reader: PageReader,
    sources: Sequence[Source],
    names: Collection[str],
    progress: Callable[[int], None] = lambda _bytes: None,
    urls: Mapping[str, str] | None = None,
) -> dict[str, Body]:
    """Return the first page with each name: a URL, or `source:number` with the file's name.

    A file that is called otherwise is known by its name without the folder, because files may have
    moved since. `progress` gets the bytes read so far. What comes after the last one is not read.
    `urls` has the URL that the page at a place must have.

    Raises:
        InputError: two files have the name of one that is in another folder, and no URL decides.
        StreamerError: as `PageReader.read`.
    """
    wanted, urls = set(names), urls or {}
    by_place: defaultdict[str, set[str]] = defaultdict(set)
    for each in wanted:
        path, _, ordinal = each.rpartition(":")
        by_place[f"{path.rpartition('/')[2]}:{ordinal}"].add(each)
    found: dict[str, Body] = {}
    alike: dict[str, dict[str, Body]] = {each: {} for each in wanted}
    for body in read_bodies(reader, sources, lambda read, _pages: progress(read)):
        if len(found) == len(wanted):
            break
        assert body.place is not None, body.name
        name, url, number = body.place.topic, body.name, body.place.offset
        is_it = _find_by_url(wanted & {url, f"{name}:{number}"}, url, urls)
        own = f"{Path(name).name}:{number}"
        may_be = _find_by_url(by_place.get(own, set()), url, urls) - is_it
        if is_it or may_be:
            text = body._replace(utf8=bytes(body.utf8))
            found = dict.fromkeys(is_it, text) | found
            for each in may_be:
                alike[each][name] = text
    for each in wanted - found.keys():
        if len(alike[each]) > 1 and each not in urls:
            files = " and ".join(alike[each])
            raise InputError(f"{each}: may be in {files}; give only the file that was judged")
        for text in alike[each].values():
            found.setdefault(each, text)
    return found


def _find_by_url(names: set[str], url: str, urls: Mapping[str, str]) -> set[str]:
    """Return the names that a page with this URL may have."""
    return {each for each in names if urls.get(each, url) == url} if names else names


_TYPES = {".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml"}


class Document(NamedTuple):
    """A text with the name of its source: a file, or a page's URL.

    `parts` is all that a reader of the page sees, where some of it is not compared.
    """

    name: str
    page: PageText
    parts: Sequence[TextPart] = ()


class Body(NamedTuple):
    """What a document is read from: UTF-8 as `flags` say (text/visible.py).

    `name` is a page's URL, or that of a file; only a page that is a record has a `place`.
    """

    name: str
    utf8: Buffer
    flags: int
    place: Location | None = None

    def document(self, canonical: CanonicalOptions) -> Document:
        """Return the text under these options."""
        page = PageText.of_body(self.utf8, self.flags, canonical)
        is_main = canonical.text == "main"
        parts = text_parts(self.utf8, canonical.marks(self.flags)) if is_main else ()
        return Document(self.name, page, parts)

    def document_of(self, kept: KeptIndex) -> Document:
        """Return the text that an index compares of the page, by what it knows of its site.

        The name is taken for the URL: a file that is no page file is of no site.
        """
        parts = kept.text_parts(self.utf8, self.flags, self.name)
        text = "".join(part.text for part in parts if part.counts)
        canonical = canonical_options(kept.signature.canonical)
        page = PageText(text, meta_description(self.utf8, self.flags), canonical)
        return Document(self.name, page, parts)


def read_body(path: Path | str, reader: PageReader = DEFAULT_READER) -> Body:
    """Return the one body of a file or URL, for what signs it.

    Raises:
        InputError: the file cannot be read, is too large, or holds several pages.
    """
    given = str(path)
    name = name_of(given)
    if not has_records(name):
        return _body_of_text(name, read_whole(given, PAGE_BYTES_MAX))
    pages = read_bodies(reader, reader.open([given]))
    found = next(pages, None)
    if found is None or next(pages, None) is not None:
        raise InputError(f"{name}: holds no page or several; name a file with one text")
    return found


class CollectionFiles(NamedTuple):
    """The files of a collection of texts; `sources` have many pages each, the others one text."""

    sources: Sequence[Source]
    named: Sequence[Path]
    found: Sequence[Path]  # in folders

    @property
    def size(self) -> int:
        """Return the bytes of all files as stored."""
        texts = sum(path.stat().st_size for path in (*self.named, *self.found))
        return texts + sum(source.total_bytes or 0 for source in self.sources)


def collect(paths: Sequence[Path | str], reader: PageReader, aside: Path | str) -> CollectionFiles:
    """Return the files that `paths` name, without `aside`; of a folder all files below it.

    Below a URL of a store there are page files only.

    Raises:
        InputError: a path is missing or unreadable, or a folder has no file.
    """
    pages: list[str] = []
    named: list[Path] = []
    found: list[Path] = []
    for name in expand_lists([*map(str, paths)]):
        path = Path(name)
        if is_remote(name):
            pages.append(name)
        elif path.is_dir():
            in_folder = list_files_below(name, reader.choice)
            if not any(in_folder):
                raise InputError(f"{path}: is an empty folder; check the path")
            pages += filter(has_records, in_folder.pages)
            texts = itertools.filterfalse(has_records, in_folder.pages)
            others = (name for name, kind in in_folder.others.items() if kind in {UNKNOWN, BESIDE})
            found += map(Path, (*texts, *others))
        elif not path.exists():
            raise InputError(f"{path}: no such file; check the path")
        elif has_records(name):
            pages.append(name)
        else:
            named.append(path)
    sources = [source for source in reader.open(pages) if not _is_of(source.name, aside)]
    named, found = ([path for path in each if not _is_of(path, aside)] for each in (named, found))
    return CollectionFiles(sources, named, found)


def _is_of(name: Path | str, file: Path | str) -> bool:
    """Return whether a name is that of this file or URL."""
    if is_remote(str(file)):
        return name_of(str(file)) == str(name)
    return not is_remote(str(name)) and Path(name).samefile(file)


def read_documents(
    files: CollectionFiles,
    canonical: CanonicalOptions,
    reader: PageReader,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> Iterator[Document]:
    """Yield the texts of files; binary ones in folders are skipped.

    `progress` gets the bytes read so far.

    Raises:
        StreamerError: a file cannot be read, or as `PageReader.read`.
    """
    done = 0
    binary: dict[str, str] = {}
    for path in (*files.named, *files.found):
        try:
            text = read_whole(str(path), PAGE_BYTES_MAX)
            yield _body_of_text(str(path), text).document(canonical)
        except BinaryFileError:
            if path in files.named:
                raise
            binary[str(path)] = UNKNOWN
        done += path.stat().st_size
        progress(done)
    if binary:
        reader.note_skipped(binary)
    for body in read_bodies(reader, files.sources, lambda read, _pages: progress(done + read)):
        yield body.document(canonical)


def read_bodies(
    reader: PageReader, sources: Sequence[Source], progress: Progress = lambda _bytes, _pages: None
) -> Iterator[Body]:
    """Yield the pages of page files, under their URLs."""
    for source, _, batch in reader.read(sources, progress):
        columns = batch.urls, batch.bodies, batch.flags, batch.sequences
        for url, utf8, flags, number in zip(*columns, strict=True):
            yield Body(url.decode(), utf8, flags, Location(source, 0, number))


class BinaryFileError(InputError):
    """Report a file that is no text."""


def _body_of_text(name: str, body: bytes) -> Body:
    """Return the body of a file that is one text."""
    if b"\0" in body and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BinaryFileError(f"{name}: is binary; give plain text or HTML")
    unpacked = name.lower().removesuffix(".gz").removesuffix(".zst")
    html = looks_like_html(body, _TYPES.get(PurePath(unpacked).suffix))
    return Body(name, decode_body(body, None, html=html), HTML if html else 0)


class _Pair(msgspec.Struct):
    a: str
    b: str


def read_pairs(path: Path, canonical: CanonicalOptions) -> Iterator[tuple[Document, Document]]:
    """Yield the pairs of a file, named by their lines; blank lines are skipped.

    Raises:
        InputError: the file cannot be read, or a line is no pair.
    """
    try:
        with ByteStream(str(path)) as stream:
            for number, line in enumerate(
                io.TextIOWrapper(stream.reader, "utf-8-sig", newline="\n"), 1
            ):
                if line.strip():
                    name = f"line {number}"
                    texts = _both(line.rstrip("\r\n"), f"{path}, {name}")
                    one, other = (PageText(text, "", canonical) for text in texts)
                    yield Document(name, one), Document(name, other)
            if stream.damage:
                raise InputError(f"{path}: {stream.damage}; copy the file again")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text ({error}); check it") from error


def _both(line: str, where: str) -> tuple[str, str]:
    if line.startswith("{"):
        try:
            pair = msgspec.json.decode(line, type=_Pair)
        except msgspec.DecodeError as error:
            raise InputError(f"{where}: {error}; give an object with the texts a and b") from error
        return pair.a, pair.b
    texts = line.split("\t")
    if len(texts) != 2:  # noqa: PLR2004 - of a pair
        raise InputError(f"{where}: has not two columns; part the two texts by one tab")
    return texts[0], texts[1]
