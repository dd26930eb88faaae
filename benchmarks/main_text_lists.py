"""False duplicates among lists: pages of shops and lists whose cards are those of other pages.

Products, listings and collections of the pages of seven kinds: what is marked of a page is in one
element, the deepest that holds BOX_SHARE of its marked words. Each page stays as it is, and comes
with that element of some others of its kind in place of its own. All of them have the address of
the page around, so that what its site repeats can be learned. A duplicate is right if the page that
it names has the element of the same page, or of one whose text is much the same.

    python benchmarks/main_text_lists.py ../shared/data
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from lxml import etree, html
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks.figures import empty_table
from benchmarks.main_text import KINDS, archive_lines
from streamer import Deduplicator, Page, Verdict

if TYPE_CHECKING:
    from rich.table import Table

LISTS = ("product", "listing", "collection")
BOX_SHARE = 0.9
WORDS_MIN = 50  # that are marked, and found in the page
AROUND_MIN = 30  # words around the element
OTHERS, SEED = 3, 5
SAME_TEXT = 0.4  # Jaccard of runs of three words
_WORD = re.compile(r"\w+")
_NO_TEXT = ("script", "style", "noscript", "template", "head")
Runs = frozenset[tuple[str, ...]]


class ListPage(NamedTuple):
    """A page, the path of the element that holds its marked text, and the runs of that text."""

    name: str
    host: str
    root: Any
    path: str
    runs: Runs


class Exchanged(NamedTuple):
    """A page in whose element is what another page, `name`, has in its own."""

    page: Page
    name: str
    runs: Runs


def runs_of(words: list[str]) -> Runs:
    """Return the runs of three words."""
    return frozenset(zip(words, words[1:], words[2:], strict=False))


@dataclass
class _Body:
    """The words of a page's body, and which of them each element has."""

    words: list[str] = field(default_factory=list)
    spans: dict[Any, tuple[int, int]] = field(default_factory=dict)

    def add(self, element: Any) -> None:  # noqa: ANN401 - lxml has no types
        """Add the words of an element, in the order of the page."""
        start = len(self.words)
        if isinstance(element.tag, str) and element.tag not in _NO_TEXT:
            self._add_words(element.text)
            for child in element:
                self.add(child)
                self._add_words(child.tail)
        self.spans[element] = start, len(self.words)

    def _add_words(self, text: str | None) -> None:
        self.words += _WORD.findall((text or "").lower())


def read_list(page: dict[str, str]) -> ListPage | None:
    """Return a page that can be exchanged; None if its text is not in an element among others."""
    root = html.document_fromstring(page["html"])
    marked = _WORD.findall(page["main_content"].lower())
    runs, body = runs_of(marked), _Body()
    if (element := root.find(".//body")) is None:
        return None
    body.add(element)
    is_marked = [False] * len(body.words)
    for at, run in enumerate(zip(body.words, body.words[1:], body.words[2:], strict=False)):
        if run in runs:
            is_marked[at : at + 3] = [True] * 3
    found = sum(is_marked)
    if found < max(WORDS_MIN, 0.6 * len(marked)):
        return None
    inner: list[Any] = [element]
    while inner:
        element = inner[0]
        spans = ((child, body.spans.get(child, (0, 0))) for child in element)
        inner = [child for child, own in spans if sum(is_marked[slice(*own)]) >= BOX_SHARE * found]
    start, end = body.spans[element]
    if len(body.words) - (end - start) < AROUND_MIN:
        return None
    path = root.getroottree().getpath(element)
    return ListPage(page["id"], page["host"], root, path, runs)


def exchange(around: ListPage, inside: ListPage) -> Exchanged:
    """Return a page with the element of another one in place of its own."""
    root = deepcopy(around.root)
    [box], [other] = root.xpath(around.path), inside.root.xpath(inside.path)
    for child in list(box):
        box.remove(child)
    box.text = other.text
    box.extend(deepcopy(child) for child in other)
    text = etree.tostring(root, encoding="unicode", method="html")
    url = f"http://{around.host}/{around.name}/{inside.name}"
    return Exchanged(Page(url, text, content_type="text/html"), inside.name, inside.runs)


def exchanged_lists(data: Path) -> list[Exchanged]:
    """Return all pages with their own element and with those of others, in a drawn order."""
    lists = defaultdict[str, list[ListPage]](list)
    for page in map(json.loads, archive_lines(data / KINDS, "pages.jsonl")):
        if page["page_type"] in LISTS and (own := read_list(page)) is not None:
            lists[page["page_type"]].append(own)
    rng, found = Random(SEED), list[Exchanged]()
    for of_kind in lists.values():
        for page in of_kind:
            others = rng.sample([each for each in of_kind if each is not page], OTHERS)
            found += [exchange(page, each) for each in (page, *others)]
    rng.shuffle(found)
    return found


@dataclass
class Found:
    """What became of pages: how many, new ones, wrong duplicates, right ones."""

    pages: int = 0
    new: int = 0
    wrong: int = 0
    right: int = 0


def judged(pages: list[Exchanged], **options: Any) -> Found:  # noqa: ANN401 - of Deduplicator
    """Judge pages, as they come."""
    by_url, kept, found = {each.page.url: each for each in pages}, set[str](), Found()
    with Deduplicator(**options) as dedup:
        for own, verdict in zip(pages, dedup.add(each.page for each in pages), strict=True):
            assert isinstance(verdict, Verdict), verdict
            found.pages += 1
            found.new += own.name not in kept
            if verdict.representative is None:
                kept.add(own.name)
                continue
            other = by_url[verdict.representative.url]
            share = len(own.runs & other.runs) / max(1, len(own.runs | other.runs))
            found.right += other.name == own.name
            found.wrong += other.name != own.name and share < SAME_TEXT
    return found


def lists_table(data: Path) -> Table:
    """Judge the lists by presets, with what sites repeat and without."""
    pages = exchanged_lists(data)
    heads = ("pages", "wrong duplicates", "seen before", "found")
    table = empty_table("Lists with the cards of others", "preset", *heads)
    ways: dict[str, dict[str, Any]] = {name: {"preset": name} for name in ("balanced", "broad")}
    ways["balanced, `--site-memory 0`"] = {"preset": "balanced", "site_memory": 0}
    for name, options in ways.items():
        own = judged(pages, **options)
        wrong = f"{own.wrong} ({own.wrong / own.pages:.2%})"
        table.add_row(name, f"{own.pages:,}", wrong, f"{own.pages - own.new:,}", f"{own.right:,}")
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Count false duplicates among lists.")
    parser.add_argument("data", type=Path, help="folder with the archives")
    Console().print(lists_table(parser.parse_args().data))


if __name__ == "__main__":
    main()
