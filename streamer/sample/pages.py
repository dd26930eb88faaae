"""The pages of one or several files in their exact form, and which of them a verdict means.

A verdict names its page by file and ordinal; where the files went through Kafka that place is a
topic's, and the page is then found by its URL, if only one page has it. All pages are held in
memory as shingle sets: 4 kB of text take about 6 kB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamer.errors import InputError
from streamer.sample.reference import Exact, Shingler, page_text, read_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamer.model import Location

SUFFIXES = (".jsonl", ".ndjson", ".json")


class Pages:
    """Pages in the order of their files, named by an index from 0.

    Records that are no pages (invalid, without a body, no text) have no index.

    Attributes:
        exact: what is compared, by index.
        urls: by index.
        ordinals: the line in the page's file, from 0, by index.
    """

    def __init__(self) -> None:
        self.exact: list[Exact] = []
        self.urls: list[str] = []
        self.ordinals: list[int] = []
        self._places: dict[tuple[str, int], int] = {}
        self._by_url: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self.exact)

    def find(self, place: Location | None, url: str) -> int | None:
        """Return the index of the page at `place` with this URL, else of the only one with it."""
        if place is not None and place.partition == 0:
            name = place.topic.rpartition("/")[2]
            for topic in (place.topic, name):
                index = self._places.get((topic, place.offset))
                if index is not None and self.urls[index] == url:
                    return index
        return self._by_url.get(url)

    def add(self, names: Sequence[str], ordinal: int, url: str, exact: Exact) -> None:
        """Append a page that verdicts may place in a file of any of `names`."""
        index = len(self.exact)
        self.exact.append(exact)
        self.urls.append(url)
        self.ordinals.append(ordinal)
        for name in names:
            self._places.setdefault((name, ordinal), index)
        self._by_url[url] = None if url in self._by_url else index


def page_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files that `paths` name; a folder stands for the page files below it, sorted.

    Raises:
        InputError: a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES)
            if not below:
                raise InputError(
                    f"{path}: no {', '.join(SUFFIXES)} file in it; name the page files"
                )
            files += below
        else:
            files.append(path)
    return files


def read_pages(files: Sequence[Path]) -> Pages:
    """Read page messages from JSON-lines files.

    Raises:
        InputError: a file cannot be read.
    """
    pages, shingler = Pages(), Shingler()
    for path in files:
        names = dict.fromkeys((str(path), path.name))
        try:
            with path.open("rb") as file:
                for ordinal, line in enumerate(file):
                    page = read_page(line)
                    text = page and page_text(page)
                    if page is not None and isinstance(text, str):
                        pages.add(tuple(names), ordinal, page.url, shingler.exact(text))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    return pages
