"""Pages whose main text is marked, and what of their blocks is main text.

Blocks use up the marked words: a block is main text if at least SHARE_MIN of its runs of three
words are in the marked text, and of its words in what the blocks before it did not use up; so of a
text that is on a page twice, one is main. A block too short for such a run is, if it is a line of
its own there. Each page weighs the same, and long blocks in it more.

The sample crawl is learned from as well, at CRAWL_SHARE of the weight: for its languages, its print
views, and, where sites are known, its edited copies, which repeat a text that is no furniture.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import numba
import numpy as np
import numpy.typing as npt

from streamer.analysis.sample import prose
from streamer.analysis.sample.sites import Site, make_site
from streamer.errors import InputError
from streamer.sketch.site_memory import SiteKeys, SiteMemory
from streamer.text import blocks
from streamer.text.main_text import (
    MainText,
    Model,
    begin_page,
    fill_lane,
    is_asked,
    model_of,
    new_main_text,
)
from streamer.text.scan import Bytes
from streamer.text.site_pages import blocks_of_page
from streamer.text.slices import Slices
from streamer.text.trees import Rows
from streamer.text.visible import scratch_bytes

RUN = 3  # words
_WORD = re.compile(r"\w+")
SHARE_MIN = 0.55
FOUND_MIN = 0.3  # of the marked words, in blocks that count as main text: else it is from elsewhere
TABLE_BYTES = 64 << 20
CRAWL_SEED, CRAWL_SITES, CRAWL_PAGES, CRAWL_SHARE = 7, 56, 1500, 0.15


class MarkedPage(msgspec.Struct):
    """A page for training: its HTML and its main text, a paragraph a line.

    `weight` is how much it counts, for pages that were marked with less care. `url` is for the
    model for sites, which learns from pages in their order.
    """

    html: str
    main_text: str
    weight: float = 1.0
    url: str = ""


class Labelled(NamedTuple):
    """The blocks of a page that trees are asked about: rows, what is main text, and weights."""

    rows: Rows
    main: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Iterable[Labelled]) -> Labelled:
        """Return the blocks of all parts."""
        rows, main, weights = zip(*parts, strict=True)
        return cls(np.concatenate(rows), np.concatenate(main), np.concatenate(weights))


def read_marked(path: Path) -> Iterator[MarkedPage]:
    """Yield the pages of a file of JSON lines.

    Raises:
        InputError: it cannot be read, or a line is no such page.
    """
    decode = msgspec.json.Decoder(MarkedPage).decode
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _decoded(decode, line, f"{path}:{number}")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error


def _decoded(decode: Any, line: bytes, where: str) -> MarkedPage:  # noqa: ANN401 - a bound method
    try:
        page: MarkedPage = decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(
            f'{where}: no marked page ({error}). A line is {{"html": ..., "main_text": ...}}.'
        ) from error
    return page


def read_blocks(page: str, memory: MainText) -> Bytes:
    """Read the blocks of a page into memory; return the text that they are in."""
    body = page.encode("utf-8", "replace")
    text = np.empty(scratch_bytes(len(body)), np.uint8)
    source = Slices.joined([body]).data
    blocks.html_to_blocks(source, 0, len(body), text, memory.structure, memory.records)
    return text


class PageReader:
    """Reads pages in their order; `main` has the blocks of the last one, and what repeats of them.

    Without sites, all is as though each page had a host of its own.
    """

    def __init__(self, model: Model | None = None, *, sites: bool = False) -> None:
        self.main = new_main_text(model or model_of([], 0, sites=sites))
        self._keys, self._memory = SiteKeys(), SiteMemory(TABLE_BYTES)

    def read(self, page: str, url: str = "") -> tuple[Bytes, Bytes]:
        """Read a page; return its text, and the repeats of the blocks that are asked about."""
        text, repeats = read_blocks(page, self.main), np.zeros(0, np.uint8)
        if url and len(self.main.repeats):
            urls = [url.encode("utf-8", "replace")]
            keys = self._keys.hosts(urls), self._keys.urls(urls)
            repeats = self._memory.learn_judged(blocks_of_page(text, *keys, self.main))
        if len(self.main.repeats):
            self.main.repeats[:] = 0
            self.main.repeats[: len(repeats)] = repeats
        return text, repeats


def words_in(text: str) -> list[str]:
    """Return the words of a text, as they are compared."""
    return _WORD.findall(text.lower())


def words_of_blocks(text: Bytes, main: MainText) -> list[list[str]]:
    """Return the words of each block of the page in memory."""
    spans = main.records[: int(main.structure.now[blocks.COUNT])][:, [blocks.START, blocks.END]]
    return [
        words_in(text[start:end].tobytes().decode("utf-8", "replace"))
        for start, end in spans.tolist()
    ]


def labelled(page: MarkedPage, reader: PageReader) -> Labelled | None:
    """Return the blocks of a page that are asked about; None if its marked text is elsewhere."""
    text, _ = reader.read(page.html, page.url)
    words = words_of_blocks(text, reader.main)
    lines = [words_in(line) for line in page.main_text.split("\n")]
    main = label(words, lines) >= SHARE_MIN
    found = sum(len(own) for own, is_main in zip(words, main, strict=True) if is_main)
    asked = np.array([is_asked(each) for each in reader.main.records[: len(words)]], np.bool_)
    if (
        found < FOUND_MIN * sum(map(len, lines))
        or not asked.any()
        or len(words) >= blocks.BLOCKS_MAX
    ):
        return None
    rows = np.empty((int(asked.sum()), len(reader.main.rows)), np.int16)
    _list_rows(reader.main, rows)
    weights = np.sqrt(reader.main.records[: len(words)][asked, blocks.WORDS])
    return Labelled(rows, main[asked], weights * (page.weight / weights.sum()))


def _rows_of_asked(main: MainText, rows: Rows) -> None:
    page, asked = begin_page(main), 0
    for at in range(page[0]):
        if is_asked(main.records[at]):
            fill_lane(main, page, at, asked, 0)
            rows[asked] = main.rows[:, 0]
            asked += 1


_list_rows: Any = numba.njit(_rows_of_asked)  # writes the row of each block that is asked about


def label(words: list[list[str]], lines: list[list[str]]) -> npt.NDArray[np.float64]:
    """Return how much of each block is of the text with these lines, from 0 to 1."""
    marked = [word for line in lines for word in line]
    runs, left = set(_runs_of(marked)), Counter(marked)
    alone, whole = {" ".join(line) for line in lines}, f" {' '.join(marked)} "
    shares = np.zeros(len(words))
    for place, own in enumerate(words):
        text = " ".join(own)
        if len(own) >= RUN:
            share = sum(run in runs for run in _runs_of(own)) / (len(own) - RUN + 1)
        else:
            share = 1.0 if text in alone else 0.5 * (f" {text} " in whole)
        if own and share >= 0.5:  # noqa: PLR2004 - half of it
            counts = Counter(own)
            share = min(share, (counts & left).total() / len(own))
            if share >= 0.5:  # noqa: PLR2004 - as above
                left -= counts
        shares[place] = share if own else 0
    return shares


def _runs_of(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(RUN)), strict=False)


def crawled_pages() -> Iterator[MarkedPage]:
    """Yield pages of made sites: originals, edited copies, print views, all with their text."""
    sites = [make_site(CRAWL_SEED, number) for number in range(CRAWL_SITES)]
    rng = Random(CRAWL_SEED)
    known: list[tuple[Site, prose.Article]] = []
    for number in range(CRAWL_PAGES):
        if known and rng.random() < 0.4:  # noqa: PLR2004 - of the pages, copies
            site, article = rng.choice(known)
            edit = rng.choice((prose.replace_words, prose.insert_words, prose.move_paragraphs))
            article = edit(rng, article, 0.1)
        else:
            site = rng.choice(sites)
            article = prose.write_article(rng, site.language, int(40 + 800 * rng.random() ** 2))
            known.append((site, article))
        page = (site.print_view if rng.random() < 0.1 else site.render)(article)  # noqa: PLR2004 - as above
        joiner = article.language.joiner
        text = [article.title, *(joiner.join(words) for words in article.paragraphs)]
        url = f"https://{site.host}/articles/{number}.html"
        yield MarkedPage(page, "\n".join(text), url=url)
