"""Reuters-21578 as pages: the <REUTERS> documents of its SGML files, in their order.

The collection has no truth about near-duplicates; what is true is exact resemblance by the plain
reference, as everywhere. An article's page is its title and body as plain text, without its
dateline, under the number that the collection gives it (NEWID). Of an unprocessed article, whose
parts are not marked (TYPE="UNPROC"), it is the whole text.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from streamer.errors import InputError
from streamer.model import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ARTICLE = "reuters"
TEXTS = frozenset({"title", "body"})
WHOLE, UNMARKED = "text", "UNPROC"
CHARSET = "latin-1"  # the files are ASCII but for a few stray bytes


class _Articles(HTMLParser):
    """Collect (number, text) of each article; `&#3;`, which ends a body, is no HTML character."""

    # The parser takes a title for raw text up to its end tag, which serves here as well.
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []
        self._number: str | None = None
        self._parts: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == ARTICLE:
            self._number, self._parts = dict(attrs).get("newid"), []
        elif tag in TEXTS or (tag == WHOLE and dict(attrs).get("type") == UNMARKED):
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = None
            self._parts.append("\n")
        elif tag == ARTICLE and self._number is not None:
            self.found.append((self._number, "".join(self._parts).strip()))
            self._number = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._parts.append(data)


def reuters_pages(files: Sequence[Path]) -> Iterator[Page]:
    """Yield the articles that have a text.

    Raises:
        InputError: a file cannot be read, or has no article.
    """
    for path in files:
        parser = _Articles()
        try:
            parser.feed(path.read_text(CHARSET))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}; check the path") from error
        parser.close()
        if not parser.found:
            raise InputError(f"{path}: has no <REUTERS> document; give files of Reuters-21578")
        for number, text in parser.found:
            if text:
                yield Page(url=f"reuters:{number}", body=text, content_type="text/plain")
