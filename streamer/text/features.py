"""What trees are asked about a block of a page: a row of small integers.

The block itself (words, links, punctuation), the open elements around it, two neighbours on each
side, where it is in the page. Blocks are summed up by groups, too: all of the page, those of one
parent, and those of one shape (kind, depth, hints and sections), as the cards of a list are; and by
windows around each block. `sum_up` passes over all blocks for that, then `fill_row` writes a row.
"""

from typing import NamedTuple

import numpy as np

from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, uint64
from streamer.text import blocks
from streamer.text.blocks import HEADING, KINDS_MAX, PARAGRAPH, SECTIONS, Records
from streamer.text.hints import HINTS
from streamer.text.trees import LANES, Integers, Rows

FEATURES_VERSION = 3  # of the rows: of blocks.py and this file
LONG_WORDS = 20  # words outside links that make a block a paragraph
FAR = 50  # blocks; farther away is as far
LARGEST = 32_767
_NEAR = (-2, -1, 1, 2)
_WINDOWS = (3, 12)  # blocks on each side

_OF_GROUPS = (
    "blocks", "words", "mean", "spread", "links", "share", "headings", "longest", "span", "ends",
    "digits",
)  # fmt: skip
_OF_WINDOWS = ("words", "links", "headings", "ends")
_OF_NEAR = ("words", "links", "points", "end", "paragraph")
_BITS = len(HINTS) + len(SECTIONS)
FEATURES = (
    "words", "links", "points", "characters", "letters", "capitals", "digits",
    "paragraph", "heading", "item", "cell", "division", "preformatted", "quotation",
    "tag_before", "anchors", "end", "depth",
    *(f"hint_{stems[0].strip()}" for stems in HINTS),
    *(f"in_{name}" for name in SECTIONS),
    "place", "words_before", "nearest", "before", "after", "between", "heading_before",
    "same_before", "same_after",
    *(f"{name}_{step:+d}" for step in _NEAR for name in _OF_NEAR),
    *(f"parent_{name}" for name in _OF_GROUPS),
    *(f"shape_{name}" for name in _OF_GROUPS),
    *(f"{name}_of_{size}" for size in _WINDOWS for name in _OF_WINDOWS),
    *(f"page_{name}" for name in _OF_GROUPS),
    *(f"page_kind_{kind}" for kind in range(1, KINDS_MAX + 1)),
    *(f"page_bit_{bit}" for bit in range(_BITS)),
)  # fmt: skip
# Of a model for sites, after those: on how many other pages of the host a block was, the asked
# blocks before and after it, and the share of the page's words in blocks that were on any.
SITE_FEATURES = (*FEATURES, "repeats", "repeats_before", "repeats_after", "repeated_share")
_HINTS_AT, _PLACE_AT, _NEAR_AT, _PARENT_AT, _SHAPE_AT, _WINDOWS_AT, _PAGE_AT, _KINDS_AT = map(
    FEATURES.index,
    (
        f"hint_{HINTS[0][0]}", "place", f"words_{_NEAR[0]:+d}", "parent_blocks", "shape_blocks",
        f"words_of_{_WINDOWS[0]}", "page_blocks", "page_kind_1",
    ),
)  # fmt: skip

# What is summed up of a group: its first and last block, and sums.
(
    _FIRST, _LAST, _COUNT, WORDS_OF_GROUP, _LINKS, _HEADINGS, _LONGEST, _ENDS, _SPREAD, _DIGITS,
    _CHARACTERS, _SUMS,
) = range(12)  # fmt: skip
_BEFORE_WORDS, _BEFORE_LINKS, _BEFORE_HEADINGS, _BEFORE_ENDS = range(4)


class Sums(NamedTuple):
    """What `sum_up` finds in a page, and the memory for it.

    Attributes:
        page, parents, shapes: int32[groups, _SUMS], of all blocks, by parent, by shape.
        shape: int32[blocks], the first block of each one's shape.
        slots: int32[any power of two], a hash table of shapes.
        before: int32[blocks + 1, 4], sums of all blocks before one, for windows.
        near: int32[blocks, 3], how many blocks away are the paragraphs before and after it, and the
            heading before it.
        bits: int32[_BITS], words in elements with each hint and section.
        kinds: int32[KINDS_MAX + 1], words in blocks of each kind.
    """

    page: Integers
    parents: Integers
    shapes: Integers
    shape: Integers
    slots: Integers
    before: Integers
    near: Integers
    bits: Integers
    kinds: Integers


def new_sums() -> Sums:
    """Return memory for pages; what no page has needed takes no room."""
    most = blocks.BLOCKS_MAX
    of_groups = (most + 1, _SUMS), (most, _SUMS)
    of_blocks = most, 2 * most, (most + 1, 4), (most, 3)
    sizes = (*of_groups, *of_blocks, _BITS, KINDS_MAX + 1)
    return Sums(np.zeros((1, _SUMS), np.int32), *(np.empty(each, np.int32) for each in sizes))


@inline_kernel
def _same_shape(one: Records, other: Records) -> bool:
    """Return whether two blocks have one shape."""
    if one[blocks.KIND] != other[blocks.KIND] or one[blocks.DEPTH] != other[blocks.DEPTH]:
        return False
    for i in range(blocks.COUNTS, blocks.COLUMNS):  # noqa: SIM110 - a kernel has no generators
        if one[i] != other[i]:
            return False
    return True


@kernel
def _find_shapes(records: Records, count: int, sums: Sums) -> None:
    """Find the first block of each block's shape."""
    size = int64(4)
    while size < 2 * count:
        size *= 2
    sums.slots[:size] = 0
    for i in range(count):
        record = records[i]
        if i and _same_shape(records[i - 1], record):
            sums.shape[i] = sums.shape[i - 1]
            continue
        hashed = uint64(record[blocks.KIND] << 8 | record[blocks.DEPTH])
        for k in range(blocks.COUNTS, blocks.COLUMNS):
            hashed += uint64(record[k]) * uint64(2 * k + 1)
        hashed *= uint64(0x9E3779B97F4A7C15)
        place = int64(hashed >> uint64(40)) & (size - 1)
        while sums.slots[place] and not _same_shape(records[sums.slots[place] - 1], record):
            place = (place + 1) & (size - 1)
        if not sums.slots[place]:
            sums.slots[place] = i + 1
        sums.shape[i] = sums.slots[place] - 1


@inline_kernel
def _add_block(record: Records, at: int, table: Integers, group: int) -> None:
    """Add a block to the sums of a group."""
    own = table[group]
    if own[_COUNT] == 0:
        own[_FIRST] = at
    own[_LAST] = at
    own[_COUNT] += 1
    own[WORDS_OF_GROUP] += record[blocks.WORDS]
    own[_LINKS] += record[blocks.LINK_WORDS]
    own[_HEADINGS] += record[blocks.KIND] == HEADING
    own[_LONGEST] = max(own[_LONGEST], record[blocks.WORDS] - record[blocks.LINK_WORDS])
    own[_ENDS] += record[blocks.STOP]
    own[_DIGITS] += record[blocks.DIGITS]
    own[_CHARACTERS] += record[blocks.CHARACTERS]


@kernel
def sum_up(records: Records, count: int, sums: Sums) -> None:
    """Sum up the blocks of a page, for `fill_page` and `fill_row`."""
    _find_shapes(records, count, sums)
    sums.page[0] = 0
    sums.parents[: count + 1] = 0
    sums.shapes[:count] = 0
    sums.bits[:] = 0
    sums.kinds[:] = 0
    sums.before[0] = 0
    for i in range(count):
        record = records[i]
        _add_block(record, i, sums.page, 0)
        _add_block(record, i, sums.parents, record[blocks.PARENT])
        _add_block(record, i, sums.shapes, sums.shape[i])
        sums.kinds[record[blocks.KIND]] += record[blocks.WORDS]
        for bit in range(_BITS):
            sums.bits[bit] += record[blocks.WORDS] if record[blocks.COUNTS + bit] else 0
        before, after = sums.before[i], sums.before[i + 1]
        after[_BEFORE_WORDS] = before[_BEFORE_WORDS] + record[blocks.WORDS]
        after[_BEFORE_LINKS] = before[_BEFORE_LINKS] + record[blocks.LINK_WORDS]
        after[_BEFORE_HEADINGS] = before[_BEFORE_HEADINGS] + (record[blocks.KIND] == HEADING)
        after[_BEFORE_ENDS] = before[_BEFORE_ENDS] + record[blocks.STOP]
    _measure_spread(records, count, sums)
    _measure_distances(records, count, sums.near)


@kernel
def _measure_spread(records: Records, count: int, sums: Sums) -> None:
    """Sum up how far blocks are from the mean of their groups, in words."""
    for i in range(count):
        words = records[i, blocks.WORDS]
        for table, group in (
            (sums.page, int64(0)),
            (sums.parents, int64(records[i, blocks.PARENT])),
            (sums.shapes, int64(sums.shape[i])),
        ):
            own = table[group]
            own[_SPREAD] += abs(words - own[WORDS_OF_GROUP] // own[_COUNT])


@kernel
def _measure_distances(records: Records, count: int, near: Integers) -> None:
    """Count the blocks from each one to the next paragraphs, and to the heading before it."""
    last, heading, after = -FAR, -FAR, count + FAR
    for i in range(count):
        if records[i, blocks.WORDS] - records[i, blocks.LINK_WORDS] >= LONG_WORDS:
            last = i
        if records[i, blocks.KIND] == HEADING:
            heading = i
        near[i, 0] = min(i - last, FAR)
        near[i, 2] = min(i - heading, FAR)
    for i in range(count - 1, -1, -1):
        if records[i, blocks.WORDS] - records[i, blocks.LINK_WORDS] >= LONG_WORDS:
            after = i
        near[i, 1] = min(after - i, FAR)


@inline_kernel
def _share(part: int, whole: int) -> int:
    """Return a share in thousandths; of nothing it is none."""
    return int64(part) * 1000 // max(int64(whole), 1)


@kernel
def _fill_group(
    table: Integers, group: int, page: Integers, rows: Rows, place: int, lane: int
) -> None:
    """Write what is known of a group of blocks, _OF_GROUPS, from row `place` on."""
    own = table[group]
    count, words = own[_COUNT], own[WORDS_OF_GROUP]
    rows[place, lane] = min(count, LARGEST)
    rows[place + 1, lane] = min(words, LARGEST)
    rows[place + 2, lane] = min(words // count, LARGEST)
    rows[place + 3, lane] = min(own[_SPREAD] // count, LARGEST)
    rows[place + 4, lane] = _share(own[_LINKS], words)
    rows[place + 5, lane] = _share(words, page[0, WORDS_OF_GROUP])
    rows[place + 6, lane] = min(own[_HEADINGS], LARGEST)
    rows[place + 7, lane] = min(own[_LONGEST], LARGEST)
    rows[place + 8, lane] = _share(own[_LAST] - own[_FIRST], page[0, _COUNT])
    rows[place + 9, lane] = _share(own[_ENDS], count)
    rows[place + 10, lane] = _share(own[_DIGITS], own[_CHARACTERS])


@kernel
def fill_page(sums: Sums, rows: Rows) -> None:
    """Write what all rows of a page have in common, into every lane."""
    words = sums.page[0, WORDS_OF_GROUP]
    _fill_group(sums.page, 0, sums.page, rows, _PAGE_AT, 0)
    for kind in range(1, KINDS_MAX + 1):
        rows[_KINDS_AT + kind - 1, 0] = _share(sums.kinds[kind], words)
    for bit in range(_BITS):
        rows[_KINDS_AT + KINDS_MAX + bit, 0] = _share(sums.bits[bit], words)
    for row in range(_PAGE_AT, len(FEATURES)):
        for lane in range(1, LANES):
            rows[row, lane] = rows[row, 0]


@kernel
def fill_row(records: Records, at: int, count: int, sums: Sums, rows: Rows, lane: int) -> None:
    """Write the row of block `at` into a lane, but for what `fill_page` writes."""
    record = records[at]
    _fill_own(record, rows, lane)
    _fill_place(records, at, count, sums, rows, lane)
    _fill_near(records, at, count, rows, lane)
    _fill_group(sums.parents, record[blocks.PARENT], sums.page, rows, _PARENT_AT, lane)
    _fill_group(sums.shapes, sums.shape[at], sums.page, rows, _SHAPE_AT, lane)
    place = _WINDOWS_AT
    for size in _WINDOWS:
        first, end = sums.before[max(at - size, 0)], sums.before[min(at + size + 1, count)]
        words = end[_BEFORE_WORDS] - first[_BEFORE_WORDS]
        rows[place, lane] = min(words, LARGEST)
        rows[place + 1, lane] = _share(end[_BEFORE_LINKS] - first[_BEFORE_LINKS], words)
        rows[place + 2, lane] = end[_BEFORE_HEADINGS] - first[_BEFORE_HEADINGS]
        rows[place + 3, lane] = end[_BEFORE_ENDS] - first[_BEFORE_ENDS]
        place += len(_OF_WINDOWS)


@kernel
def _fill_own(record: Records, rows: Rows, lane: int) -> None:
    """Write what the block itself is, and the elements that are open around it."""
    characters = max(record[blocks.CHARACTERS], 1)
    rows[0, lane] = min(record[blocks.WORDS], LARGEST)
    rows[1, lane] = record[blocks.LINK_SHARE]
    rows[2, lane] = record[blocks.POINT_SHARE]
    rows[3, lane] = min(record[blocks.CHARACTERS], LARGEST)
    rows[4, lane] = min(record[blocks.LETTERS] * 100 // record[blocks.WORDS], LARGEST)
    rows[5, lane] = record[blocks.CAPITALS] * 1000 // characters
    rows[6, lane] = record[blocks.DIGITS] * 1000 // characters
    for kind in range(1, KINDS_MAX + 1):
        rows[6 + kind, lane] = record[blocks.KIND] == kind
    place = 7 + KINDS_MAX
    rows[place, lane] = record[blocks.BEFORE]
    rows[place + 1, lane] = min(record[blocks.LINKS], LARGEST)
    rows[place + 2, lane] = record[blocks.STOP]
    rows[place + 3, lane] = record[blocks.DEPTH]
    for i in range(_BITS):
        rows[_HINTS_AT + i, lane] = record[blocks.COUNTS + i]


@kernel
def _fill_place(records: Records, at: int, count: int, sums: Sums, rows: Rows, lane: int) -> None:
    """Write where the block is in the page."""
    parent, near, place = records[at, blocks.PARENT], sums.near[at], _PLACE_AT
    rows[place, lane] = at * 1000 // count
    rows[place + 1, lane] = _share(sums.before[at, _BEFORE_WORDS], sums.page[0, WORDS_OF_GROUP])
    rows[place + 2, lane] = min(near[0], near[1])
    rows[place + 3, lane] = near[0]
    rows[place + 4, lane] = near[1]
    rows[place + 5, lane] = near[0] < FAR and near[1] < FAR
    rows[place + 6, lane] = near[2]
    rows[place + 7, lane] = at > 0 and records[at - 1, blocks.PARENT] == parent
    rows[place + 8, lane] = at + 1 < count and records[at + 1, blocks.PARENT] == parent


@kernel
def _fill_near(records: Records, at: int, count: int, rows: Rows, lane: int) -> None:
    """Write what the neighbours of the block are, _OF_NEAR of each; -1 where there is none."""
    place = _NEAR_AT
    for step in _NEAR:
        if 0 <= at + step < count:
            near = records[at + step]
            rows[place, lane] = min(near[blocks.WORDS], LARGEST)
            rows[place + 1, lane] = near[blocks.LINK_SHARE]
            rows[place + 2, lane] = near[blocks.POINT_SHARE]
            rows[place + 3, lane] = near[blocks.STOP]
            rows[place + 4, lane] = near[blocks.KIND] == PARAGRAPH
        else:
            for i in range(len(_OF_NEAR)):
                rows[place + i, lane] = -1
        place += len(_OF_NEAR)
