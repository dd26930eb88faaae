"""Training of the model for sites, from marked pages of which some have a URL.

Pages are read in their order, as an index reads them: of each block is known on how many pages of
its host it stood before. The trees of blocks see that in addition to the rows of single pages. A
page without a URL has no site, so its blocks never repeat, as those of the first page of a host.

What repeats is not always furniture: an edited copy of an article has paragraphs of it. So the
sample crawl is learned from as well, with its edits, mirrors, print views and pages that are
fetched again; its main text is what the model in crawl_model.json finds.

The trees of the page are those of that model, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.training import single_pages
from streamer.errors import InputError
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.sketch.site_memory import SiteKeys, SiteMemory
from streamer.text import blocks, main_text
from streamer.text.scan import Bytes
from streamer.text.trees import Rows
from streamer.text.visible import HTML

TABLE_BYTES = 64 << 20


class SiteReader:
    """Reads pages in order; `main` has the blocks of the last one, and what repeats of them."""

    def __init__(self, model: main_text.Model) -> None:
        self.main = main_text.new_main_text(model)
        self._signer = NativeSigner(
            SignatureSettings(canonical=MAIN_TEXT, bands=1, rows=1), bytes(32)
        )
        self._keys, self._memory = SiteKeys(), SiteMemory(TABLE_BYTES)

    def learn(self, url: str, page: str) -> Bytes:
        """Learn a page; return the repeats of its scored blocks, which `main` has as well."""
        body, urls = page.encode("utf-8", "replace"), [url.encode("utf-8", "replace")]
        hosts = self._keys.hosts(urls)
        own = self._signer.list_blocks([body], [HTML], hosts, self._keys.urls(urls))
        repeats = self._memory.learn_judged(own)
        if len(self.main.repeats):
            self.main.repeats[: len(repeats)] = repeats
        return repeats


class Labelled(NamedTuple):
    """Scored blocks to train on: rows, what is main text of them, and weights."""

    rows: Rows
    main: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float64]

    def weighing(self, total: float) -> Labelled:
        """Return the same with another sum of weights."""
        return self._replace(weights=self.weights * (total / self.weights.sum()))

    @classmethod
    def joined(cls, parts: Iterable[Labelled]) -> Labelled:
        """Return the blocks of all parts."""
        rows, main, weights = zip(*parts, strict=True)
        return cls(np.concatenate(rows), np.concatenate(main), np.concatenate(weights))


def site_columns(repeats: Bytes, words: Rows) -> Rows:
    """Return what the rows of a page's scored blocks have of repeats: int16[blocks, 4]."""
    own, each = np.minimum(repeats, main_text.REPEATS_MAX).astype(np.int16), words.astype(np.int64)
    share = int(each[own > 0].sum()) * 1000 // max(1, int(each.sum()))
    around = np.concatenate((np.zeros(1, np.int16), own, np.zeros(1, np.int16)))
    return np.column_stack((own, around[:-2], around[2:], np.full_like(own, share)))


def _labelled(sheet: single_pages.Sheet, repeats: Bytes | None = None) -> Labelled:
    """Return the scored blocks of a sheet; without `repeats` none was on another page."""
    words, link_share = sheet.rows[:, 0], sheet.rows[:, 1]
    scored = (link_share < 1000) | (words >= main_text.LINKS_MAX)  # noqa: PLR2004 - thousandths
    own = np.zeros(int(scored.sum()), np.uint8) if repeats is None else repeats
    rows = np.hstack((sheet.rows[scored], site_columns(own, words[scored])))
    return Labelled(rows, sheet.main[scored], sheet.weights[scored])


def of_single_pages(pages: Iterable[single_pages.MarkedPage]) -> Iterator[Labelled]:
    """Yield the blocks of marked pages without a URL, each as it is and broken into lines."""
    yield from (
        _labelled(each)
        for own in single_pages.sheets_of(pages, exchange=False)
        for each in own
        if each.is_usable
    )


def in_order(pages: Iterable[single_pages.MarkedPage]) -> Iterator[Labelled | None]:
    """Yield the blocks of each of these pages with a URL; None where they cannot be used."""
    reader = SiteReader(main_text.model_of([], 0))
    for page in pages:
        repeats = reader.learn(page.url, page.html)
        sheet = single_pages.sheet_of(page, reader.main)
        is_whole = len(sheet.main) < blocks.BLOCKS_MAX  # else none is scored
        yield _labelled(sheet, repeats) if sheet.is_usable and is_whole else None


def of_sites(pages: Iterable[single_pages.MarkedPage]) -> Iterator[Labelled]:
    """Yield the blocks of marked pages with a URL that can be used."""
    yield from (each for each in in_order(pages) if each is not None)


def page_trees(model: Path = main_text.MODEL) -> dict[str, Any]:
    """Return the trees of the page of a model, by default of the package's for single pages."""
    trees: dict[str, Any] = msgspec.json.decode(model.read_bytes())["page"]
    return trees


def with_crawl(real: Labelled, crawl: Labelled) -> Labelled:
    """Return real blocks with those of the sample crawl, weighing CRAWL_SHARE of the real ones."""
    return Labelled.joined(
        [real, crawl.weighing(single_pages.CRAWL_SHARE * float(real.weights.sum()))]
    )


def train_for_sites(
    pages: Iterable[single_pages.MarkedPage], trees: int = single_pages.TREES
) -> bytes:
    """Return the file of a model for sites, of marked pages; those with a URL in their order.

    Raises:
        InputError: no page has a URL.
    """
    single: list[single_pages.MarkedPage] = []
    of_a_site: list[single_pages.MarkedPage] = []
    for page in pages:
        (of_a_site if page.url else single).append(page)
    if not of_a_site:
        raise InputError('No page has a site: lines of --sites pages have a "url".')
    real = Labelled.joined([*of_single_pages(single), *of_sites(of_a_site)])
    rows, main, weights = with_crawl(real, Labelled.joined(of_sites(single_pages.crawled_pages())))
    grown = single_pages.grow(rows, main, weights, (trees, single_pages.LEAVES))
    content = {
        "features": main_text.FEATURES_VERSION,
        "sites": True,
        **grown,
        "page": page_trees(single_pages.CRAWL_MODEL),
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
