"""Training of a model of main text, from marked pages: the trees of blocks, and those of the page.

A block is main text if at least SHARE_MIN of its runs of three words are in the marked text; one
too short for such a run, if it is a line of its own there. Pages whose marked text is not found in
their blocks are left out: it was taken from elsewhere. Gradient-boosted trees are trained on the
rows of all blocks, long ones weighing more, and rounded to integers: features are integers, so
thresholds lose nothing, and leaves are rounded to 1/SCORE_ONE.

Each page is learnt from three times: as it is; with its marked text broken into lines that are
paragraphs of their own, at LINES_WEIGHT of its weight, since text that was written elsewhere often
comes like that and few marked pages show it; and with the text of the page before in place of its
own, in other markup, at OTHER_WEIGHT: what is furniture must not depend on the text that it is
around. So that a new model finds in the languages and print views of the sample crawl what the
model before it (crawl_model.json) has found, that crawl is learnt from as well. Its labels come
from that file and not from the package's model, so training gives the same bytes each time.

Which pages have no main text is learnt next to those whose main text is marked:

- from the same pages with their main text taken out: what is left is a real site's furniture;
- from these with something else in its place, of a kind that is no main text (kinds.py);
- from made pages of these kinds; and from pages that are marked to have no main text.

So that it is not the furniture that tells the two apart, marked text in made furniture and made
articles are learnt from as well.

Trees of the page look at what those of the blocks chose. These are surer of pages that they were
trained on than they ever are of others: so each page is scored by trees that others made.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape, unescape
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.training.kinds import KINDS, Writer, article
from streamer.analysis.sample.crawl import Crawl
from streamer.errors import InputError
from streamer.text import blocks
from streamer.text.main_text import (
    FEATURES,
    FEATURES_VERSION,
    PAGE_FEATURES,
    WORDS_MIN,
    MainText,
    fill_page_row,
    fill_row,
    has_main_text,
    look_around,
    model_of,
    new_main_text,
    read_model,
    score_blocks,
)
from streamer.text.slices import Slices
from streamer.text.trees import LEAVES_MAX, SCORE_ONE, Rows
from streamer.text.visible import scratch_bytes
from streamer.text.words import canonical_words

RUN = 3  # words
SHARE_MIN = 0.6
MARKED_WORDS_MIN = 30  # pages with less say little
FOUND_MIN = 0.5  # of the marked words, in blocks that count as main text
LINE_MAX = 68  # characters of a line where text is broken into lines
LINES_WEIGHT, OTHER_WEIGHT = 0.5, 0.7
_LONG_TEXT = re.compile(r"(?<=>)[^<>]{90,}(?=<)")
CRAWL_MODEL = Path(__file__).with_name("crawl_model.json")
CRAWL_SEED, CRAWL_PAGES, CRAWL_SHARE = 7, 3000, 0.5  # the share is of the weight of marked pages
TREES, LEAVES, RATE = 100, 15, 0.1
FOLDS = 3
PAGE_TREES, PAGE_LEAVES = 40, 8
IN_DOUBT = 0.5  # log odds for main text: articles are what --text main is asked for
HARD = ("teasers", "product", "thread", "code")  # kinds that look most like articles
DRAWN = (*KINDS, *HARD, *HARD)
MADE = 80  # times all that are drawn
ARTICLES = 900
MARKED_WEIGHT = 1.5
_PARTS = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>|[^<]+")


class Grown(TypedDict):
    """Trees as a model's file has them, and the score before any."""

    base: int
    trees: list[dict[str, list[Any]]]


class MarkedPage(msgspec.Struct):
    """A page for training: its HTML and its main text, a paragraph a line.

    An empty main text says that the page has none: a list, a front page. `weight` is how much it
    counts, for pages that were marked with less care. `url` is for the model for sites.
    """

    html: str
    main_text: str
    weight: float = 1.0
    url: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The blocks of a page, as trees are trained on them.

    Attributes:
        rows: int16[blocks, features].
        main: bool[blocks], what is main text.
        weights: float64[blocks].
        marked: the words of the main text; found: how many words its blocks have.
        words: of each block.
    """

    rows: Rows
    main: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float64]
    marked: list[str]
    found: int
    words: list[list[str]]

    @property
    def is_usable(self) -> bool:
        """Return whether the marked text is long enough, and in the page's blocks."""
        wanted = len(self.marked)
        return wanted >= MARKED_WORDS_MIN and self.found >= FOUND_MIN * wanted

    @property
    def weight(self) -> float:
        """Return the weight of all its blocks."""
        return float(self.weights.sum())

    def weighing(self, share: float) -> Sheet:
        """Return the same at this share of its weight."""
        return replace(self, weights=self.weights * share)


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


def read_blocks(page: str, memory: MainText) -> npt.NDArray[np.uint8]:
    """Read the blocks of a page into memory; return the text that they are in."""
    body = page.encode("utf-8", "replace")
    text = np.empty(scratch_bytes(len(body)), np.uint8)
    source = Slices.joined([body]).data
    blocks.html_to_blocks(source, 0, len(body), text, memory.structure, memory.records)
    return text


def rows_of_blocks(memory: MainText) -> Rows:
    """Return the rows of the page in memory: int16[blocks, features]."""
    count = int(memory.structure.now[blocks.COUNT])
    rows = np.empty((len(FEATURES), count), np.int16)
    page = look_around(memory.records, count, memory.siblings)
    for i in range(count):
        fill_row(memory.records, i, count, memory.siblings, page, rows, i)
    return rows.T.copy()


def sheet_of(page: MarkedPage, memory: MainText) -> Sheet:
    """Return the blocks of a page, with what is main text of them."""
    text = read_blocks(page.html, memory)
    count = int(memory.structure.now[blocks.COUNT])
    spans = memory.records[:count, [blocks.START, blocks.END]].tolist()
    words = [canonical_words(text[a:b].tobytes().decode("utf-8", "replace")) for a, b in spans]
    lines = [canonical_words(line) for line in page.main_text.split("\n")]
    main = _of_main_text(words, lines)
    found = sum(len(own) for own, is_main in zip(words, main, strict=True) if is_main)
    weights = page.weight * np.sqrt(memory.records[:count, blocks.WORDS])
    marked = [word for line in lines for word in line]
    return Sheet(rows_of_blocks(memory), np.array(main, np.bool_), weights, marked, found, words)


def _of_main_text(words: list[list[str]], lines: list[list[str]]) -> list[bool]:
    """Return of each block whether it is of the text with these lines."""
    marked = runs_of([word for line in lines for word in line])
    alone = {" ".join(line) for line in lines}
    result = []
    for own in words:
        runs = runs_of(own)
        result.append(
            len(runs & marked) >= SHARE_MIN * len(runs) if runs else " ".join(own) in alone
        )
    return result


def runs_of(words: list[str]) -> set[tuple[str, ...]]:
    """Return the runs of RUN words."""
    return {tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}


def with_lines(page: MarkedPage) -> MarkedPage:
    """Return the page with its marked text broken into lines, each a paragraph."""
    marked = runs_of(canonical_words(page.main_text))

    def broken(match: re.Match[str]) -> str:
        runs = runs_of(canonical_words(match.group()))
        if not runs or len(runs & marked) < SHARE_MIN * len(runs):
            return match.group()
        return "</p><p>".join(textwrap.wrap(match.group(), LINE_MAX))

    return msgspec.structs.replace(page, html=_LONG_TEXT.sub(broken, page.html))


def with_text_of(page: MarkedPage, other: MarkedPage, seed: str) -> MarkedPage:
    """Return the page with the main text of another in place of its own, in drawn markup."""
    w = Writer(seed)
    name = w.pick("p", "p", "p", "div", "br")
    lines = [escape(line) for line in other.main_text.split("\n") if line.strip()]
    drawn = [f"{line}<br><br>" if name == "br" else w.element(name, line) for line in lines]
    if w.chance(0.5):
        drawn[0] = w.element(w.pick("h1", "h2", "h3"), lines[0])
    html = with_instead(page, w.element(w.pick("div", "article"), "".join(drawn), "text"))
    return MarkedPage(html, other.main_text, page.weight)


def sheets_of(pages: Iterable[MarkedPage], *, exchange: bool = True) -> Iterator[list[Sheet]]:
    """Yield the sheets of each page: as it is, in lines, and with the text of the page before.

    The last one is left out unless texts are to be exchanged.
    """
    memory = new_main_text(model_of([], 0))
    before: MarkedPage | None = None
    for number, page in enumerate(pages):
        own = sheet_of(page, memory)
        made = [(with_lines(page), LINES_WEIGHT)]
        if own.is_usable and exchange:
            if before is not None:
                made.append((with_text_of(page, before, f"text/{number}"), OTHER_WEIGHT))
            before = page
        others = [(each, share) for each, share in made if each.html != page.html]
        yield [own, *(sheet_of(each, memory).weighing(share) for each, share in others)]


def crawled_pages() -> Iterator[MarkedPage]:
    """Yield the pages of a sample crawl, with the main text that the model before finds."""
    memory = new_main_text(read_model(CRAWL_MODEL))
    for planted in Crawl(CRAWL_SEED).records(CRAWL_PAGES):
        try:
            read = json.loads(planted.line)
            html = read.get("body")
        except ValueError:
            continue
        if not isinstance(html, str) or "<" not in html:
            continue
        text = read_blocks(html, memory)
        count = score_blocks(memory)
        is_main = (memory.scores[:count] >= 0) & bool(has_main_text(memory, count))
        spans = memory.records[:count][is_main][:, [blocks.START, blocks.END]].tolist()
        lines = [text[start:end].tobytes().decode("utf-8", "replace") for start, end in spans]
        marked = "\n".join(" ".join(line.split()) for line in lines)
        yield MarkedPage(html, marked, 1.0, planted.url)


def crawl_sheets(pages: Iterable[Sheet]) -> list[Sheet]:
    """Return the sheets of the sample crawl, weighing CRAWL_SHARE of those of marked pages."""
    memory = new_main_text(model_of([], 0))
    sheets = [sheet_of(page, memory) for page in crawled_pages()]
    usable = [sheet for sheet in sheets if sheet.is_usable]
    real = sum(sheet.weight for sheet in pages if sheet.is_usable)
    share = CRAWL_SHARE * real / sum(sheet.weight for sheet in usable)
    return [sheet.weighing(share) for sheet in usable]


def grow_of_blocks(sheets: Iterable[Sheet], trees: int = TREES) -> Grown:
    """Return the trees of blocks, of the pages among `sheets` that can be used.

    Raises:
        InputError: there is none, or none of their blocks is furniture.
    """
    usable = [sheet for sheet in sheets if sheet.is_usable]
    main = np.concatenate([sheet.main for sheet in usable]) if usable else np.zeros(0, np.bool_)
    if not main.any() or main.all():
        raise InputError("No pages to train on: of each, the marked text must be a part of its own")
    rows = np.concatenate([sheet.rows for sheet in usable])
    weights = np.concatenate([sheet.weights for sheet in usable])
    return grow(rows, main, weights, (trees, LEAVES))


def grow(
    rows: Rows,
    labels: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float64],
    size: tuple[int, int],
) -> Grown:
    """Return trees that tell rows apart, rounded to integers; `size`: trees, leaves of each."""
    classifier = _classifier(*size).fit(rows, labels, sample_weight=weights)
    base = round(float(np.ravel(classifier._baseline_prediction)[0]) * SCORE_ONE)  # noqa: SLF001 - it has no public name
    trees = [_tree(each[0].nodes) for each in classifier._predictors]  # noqa: SLF001 - as above
    return {"base": base, "trees": trees}


def _classifier(trees: int, leaves: int) -> Any:  # noqa: ANN401 - scikit-learn has no types
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - not for tests

    return HistGradientBoostingClassifier(
        max_iter=trees,
        max_leaf_nodes=leaves,
        learning_rate=RATE,
        early_stopping=False,
        random_state=0,  # of many rows it takes some, to find steps between thresholds
    )


def _tree(nodes: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - a record array of scikit-learn
    """Return a tree as the model's file has it: nodes (feature, threshold, mask), and leaves."""
    tests: list[tuple[int, int, int]] = []
    leaves: list[int] = []

    def visit(number: int) -> int:
        """Append what is under a node; return its leaves as bits."""
        node = nodes[number]
        if node["is_leaf"]:
            leaves.append(round(float(node["value"]) * SCORE_ONE))
            return 1 << len(leaves) - 1
        place = len(tests)
        tests.append((0, 0, 0))
        left = visit(int(node["left"]))
        mask = (1 << LEAVES_MAX) - 1 & ~left
        tests[place] = (int(node["feature_idx"]), int(np.floor(node["num_threshold"])), mask)
        return left | visit(int(node["right"]))

    visit(0)
    return {"nodes": tests, "leaves": leaves}


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
    """
    marked = [sheet for own in sheets for sheet in own]
    model = grow_of_blocks([*marked, *crawl_sheets(marked)], trees)
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
    rows, are_main, weights = [], [], []
    for example in examples(pages, [own[0].is_usable for own in sheets]):
        row = page_row(example.html, memories[example.fold])
        if row is not None:
            rows.append(row)
            are_main.append(example.has_main_text)
            weights.append(example.weight)
    grown = grow(np.array(rows), np.array(are_main), np.array(weights), (PAGE_TREES, PAGE_LEAVES))
    grown["base"] += round(IN_DOUBT * SCORE_ONE)
    return grown


def page_row(page: str, memory: MainText) -> npt.NDArray[np.int16] | None:
    """Return the row of a page; None if it has too few words in chosen blocks to be asked for."""
    read_blocks(page, memory)
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
