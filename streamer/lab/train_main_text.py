"""Training of a whole model of main text: the trees of blocks, and those of the page.

Which pages have no main text is learnt beside those whose main text is marked:

- from the same pages with their main text taken out: what is left is a real site's furniture;
- from these with something else in its place, of a kind that is no main text (sample/kinds.py);
- from made pages of these kinds; and from pages that are marked to have no main text.

So that it is not the furniture that tells the two apart, marked text in made furniture and made
articles are learnt from as well.

Trees of the page look at what those of the blocks chose. These are surer of pages that they were
trained on than they ever are of others: so each page is scored by trees that others made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.lab.main_text import (
    SHARE_MIN,
    TREES,
    Grown,
    MarkedPage,
    Sheet,
    grow,
    grow_of_blocks,
    runs_of,
)
from streamer.lab.sample.kinds import KINDS, Writer, article
from streamer.text.blocks import html_to_blocks
from streamer.text.main_text import (
    FEATURES_VERSION,
    PAGE_FEATURES,
    SCORE_ONE,
    WORDS_MIN,
    MainText,
    fill_page_row,
    model_of,
    new_main_text,
    score_blocks,
)
from streamer.text.slices import Slices
from streamer.text.visible import scratch_bytes
from streamer.text.words import canonical_words

FOLDS = 3
PAGE_TREES, PAGE_LEAVES = 40, 8
IN_DOUBT = 1.5  # log odds for main text: articles are what --text main is asked for
HARD = ("teasers", "product", "thread", "code")  # kinds that look most like articles
DRAWN = (*KINDS, *HARD, *HARD)
MADE = 80  # times all that are drawn
ARTICLES = 900
MARKED_WEIGHT = 1.5
_PARTS = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>|[^<]+")


class Example(NamedTuple):
    """A page for the trees of the page, how much it counts, and who may not score it."""

    html: str
    has_main_text: bool
    weight: float
    fold: int


def train(pages: Sequence[MarkedPage], sheets: Sequence[list[Sheet]], trees: int = TREES) -> bytes:
    """Return a model's file, of pages and the sheets of each (`sheets_of`).

    Raises:
        InputError: there is no page that can be used, or none of their blocks is furniture.
        SettingsError: scikit-learn is not installed.
    """
    model = grow_of_blocks([sheet for own in sheets for sheet in own], trees)
    content = {"features": FEATURES_VERSION, **model, "page": grow_of_pages(pages, sheets, trees)}
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def grow_of_pages(pages: Sequence[MarkedPage], sheets: Sequence[list[Sheet]], trees: int) -> Grown:
    """Return the trees of the page."""
    memories = []
    for fold in range(FOLDS):
        others = [own for number, own in enumerate(sheets) if number % FOLDS != fold]
        some = others if any(own[0].is_usable for own in others) else sheets
        model = grow_of_blocks([sheet for own in some for sheet in own], trees)
        memories.append(new_main_text(model_of(model["trees"], model["base"])))
    rows, has_main_text, weights = [], [], []
    for example in examples(pages, [own[0].is_usable for own in sheets]):
        row = page_row(example.html, memories[example.fold])
        if row is not None:
            rows.append(row)
            has_main_text.append(example.has_main_text)
            weights.append(example.weight)
    grown = grow(
        np.array(rows), np.array(has_main_text), np.array(weights), (PAGE_TREES, PAGE_LEAVES)
    )
    grown["base"] += round(IN_DOUBT * SCORE_ONE)
    return grown


def page_row(page: str, memory: MainText) -> npt.NDArray[np.int16] | None:
    """Return the row of a page; None if it has too few words in chosen blocks to be asked for."""
    body = page.encode("utf-8", "replace")
    text = np.empty(scratch_bytes(len(body)), np.uint8)
    source = Slices.joined([body]).data
    html_to_blocks(source, 0, len(body), text, memory.structure, memory.records)
    if fill_page_row(memory, score_blocks(memory)) < WORDS_MIN:
        return None
    return memory.rows[: len(PAGE_FEATURES), 0].copy()


def examples(pages: Sequence[MarkedPage], are_usable: Sequence[bool]) -> Iterator[Example]:
    """Yield pages with and without main text: those that are marked, and what is made of them."""
    for number, (page, is_usable) in enumerate(zip(pages, are_usable, strict=True)):
        fold = number % FOLDS
        if is_usable:
            yield from _of_marked(page, number, fold)
        elif not page.main_text.strip():
            yield Example(page.html, False, MARKED_WEIGHT * page.weight, fold)
    for number in range(MADE):
        for place, kind in enumerate(DRAWN):
            w = Writer(f"{kind}/{place}/{number}")
            yield Example(w.page(KINDS[kind](w)), False, 1.0, number % FOLDS)
    for number in range(ARTICLES):
        w = Writer(f"article/{number}")
        yield Example(w.page(article(w)), True, 1.0, number % FOLDS)


def _of_marked(page: MarkedPage, number: int, fold: int) -> Iterator[Example]:
    """Yield a marked page, and what its furniture and its text are with others."""
    yield Example(page.html, True, MARKED_WEIGHT * page.weight, fold)
    w = Writer(f"marked/{number}")
    kind = w.pick(*DRAWN)
    for instead in ("", KINDS[kind](w)):
        yield Example(with_instead(page, instead), False, 1.0, fold)
    lines = [escape(line) for line in page.main_text.split("\n") if line.strip()]
    yield Example(w.page(article(w, lines)), True, page.weight, fold)


def with_instead(page: MarkedPage, instead: str) -> str:
    """Return a marked page with something else where its main text was."""
    words = canonical_words(page.main_text)
    marked, known = runs_of(words), set(words)
    parts: list[str] = []
    was_marked = False
    for match in _PARTS.finditer(page.html):
        part = match.group()
        own = [] if part[0] == "<" else canonical_words(unescape(part))
        if own:
            runs = runs_of(own)
            few = was_marked and known.issuperset(own)
            was_marked = len(runs & marked) >= SHARE_MIN * len(runs) if runs else few
        if not (own and was_marked):
            parts.append(part)
        elif instead and runs:
            parts.append(instead)
            instead = ""
    return "".join(parts)
