"""Which blocks of a page are its own text, and which are furniture of its site.

A row of small integers a block (features.py) is asked of an ensemble of trees, which gives it a
score: the log odds of being main text, of which a quarter comes from the blocks next to it. Each
page has a cut of its own: the blocks in order of their scores, as many as make the expected F1 of
the words greatest. With P the likelihood of a block, n its words and T the sum of P n over the
page, the taken blocks have an expected F1 of about 2 * sum(P n) / (sum(n) + T); so what is taken is
a matter of the whole page, and a list whose blocks are all in doubt has main text as an article
has.

All is integer arithmetic, so every machine decides alike. The trees are data (`main_text.json`,
made by `make train`); their digest is part of an index's fingerprint. Links of fewer than LINKS_MIN
words are not asked about. A page with fewer than WORDS_MIN words in chosen blocks has no main text,
nor has one of too many blocks. All its visible text counts then.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64
from streamer.text import blocks, features
from streamer.text.blocks import Records, Structure, html_to_blocks, new_structure
from streamer.text.scan import VECTOR_BYTES, Bytes, copy_lanes
from streamer.text.trees import LANES, SCORE_ONE, Forest, Integers, Rows, ask_trees, forest_of

MODEL = Path(__file__).with_name("main_text.json")
SITE_MODEL = Path(__file__).with_name("main_text_sites.json")

WORDS_MIN = 25  # fewer words are no main text
LINKS_MIN = 4  # a block of fewer words, all of them in links, is furniture: a third of all blocks
REPEATS_MAX = 32  # more are no more
# Scores are put into bins of 1/16, from -8 to 8 log odds; of each, the likelihood in 1/1024.
_BINS, _BIN = 256, SCORE_ONE // 16
_LIKELY = np.array(
    [round(1024 / (1 + math.exp(-(i + 0.5) / 16 + 8))) for i in range(_BINS)], np.int64
)
LEAST = -(1 << 31)  # below any score
_COUNTED_WORDS = 1 << 20  # of a page with more, a unit is several words: products fit 64 bits


class MainText(NamedTuple):
    """The trees, and memory to look at pages with; made by `new_main_text`, one a thread."""

    forest: Forest
    structure: Structure
    records: Records
    sums: features.Sums
    rows: Rows  # int16[features, LANES]
    places: Integers  # int32[LANES], the blocks whose rows these are
    answers: Integers  # int32[LANES]
    scores: Integers  # int32[blocks]; LEAST where the trees were not asked
    bins: Integers  # int32[_BINS], words in blocks with such scores
    repeats: Bytes  # uint8[blocks] with a model for sites, else empty: counts of asked blocks


class Model(NamedTuple):
    """A forest that scores blocks, and the digest that names it.

    `knows_sites` says whether the rows of blocks are SITE_FEATURES.
    """

    forest: Forest
    digest: str
    knows_sites: bool = False


@inline_kernel
def is_asked(record: Records) -> bool:
    """Return whether a block is asked about: some words in links alone never are main text."""
    words = record[blocks.WORDS]
    return bool(record[blocks.LINK_WORDS] < words or words >= LINKS_MIN)


@kernel
def _measure_repeats(main: MainText, count: int) -> int:
    """Return the share of the words in asked blocks that repeat, in thousandths."""
    words, repeated, place = int64(0), int64(0), 0
    for at in range(count):
        if is_asked(main.records[at]):
            words += main.records[at, blocks.WORDS]
            repeated += main.records[at, blocks.WORDS] if main.repeats[place] else 0
            place += 1
    main.repeats[place] = 0  # after the last one
    return repeated * 1000 // max(words, 1)


@kernel
def begin_page(main: MainText) -> tuple[int, int]:
    """Sum up the blocks that the records have.

    Returns:
        How many there are, 0 for a page of too many; and the share of their words that repeat.
    """
    count = int64(main.structure.now[blocks.COUNT])
    if count == 0 or count >= main.records.shape[0]:
        return int64(0), int64(0)
    features.sum_up(main.records, count, main.sums)
    features.fill_page(main.sums, main.rows)
    return count, _measure_repeats(main, count) if main.repeats.shape[0] > 0 else int64(0)


@kernel
def fill_lane(main: MainText, page: tuple[int, int], at: int, asked: int, lane: int) -> None:
    """Write the row of block `at`, the asked one number `asked`; `begin_page` gave `page`."""
    count, share = page
    rows, repeats, first = main.rows, main.repeats, len(features.FEATURES)
    features.fill_row(main.records, at, count, main.sums, rows, lane)
    if repeats.shape[0] > 0:
        rows[first, lane] = min(repeats[asked], REPEATS_MAX)
        rows[first + 1, lane] = min(repeats[asked - 1], REPEATS_MAX) if asked else 0
        rows[first + 2, lane] = min(repeats[asked + 1], REPEATS_MAX)
        rows[first + 3, lane] = share


@kernel
def score_blocks(main: MainText) -> int:
    """Score the blocks that the records have; return their number, 0 for a page of too many."""
    page = begin_page(main)
    count = page[0]
    lanes = asked = 0
    for at in range(count):
        main.scores[at] = LEAST
        if is_asked(main.records[at]):
            fill_lane(main, page, at, asked, lanes)
            main.places[lanes] = at
            lanes += 1
            asked += 1
        if lanes == LANES or (lanes and at == count - 1):
            ask_trees(main.forest, main.rows, main.answers)
            for lane in range(lanes):
                main.scores[main.places[lane]] = main.answers[lane]
            lanes = 0
    _smooth(main.scores, count)
    return count


@kernel
def _smooth(scores: Integers, count: int) -> None:
    """Have each score take a quarter of the mean of the asked blocks next to it."""
    last = first = int64(-1)
    before = own = int64(0)
    for at in range(count):
        after = int64(scores[at])
        if after > LEAST:
            if last >= 0:
                before = after if last == first else before
                scores[last] = (6 * own + before + after) >> 3
                before = own
            else:
                first = int64(at)
            last, own = int64(at), after
    if last > first:
        scores[last] = (6 * own + 2 * before) >> 3


@inline_kernel
def _bin_of(score: int) -> int:
    """Return the bin of a score."""
    return min(max(int64(score) // _BIN + _BINS // 2, 0), _BINS - 1)


@kernel
def find_cut(main: MainText, count: int) -> tuple[int, int]:
    """Return the least score of what is taken of a page, and how many words that is."""
    bins = main.bins
    for i in range(_BINS):
        bins[i] = 0
    unit = int64(main.sums.page[0, features.WORDS_OF_GROUP]) // _COUNTED_WORDS + 1
    total = int64(0)
    for i in range(count):
        if main.scores[i] > LEAST:
            place = _bin_of(main.scores[i])
            bins[place] += main.records[i, blocks.WORDS]
    for i in range(_BINS):
        if bins[i]:  # most are empty, and divisions are slow
            total += bins[i] // unit * _LIKELY[i]
    words = likely = taken = int64(0)
    best, of, cut = int64(-1), int64(1), int64(_BINS)
    for i in range(_BINS - 1, -1, -1):
        if bins[i]:
            words += bins[i]
            likely += bins[i] // unit * _LIKELY[i]
            whole = words // unit * 1024 + total
            if likely * of > best * whole:
                best, of, cut, taken = likely, whole, int64(i), words
    return (cut - _BINS // 2) * _BIN if cut else int64(LEAST + 1), taken


@kernel
def choose_blocks(main: MainText) -> tuple[int, int]:
    """Return how many blocks a page has, and the least score of those that are its main text.

    With no main text, there are none.
    """
    count = score_blocks(main)
    cut, words = find_cut(main, count)
    return (count if words >= WORDS_MIN else int64(0)), cut


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
    count, cut = choose_blocks(main)
    if count == 0:
        return end, False
    place = 0
    for i in range(count):
        if main.scores[i] >= cut:
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
    """A block of a page: its place in the text, its score, whether it is compared, its repeats.

    The score is LEAST where nothing was asked. `dropped` says that it is not compared, and would be
    if nothing were known of the site.
    """

    start: int
    end: int
    score: int
    counts: bool
    repeats: int = 0
    dropped: bool = False


def block_spans(main: MainText, repeats: Bytes | None = None) -> tuple[bool, list[BlockSpan]]:
    """Return whether the page in `main` has main text, and its blocks; of too many, none.

    `repeats` are those of the asked blocks, for a model for sites.
    """
    if repeats is not None:
        main.repeats[:] = 0
    count, cut = choose_blocks(main)
    every = int(main.structure.now[blocks.COUNT]) % len(main.records)
    alone, own = main.scores[:every] >= (cut if count else LEAST), np.zeros(every, np.uint8)
    if repeats is not None and len(repeats):
        main.repeats[: len(repeats)] = repeats
        own[[is_asked(each) for each in main.records[:every]]] = repeats
        count, cut = choose_blocks(main)
    scores = main.scores[:every]
    counts = scores >= (cut if count else LEAST)
    places = main.records[:every, [blocks.START, blocks.END]].tolist()
    columns = scores.tolist(), counts.tolist(), own.tolist(), (alone & ~counts).tolist()
    return bool(count), [
        BlockSpan(*place, *each) for place, *each in zip(places, *columns, strict=True)
    ]


def new_main_text(model: Model) -> MainText:
    """Return memory for looking at pages; what no page has needed takes no room."""
    sums, rows = features.new_sums(), np.zeros((_columns(model.knows_sites), LANES), np.int16)
    places, answers = np.zeros((2, LANES), np.int32)
    repeats = np.zeros(blocks.BLOCKS_MAX + 1 if model.knows_sites else 0, np.uint8)
    records = np.empty((blocks.BLOCKS_MAX, blocks.COLUMNS), np.int32)
    scores, bins = np.empty(blocks.BLOCKS_MAX, np.int32), np.zeros(_BINS, np.int32)
    return MainText(
        model.forest, new_structure(), records, sums, rows, places, answers, scores, bins, repeats
    )


def _columns(sites: bool) -> int:  # noqa: FBT001 - private
    return len(features.SITE_FEATURES if sites else features.FEATURES)


def model_of(trees: Sequence[Any], base: int, *, sites: bool = False) -> Model:
    """Return a model without a file: trees as a file has them; of `sites` those for SITE_FEATURES.

    Raises:
        ValueError: the rows do not fit them, or they have numbers that are too large.
    """
    return Model(forest_of(trees, base, _columns(sites)), "", sites)


@cache
def read_model(path: Path = MODEL) -> Model:
    """Return the model in a file.

    Raises:
        SettingsError: it cannot be read, or is no model for this version.
    """
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
        if version == features.FEATURES_VERSION:
            sites = bool(read.get("sites"))
            model = model_of(read["trees"], read["base"], sites=sites)
            return model._replace(digest=hashlib.blake2b(content, digest_size=8).hexdigest())
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    raise ValueError(f"it is for rows of version {version}, not {features.FEATURES_VERSION}")
