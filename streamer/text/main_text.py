"""Which blocks of a page are its own text, and which are furniture of its site.

A row of small integers a block: the block itself (words, links, punctuation), the open elements
around it, two neighbours on each side, where it is in the page. An ensemble of trees gives each
row a score, and a block of 0 or more is main text; a few words that are links alone never are. All
is integer arithmetic, so every machine decides alike. The trees are data (`main_text.json`, made by
`make train`); their digest is part of an index's fingerprint.

Lists, front pages, forums, shops and code have no main text, though some of their blocks look like
it. So there is a second decision, of the page: a row of integers describes how the chosen blocks
are spread over it (their share, their runs, how many are sentences, how sure the trees are of
them), for trees that were trained on pages with and without main text. A page with fewer than
WORDS_MIN words in chosen blocks has none either, nor one of too many blocks. All its visible text
counts then.
"""

# Half of all blocks have fewer than 12 words, all in links: these are boilerplate without
# evaluation, at the same F1. The second decision uses no class
# names and no words, since it is trained on generated pages. These are not the first model's
# training pages, about which that model is too sure.

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.kernel import inline_kernel, int64, kernel
from streamer.text import blocks
from streamer.text.blocks import (
    HEADING,
    PARAGRAPH,
    PREFORMATTED,
    Records,
    Structure,
    html_to_blocks,
    new_structure,
)
from streamer.text.html import text_bytes_max
from streamer.text.scan import VECTOR_BYTES, Bytes, copy_lanes
from streamer.text.trees import LANES, SCORE_ONE, Forest, Integers, Rows, ask_trees, forest_of

FEATURES_VERSION = 2  # of the rows: of blocks.py and this file
MODEL = Path(__file__).with_name("main_text.json")
SITE_MODEL = Path(__file__).with_name("main_text_sites.json")

WORDS_MIN = 25  # fewer words are no main text
LONG_WORDS = 20  # words outside links that make a block a paragraph
LINKS_MAX = 12  # a block of fewer words, all of them in links, is furniture: half of all blocks
FAR = 50  # blocks; farther away is as far
LINKS_SHARE_MAX = 500  # thousandths of the chosen words; where more are in links, it is a list
LARGEST = 32_767
SENTENCE_WORDS = 8  # words outside links that make a block a sentence, if it ends like one
SURE = 4 * SCORE_ONE  # a score above it is no more than that
_NEAR = (-2, -1, 1, 2)
_NEAR_FEATURES = 5

FEATURES = (
    "words", "link_share", "point_share", "characters", "letters_a_word", "capital_share",
    "digit_share", "paragraph", "heading", "item", "cell", "division", "preformatted", "quotation",
    "tag_before", "links", "sentence_end", "words_beside", "blocks_beside", "depth",
    "unwanted_hints", "wanted_hints",
    *(f"hint_{i}" for i in range(len(blocks.HINTS))),
    *(f"in_{name}" for name in blocks.SECTIONS),
    "place", "words_before", "words_of_page", "links_of_page", "nearest", "before", "after",
    "between", "same_before", "same_after",
    *(
        f"{name}_{step:+d}"
        for step in _NEAR
        for name in ("words", "link_share", "point_share", "end", "paragraph")
    ),
)  # fmt: skip
PAGE_FEATURES = (
    "words", "share", "page_words", "links", "blocks", "words_a_block", "sentence_share",
    "long_share", "runs", "run_words", "longest_run", "between", "paragraph_share",
    "preformatted_share", "heading_share", "digit_share", "point_share", "other_share", "score",
)  # fmt: skip
# Of a model for sites, after those: on how many other pages of the host a block was, the scored
# blocks before and after it, and the share of the page's words in blocks that were on any.
SITE_FEATURES = (*FEATURES, "repeats", "repeats_before", "repeats_after", "repeated_share")
REPEATS_MAX = 32  # more are no more
_PAGE_LINKS = PAGE_FEATURES.index("links")
_HINTS = len(blocks.HINTS)
_UNWANTED = _HINTS - blocks.WANTED_HINTS


class MainText(NamedTuple):
    """The trees, and memory to look at pages with; made by `new_main_text`, one a thread."""

    forest: Forest
    page_forest: Forest
    structure: Structure
    records: Records
    siblings: Integers  # int32[2, blocks]: words and blocks under one parent
    rows: Rows  # int16[features, LANES]
    places: Integers  # int32[LANES], the blocks whose rows these are
    sums: Integers  # int32[LANES]
    scores: Integers  # int32[blocks]
    repeats: Bytes  # uint8[blocks] with a model for sites, else empty: counts of scored blocks


class Model(NamedTuple):
    """A forest that scores blocks, one that scores pages, and the digest that names both.

    `knows_sites` says whether the rows of blocks are SITE_FEATURES.
    """

    forest: Forest
    page_forest: Forest
    digest: str
    knows_sites: bool = False


@kernel
def look_around(records: Records, count: int, siblings: Integers) -> tuple[int, int, int, int]:
    """Complete the records by what needs the whole page.

    Returns:
        Words, words in links, and the first and last paragraph (`count` and -1 if there is none).
    """
    siblings[:, : count + 1] = 0
    words = links = 0
    first, last = count, -1
    for i in range(count):
        record = records[i]
        own = record[blocks.WORDS] - record[blocks.LINK_WORDS]
        siblings[0, record[blocks.PARENT]] += own
        siblings[1, record[blocks.PARENT]] += 1
        record[blocks.WORDS_BEFORE] = words
        words += record[blocks.WORDS]
        links += record[blocks.LINK_WORDS]
        if own >= LONG_WORDS:
            first, last = min(first, i), i
        record[blocks.SINCE] = min(i - last, FAR) if last >= 0 else FAR
    after = count
    for i in range(count - 1, -1, -1):
        record = records[i]
        if record[blocks.WORDS] - record[blocks.LINK_WORDS] >= LONG_WORDS:
            after = i
        record[blocks.UNTIL] = min(after - i, FAR) if after < count else FAR
    return words, links, first, last


@kernel
def fill_row(
    records: Records,
    at: int,
    count: int,
    siblings: Integers,
    page: tuple[int, int, int, int],
    rows: Rows,
    lane: int,
) -> None:
    """Write the row of block `at` into a lane; `page` is what `look_around` gave."""
    record = records[at]
    words, links, first, last = page
    characters = max(record[blocks.CHARACTERS], 1)
    parent = record[blocks.PARENT]
    rows[0, lane] = min(record[blocks.WORDS], LARGEST)
    rows[1, lane] = record[blocks.LINK_SHARE]
    rows[2, lane] = record[blocks.POINT_SHARE]
    rows[3, lane] = min(record[blocks.CHARACTERS], LARGEST)
    rows[4, lane] = min(record[blocks.LETTERS] * 100 // record[blocks.WORDS], LARGEST)
    rows[5, lane] = record[blocks.CAPITALS] * 1000 // characters
    rows[6, lane] = record[blocks.DIGITS] * 1000 // characters
    for kind in range(1, blocks.KIND_FEATURES + 1):
        rows[6 + kind, lane] = record[blocks.KIND] == kind
    place = 7 + blocks.KIND_FEATURES
    rows[place, lane] = record[blocks.BEFORE]
    rows[place + 1, lane] = min(record[blocks.LINKS], LARGEST)
    rows[place + 2, lane] = record[blocks.STOP]
    rows[place + 3, lane] = min(siblings[0, parent], LARGEST)
    rows[place + 4, lane] = min(siblings[1, parent], LARGEST)
    rows[place + 5, lane] = record[blocks.DEPTH]
    counts = record[blocks.COUNTS : blocks.COUNTS + _HINTS + len(blocks.SECTIONS)]
    place += 8
    rows[place - 2, lane] = counts[:_UNWANTED].sum()
    rows[place - 1, lane] = counts[_UNWANTED:_HINTS].sum()
    for i in range(len(counts)):  # an assignment of the whole would count references
        rows[place + i, lane] = counts[i]
    place += len(counts)
    rows[place, lane] = at * 1000 // count
    rows[place + 1, lane] = record[blocks.WORDS_BEFORE] * 1000 // words
    rows[place + 2, lane] = min(words, LARGEST)
    rows[place + 3, lane] = links * 1000 // words
    rows[place + 4, lane] = min(record[blocks.SINCE], record[blocks.UNTIL])
    rows[place + 5, lane] = record[blocks.SINCE]
    rows[place + 6, lane] = record[blocks.UNTIL]
    rows[place + 7, lane] = first <= at <= last
    rows[place + 8, lane] = at > 0 and records[at - 1, blocks.PARENT] == parent
    rows[place + 9, lane] = at + 1 < count and records[at + 1, blocks.PARENT] == parent
    place += 10
    for step in _NEAR:
        if 0 <= at + step < count:
            near = records[at + step]
            rows[place, lane] = min(near[blocks.WORDS], LARGEST)
            rows[place + 1, lane] = near[blocks.LINK_SHARE]
            rows[place + 2, lane] = near[blocks.POINT_SHARE]
            rows[place + 3, lane] = near[blocks.STOP]
            rows[place + 4, lane] = near[blocks.KIND] == PARAGRAPH
        else:
            rows[place : place + _NEAR_FEATURES, lane] = -1
        place += _NEAR_FEATURES


@inline_kernel
def is_scored(record: Records) -> bool:
    """Return whether a block is asked about: some words in links alone never are main text."""
    words = record[blocks.WORDS]
    return bool(record[blocks.LINK_WORDS] < words or words >= LINKS_MAX)


@kernel
def _measure_repeats(main: MainText, count: int) -> int:
    """Return the share of the words in scored blocks that repeat, in thousandths."""
    words, repeated, place = int64(0), int64(0), 0
    for at in range(count):
        if is_scored(main.records[at]):
            words += main.records[at, blocks.WORDS]
            repeated += main.records[at, blocks.WORDS] if main.repeats[place] else 0
            place += 1
    main.repeats[place] = 0  # after the last one
    return repeated * 1000 // max(words, 1)


@inline_kernel
def _fill_repeats(main: MainText, place: int, share: int, lane: int) -> None:
    """Complete the row of the scored block number `place`."""
    rows, repeats, first = main.rows, main.repeats, len(FEATURES)
    rows[first, lane] = min(repeats[place], REPEATS_MAX)
    rows[first + 1, lane] = min(repeats[place - 1], REPEATS_MAX) if place else 0
    rows[first + 2, lane] = min(repeats[place + 1], REPEATS_MAX)
    rows[first + 3, lane] = share


@kernel
def score_blocks(main: MainText) -> int:
    """Score the blocks that the records have; return their number, 0 for a page of too many."""
    count = int64(main.structure.now[blocks.COUNT])
    if count == 0 or count >= main.records.shape[0]:
        return 0
    page = look_around(main.records, count, main.siblings)
    knows_sites = main.repeats.shape[0] > 0
    share = _measure_repeats(main, count) if knows_sites else 0
    lanes = scored = 0
    for at in range(count):
        main.scores[at] = -1
        if is_scored(main.records[at]):
            fill_row(main.records, at, count, main.siblings, page, main.rows, lanes)
            if knows_sites:
                _fill_repeats(main, scored, share, lanes)
            main.places[lanes] = at
            lanes += 1
            scored += 1
        if lanes == LANES or (lanes and at == count - 1):
            ask_trees(main.forest, main.rows, main.sums)
            for lane in range(lanes):
                main.scores[main.places[lane]] = main.sums[lane]
            lanes = 0
    return count


@kernel
def fill_page_row(main: MainText, count: int) -> int:
    """Write the row of a page whose `count` blocks are scored into lane 0.

    Returns:
        Words in the chosen blocks; with none there is no row.
    """
    records, rows = main.records, main.rows
    words = page_words = links = chosen = sentences = long = headings = int64(0)
    paragraphs = preformatted = characters = letters = digits = points = score = int64(0)
    runs = run = longest = between = since = int64(0)
    for i in range(count):
        record = records[i]
        own = int64(record[blocks.WORDS])
        page_words += own
        if main.scores[i] < 0:
            since += own
            run = int64(0)
            continue
        between += since if words else 0
        since = int64(0)
        runs += run == 0
        run += own
        longest = max(longest, run)
        words += own
        chosen += 1
        links += record[blocks.LINK_WORDS]
        kind, text = record[blocks.KIND], own - record[blocks.LINK_WORDS]
        sentences += own if record[blocks.STOP] and text >= SENTENCE_WORDS else 0
        long += own if text >= LONG_WORDS else 0
        paragraphs += own if kind == PARAGRAPH else 0
        preformatted += own if kind == PREFORMATTED else 0
        headings += kind == HEADING
        characters += record[blocks.CHARACTERS]
        letters += record[blocks.LETTERS]
        digits += record[blocks.DIGITS]
        points += record[blocks.POINTS]
        score += own * min(main.scores[i], SURE)
    if words:
        rows[0, 0] = min(words, LARGEST)
        rows[4, 0], rows[8, 0] = chosen, runs
        rows[1, 0] = words * 1000 // page_words
        rows[2, 0] = min(page_words, LARGEST)
        rows[3, 0] = links * 1000 // words
        rows[5, 0] = min(words // chosen, LARGEST)
        rows[6, 0] = sentences * 1000 // words
        rows[7, 0] = long * 1000 // words
        rows[9, 0] = min(words // runs, LARGEST)
        rows[10, 0] = longest * 1000 // words
        rows[11, 0] = between * 1000 // (words + between)
        rows[12, 0] = paragraphs * 1000 // words
        rows[13, 0] = preformatted * 1000 // words
        rows[14, 0] = headings * 1000 // chosen
        rows[15, 0] = digits * 1000 // characters
        rows[16, 0] = min(points * 1000 // words, LARGEST)
        rows[17, 0] = min((characters - letters) * 1000 // words, LARGEST)
        rows[18, 0] = score // words
    return int64(words)


@kernel
def has_main_text(main: MainText, count: int) -> bool:
    """Return whether the chosen ones of a page's `count` blocks are its main text."""
    if fill_page_row(main, count) < WORDS_MIN or main.rows[_PAGE_LINKS, 0] > LINKS_SHARE_MAX:
        return False
    ask_trees(main.page_forest, main.rows, main.sums)
    return bool(main.sums[0] >= 0)


@kernel
def move_down(text: Bytes, start: int, end: int, place: int) -> int:
    """Move text[start:end] to `place`, which is not after `start`; return where it ends there."""
    while start + VECTOR_BYTES <= end:
        copy_lanes(text, start, text, place)
        start += VECTOR_BYTES
        place += VECTOR_BYTES
    while start < end:
        text[place] = text[start]
        start += 1
        place += 1
    return place


@kernel
def keep_main(main: MainText, text: Bytes, end: int) -> tuple[int, bool]:
    """Move the main text to the front of text[:end].

    Returns:
        Where it ends, or `end` if the page has none; and whether it has.
    """
    count = score_blocks(main)
    if not has_main_text(main, count):
        return end, False
    place = 0
    for i in range(count):
        if main.scores[i] >= 0:
            start, stop = main.records[i, blocks.START], main.records[i, blocks.END]
            place = move_down(text, start, stop, place)  # with the space of the tag before it
    return place, True


@kernel
def html_to_main_text(
    source: Bytes, start: int, end: int, text: Bytes, main: MainText
) -> tuple[int, bool]:
    """Write the main text of source[start:end] to `text`, all visible text if there is none.

    `text` is as for `html_to_text`. Returns where the text ends, and whether it is the main text.
    """
    end = html_to_blocks(source, start, end, text, main.structure, main.records)
    return keep_main(main, text, end)


class BlockSpan(NamedTuple):
    """A block of a page: its place in the text, whether it is compared, and its repeats.

    `dropped` says that it is not, and would be if nothing were known of the site.
    """

    start: int
    end: int
    counts: bool
    repeats: int = 0
    dropped: bool = False


def main_spans(
    source: Bytes, main: MainText, repeats: Bytes | None = None
) -> tuple[bytes, bool, list[BlockSpan]]:
    """Return the visible text of HTML, whether it has main text, and blocks in it.

    The blocks are those that are main text, repeat, or would be compared otherwise. `repeats` are
    those of the scored blocks, for a model for sites.
    """
    text = np.empty(text_bytes_max(len(source)), np.uint8)
    end = html_to_blocks(source, 0, len(source), text, main.structure, main.records)
    if repeats is not None:
        main.repeats[:] = 0
    chosen, has_main = _choose(main)
    own, alone = np.zeros(len(chosen), np.uint8), [each or not has_main for each in chosen]
    if repeats is not None:
        main.repeats[: len(repeats)] = repeats
        if len(own):
            own[[is_scored(each) for each in main.records[: len(own)]]] = repeats
        chosen, has_main = _choose(main)
    found = []
    for at, count in enumerate(own.tolist()):
        dropped = has_main and alone[at] and not chosen[at]
        if chosen[at] or count or dropped:
            start, stop = main.records[at][[blocks.START, blocks.END]].tolist()
            found.append(BlockSpan(start, stop, not has_main or chosen[at], count, dropped))
    return text[:end].tobytes(), has_main, found


def _choose(main: MainText) -> tuple[list[bool], bool]:
    """Return which blocks of the page in `main` are its main text, and whether it has one."""
    count = score_blocks(main)
    has_main = bool(has_main_text(main, count))
    return [has_main and score >= 0 for score in main.scores[:count].tolist()], has_main


def new_main_text(model: Model) -> MainText:
    """Return memory for looking at pages; what no page has needed takes no room."""
    features = len(SITE_FEATURES if model.knows_sites else FEATURES)
    return MainText(
        model.forest,
        model.page_forest,
        new_structure(),
        np.empty((blocks.BLOCKS_MAX, blocks.COLUMNS), np.int32),
        np.empty((2, blocks.BLOCKS_MAX + 1), np.int32),
        np.zeros((features, LANES), np.int16),
        np.zeros(LANES, np.int32),
        np.zeros(LANES, np.int32),
        np.empty(blocks.BLOCKS_MAX, np.int32),
        np.zeros(blocks.BLOCKS_MAX + 1 if model.knows_sites else 0, np.uint8),
    )


NO_PAGE_TREES: Mapping[str, Any] = {"trees": [], "base": 0}


def model_of(
    trees: Sequence[Any], base: int, page: Mapping[str, Any] = NO_PAGE_TREES, *, sites: bool = False
) -> Model:
    """Return a model without a file: trees as a file has them; of `sites` those for SITE_FEATURES.

    Without those of the page, every page with some chosen words has a main text.
    """
    page_forest = forest_of(page["trees"], page["base"], len(PAGE_FEATURES))
    features = len(SITE_FEATURES if sites else FEATURES)
    return Model(forest_of(trees, base, features), page_forest, "", sites)


def read_model(path: Path | None = None) -> Model:
    """Return the model in a file; None: that of the package.

    Raises:
        SettingsError: it cannot be read, or is no model for this version.
    """
    return _read_model(path or MODEL)


@cache
def _read_model(path: Path) -> Model:
    try:
        return model_in(read_given(path))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The model {path} cannot be used: {error}. Put back that of the package."
        ) from error


def model_in(content: bytes) -> Model:
    """Return the model that a file holds.

    Raises:
        ValueError: it is none for this version.
    """
    try:
        read = json.loads(content)
        version = read["features"]
        if version == FEATURES_VERSION:
            sites = bool(read.get("sites"))
            model = model_of(read["trees"], read["base"], read["page"], sites=sites)
            return model._replace(digest=hashlib.blake2b(content, digest_size=8).hexdigest())
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    raise ValueError(f"it is for rows of version {version}, not {FEATURES_VERSION}")
