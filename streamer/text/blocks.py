"""The blocks of a page: its visible text cut at block elements, with what the tags say about each.

The same pass over the bytes as html.py, and the same visible text, byte for byte; in addition a
record of integers for each stretch of text between two block tags. What is kept of the page's
structure has a bound: the last OPEN_MAX open elements, in a ring, and how many of them are
navigation, articles and so on. An end tag looks for its element among the REACH last ones, so a
tag costs the same whatever page it is in. Where records are full, the rest of a page has none.

Text of titles, buttons and fields to choose from is visible, but belongs to no block.
"""

# F1 on articles in templates was .94 for the first model, .90 without the open elements, and .74
# with the block's own text alone.

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import int64, popcount, trailing_zeros, uint64
from streamer.text import canonical, html
from streamer.text.hints import HINTS, read_attributes
from streamer.text.html import after_tag, begins_tag, copy_text, hidden, read_name, slot_of
from streamer.text.scan import INVALID, VECTOR_BYTES, Bytes, ascii_lanes, decode, find_byte

Integers = npt.NDArray[np.int64]
Records = npt.NDArray[np.int32]

BLOCKS_MAX = 1 << 15  # of a page that is looked at; one with more is a list
OPEN_MAX = 64
REACH = 12
DEPTH_MAX = 255

_SECTION_NAMES = "nav footer header aside article main form ul ol table noscript"
SECTIONS = tuple(_SECTION_NAMES.split())
_BITS = len(HINTS) + len(SECTIONS)

# What a record holds. COUNTS: of the open elements, how many have each hint and are each section.
(
    START, END, WORDS, LINK_WORDS, POINTS, CHARACTERS, CAPITALS, DIGITS, LETTERS, LINKS, STOP, KIND,
    BEFORE, DEPTH, PARENT, LINK_SHARE, POINT_SHARE, COUNTS,
) = range(18)  # fmt: skip
COLUMNS = COUNTS + _BITS

KINDS_MAX = 7  # kinds of the element that a block is in; 0: none of these
_KINDS = (
    ("p",), ("h1", "h2", "h3", "h4", "h5", "h6"), ("li", "dt", "dd"), ("td", "th"),
    ("div", "section", "article", "main"), ("pre", "xmp", "listing", "plaintext"), ("blockquote",),
)  # fmt: skip
NOT_ASCII = 0x80  # bytes from here on
PARAGRAPH, HEADING, PREFORMATTED = 1, 2, 6
_NO_BLOCK = 15
_NO_BLOCKS = ("title", "textarea", "option", "select", "button")
_VOID = ("br", "hr", "col")
_CLOSED_BY_NEXT = ("p", "li", "dt", "dd", "td", "th", "tr", "option")
_KIND_MASK, _IS_VOID, _IS_CLOSED, _SECTION_SHIFT = 15, 16, 32, 6


def _traits() -> dict[str, int]:
    """Return what is to be known of elements, by their names."""
    traits = dict.fromkeys((*_NO_BLOCKS, *_VOID, *_CLOSED_BY_NEXT, *SECTIONS), 0)
    traits |= {name: kind for kind, names in enumerate(_KINDS, 1) for name in names}
    traits |= dict.fromkeys(_NO_BLOCKS, _NO_BLOCK)
    for names, bit in ((_VOID, _IS_VOID), (_CLOSED_BY_NEXT, _IS_CLOSED)):
        for name in names:
            traits[name] |= bit
    for place, name in enumerate(SECTIONS):
        traits[name] |= 1 << (_SECTION_SHIFT + place)
    return traits


_ELEMENTS = html.by_slot(_traits())
_LINK = html.name_number("a")
_ALL = 0xFFFFFFFFFFFFFFFF
_ENDS = np.zeros(128, np.int64)  # whether an ASCII character ends a sentence
_ENDS[list(b'.!?"')] = 1
# Points of other scripts (Han, Kana, Arabic, Indic; an ellipsis), and quotes that end sentences.
OTHER_POINTS = np.array([*map(ord, "…،؛؟۔।。、！，：；？")], np.int64)  # noqa: RUF001 - as above
OTHER_QUOTES = np.array([*map(ord, "»”」")], np.int64)
_IDEOGRAPHIC_SPACE, _NO_BREAK_SPACE = 0x3000, 0xA0

# What `Structure.now` holds: blocks; where the open block begins, and up to where it is counted;
# whether that is in a link, and in a word; whether its last character ends a sentence; open
# elements; the last block tag (0 void, 1 start, 2 end); parents so far.
COUNT, _FROM, _COUNTED, _IN_LINK, _IN_WORD, _LAST, _OPEN, _TAG, _PARENTS, _SCALARS = range(10)


class Structure(NamedTuple):
    """What the scanner knows of a page's structure; made by `new_structure`, one a thread.

    Attributes:
        now: int64, numbers of the moment.
        elements, bits, parents: int64[OPEN_MAX], the open elements: their slots, hints and
            sections, and the number as a parent of blocks (0: none yet).
        counts: int32, open elements with each bit.
        sums: int64[COUNTS], of the open block.
        entries, sequences: of the canonical table.
    """

    now: Integers
    elements: Integers
    bits: Integers
    parents: Integers
    counts: Records
    sums: Integers
    entries: npt.NDArray[np.uint32]
    sequences: npt.NDArray[np.uint32]


def new_structure() -> Structure:
    """Return memory for the structure of pages, one after the other."""
    table = canonical.canonical_table()
    elements, bits, parents = np.zeros((3, OPEN_MAX), np.int64)
    now, sums = (np.zeros(n, np.int64) for n in (_SCALARS, COUNTS))
    counts = np.zeros(_BITS, np.int32)
    return Structure(now, elements, bits, parents, counts, sums, table.entries, table.sequences)


@kernel
def _clear(structure: Structure) -> None:
    """Forget the page before."""
    structure.now[:] = 0
    structure.parents[:] = 0
    structure.counts[:] = 0
    structure.sums[:] = 0


@inline_kernel
def _is_in(code: int, codes: Integers) -> bool:
    """Return whether a code point is one of a few."""
    for each in codes:  # noqa: SIM110 - a kernel has no generators
        if each == code:
            return True
    return False


@kernel
def _count_other(structure: Structure, code: int) -> None:
    """Count a character outside ASCII; INVALID means malformed bytes."""
    now, sums = structure.now, structure.sums
    entry = structure.entries[code] if code != INVALID else 0
    kind = entry >> canonical.CLASS_SHIFT
    if kind == canonical.EXPANDED:
        kind = structure.sequences[(entry & canonical.VALUE_MASK) + 1] >> canonical.CLASS_SHIFT
    if kind == canonical.IGNORED or kind == canonical.MARK:  # noqa: PLR1714 - a kernel has no sets
        return
    if kind == canonical.SEPARATOR:
        point = _is_in(code, OTHER_POINTS)
        now[_IN_WORD] = 0
        sums[POINTS] += point
        if code != _IDEOGRAPHIC_SPACE and code != _NO_BREAK_SPACE:  # noqa: PLR1714 - as above
            now[_LAST] = point or _is_in(code, OTHER_QUOTES)
        return
    sums[WORDS] += 1 if kind == canonical.UNSPACED or not now[_IN_WORD] else 0
    sums[LETTERS] += 1
    now[_IN_WORD] = kind != canonical.UNSPACED
    now[_LAST] = 0


@kernel
def _count_ascii(text: Bytes, at: int, end: int, now: Integers, sums: Integers) -> int:
    """Count ASCII characters of text[at:end]; return where the first other one is, or `end`.

    Whole vectors are read: `text` goes on for VECTOR_BYTES after `end`, whatever is there.
    """
    start = at
    inside = uint64(now[_IN_WORD])
    words = of_words = of_points = of_capitals = of_digits = int64(0)  # in registers
    more = True
    while more:
        letters, points, capitals, digits, others = ascii_lanes(text, at)
        size = min(int64(trailing_zeros(others)), end - at, VECTOR_BYTES)
        counted = uint64(_ALL) >> uint64(64 - size)
        letters &= counted
        words += int64(popcount(letters & ~(letters << uint64(1) | inside)))
        of_words += int64(popcount(letters))
        of_points += int64(popcount(points & counted))
        of_capitals += int64(popcount(capitals & counted))
        of_digits += int64(popcount(digits & counted))
        inside = letters >> uint64(size - 1) & uint64(1)
        at += size
        more = size == VECTOR_BYTES and at < end and text[at] < NOT_ASCII
    sums[WORDS] += words
    sums[LETTERS] += of_words
    sums[POINTS] += of_points
    sums[CAPITALS] += of_capitals
    sums[DIGITS] += of_digits
    now[_IN_WORD] = int64(inside)
    sums[CHARACTERS] += at - start
    last = at - 1
    while last > start and text[last] <= html.SPACE:
        last -= 1
    if text[last] > html.SPACE:
        now[_LAST] = _ENDS[text[last]]
    return at


@inline_kernel
def _count_text(text: Bytes, end: int, structure: Structure) -> None:
    """Count what came since the last time, up to text[:end], to the open block."""
    now, sums = structure.now, structure.sums
    at, before = now[_COUNTED], sums[WORDS]
    now[_COUNTED] = end
    start = at
    while at < end and text[at] <= html.SPACE:  # often all that is between two tags
        at += 1
    if at > start:
        sums[CHARACTERS] += at - start
        now[_IN_WORD] = 0
    while at < end:
        if text[at] < NOT_ASCII:
            at = _count_ascii(text, at, end, now, sums)
        else:
            code, size = decode(text, at, end)
            _count_other(structure, int64(code))
            sums[CHARACTERS] += 1
            at += size
    if now[_IN_LINK]:
        sums[LINK_WORDS] += sums[WORDS] - before


@inline_kernel
def _parent(structure: Structure) -> int:
    """Return the number of the innermost open element as a parent of blocks; 0 outside of all."""
    now = structure.now
    if now[_OPEN] == 0:
        return 0
    slot = (now[_OPEN] - 1) % OPEN_MAX
    if structure.parents[slot] == 0:
        now[_PARENTS] += 1
        structure.parents[slot] = now[_PARENTS]
    return int64(structure.parents[slot])


@inline_kernel
def _end_block(text: Bytes, place: int, structure: Structure, records: Records) -> None:
    """End the open block at `place`; it has a record if it has words and is where it may."""
    _count_text(text, place, structure)
    now, sums = structure.now, structure.sums
    kind = int64(0)
    if sums[WORDS] and now[_OPEN]:
        kind = _ELEMENTS[structure.elements[(now[_OPEN] - 1) % OPEN_MAX]] & _KIND_MASK
    if sums[WORDS] and kind != _NO_BLOCK and now[COUNT] < records.shape[0]:
        record = records[now[COUNT]]
        for i in range(WORDS, STOP):
            record[i] = sums[i]
        record[START] = now[_FROM]
        record[END] = place
        record[STOP] = now[_LAST]
        record[KIND] = kind
        record[BEFORE] = now[_TAG]
        record[DEPTH] = min(now[_OPEN], DEPTH_MAX)
        record[PARENT] = _parent(structure)
        record[LINK_SHARE] = sums[LINK_WORDS] * 1000 // sums[WORDS]
        record[POINT_SHARE] = min(sums[POINTS] * 1000 // sums[WORDS], 32_767)
        for i in range(_BITS):
            record[COUNTS + i] = structure.counts[i]
        now[COUNT] += 1
    for i in range(WORDS, STOP):
        sums[i] = 0
    now[_FROM] = now[_COUNTED] = place
    now[_IN_WORD] = now[_LAST] = 0


@inline_kernel
def _count_bits(counts: Records, bits: int, step: int) -> None:
    """Add `step` to the counts of all bits."""
    left = uint64(bits)
    while left:
        counts[trailing_zeros(left)] += step
        left &= left - uint64(1)


@inline_kernel
def _open(structure: Structure, element: int, bits: int) -> None:
    """Note that an element begins; the ring forgets the one OPEN_MAX further out."""
    top = structure.now[_OPEN]
    slot = top % OPEN_MAX
    if top >= OPEN_MAX:
        _count_bits(structure.counts, structure.bits[slot], -1)
    structure.elements[slot] = element
    structure.bits[slot] = bits
    structure.parents[slot] = 0
    _count_bits(structure.counts, bits, 1)
    structure.now[_OPEN] = top + 1


@inline_kernel
def _leave(structure: Structure, depth: int) -> None:
    """Note that all elements end that are `depth` or deeper."""
    now = structure.now
    while now[_OPEN] > depth:
        now[_OPEN] -= 1
        slot = now[_OPEN] % OPEN_MAX
        _count_bits(structure.counts, structure.bits[slot], -1)
        structure.bits[slot] = 0  # of one that the ring forgot nothing is left to count
        structure.elements[slot] = html.UNKNOWN
        structure.parents[slot] = 0


@inline_kernel
def _close(structure: Structure, element: int) -> None:
    """Note an end tag: the innermost one of that element ends, and what is open in it."""
    top = structure.now[_OPEN]
    for depth in range(top - 1, max(top - REACH, 0) - 1, -1):
        if structure.elements[depth % OPEN_MAX] == element:
            _leave(structure, depth)
            return


@inline_kernel
def _note_tag(structure: Structure, element: int, kind: tuple[bool, bool], hints: int) -> None:
    """Note a block tag; `kind`: whether it is an end tag, and whether it closes itself."""
    now = structure.now
    traits = _ELEMENTS[element]
    is_end, closes_itself = kind
    if traits & _IS_VOID:
        now[_TAG] = 0
        return
    now[_TAG] = 2 if is_end else 1
    if is_end:
        _close(structure, element)
    elif not closes_itself:
        top = now[_OPEN]
        if traits & _IS_CLOSED and top and structure.elements[(top - 1) % OPEN_MAX] == element:
            _leave(structure, top - 1)
        _open(structure, element, hints | traits >> _SECTION_SHIFT << len(HINTS))


@inline_kernel
def _pass_tag(
    source: Bytes,
    at: int,
    end: int,
    out: Bytes,
    place: int,
    state: html.State,
    structure: Structure,
    records: Records,
) -> tuple[int, int]:
    """Pass a tag as html.py does, and note what it says."""
    is_end = source[at + 1] == html.SLASH
    number, stop = read_name(source, at + (2 if is_end else 1), end)
    element = slot_of(number)
    traits = html.TRAITS[element]
    hints = int64(0)
    if traits & html.BLOCK:
        after, closes_itself, hints = read_attributes(source, stop, end)
    else:
        after, closes_itself = html.skip_attributes(source, stop, end)
    if after > end:
        return end, place
    if traits & html.NOSCRIPT and not is_end and not closes_itself:
        go_on = html.pass_noscript(source, after, end, state)
        if go_on > after:
            return go_on, place
    if number == _LINK and not hidden(state, at):
        _count_text(out, place, structure)
        structure.now[_IN_LINK] = not is_end
        structure.sums[LINKS] += not is_end
    if traits & html.BLOCK and not hidden(state, at):
        _end_block(out, place, structure, records)
        if not traits & html.CONTAINER:  # of which the end tag is hidden
            _note_tag(structure, element, (is_end, closes_itself), hints)
        out[place] = html.SPACE
        place += 1
    tag = (number, traits, stop, is_end, closes_itself)
    return after_tag(source, after, end, out, place, state, tag)


@kernel
def _pass_page(
    source: Bytes,
    at: int,
    end: int,
    out: Bytes,
    state: html.State,
    structure: Structure,
    records: Records,
) -> int:
    """Do what `html_to_blocks` does: apart from it, which makes an array and counts references.

    Most of what is called here is inlined: a call hands over all arrays of `structure`, and there
    are several a tag. Together they were half of the time that blocks take.
    """
    place = int64(0)
    while at < end:
        if hidden(state, at):
            at = find_byte(source, at, end, html.LESS)
        else:
            at, place = copy_text(source, at, end, out, place, html.LESS)
        if at < end and begins_tag(source, at, end):
            at, place = _pass_tag(source, at, end, out, place, state, structure, records)
        elif at < end:
            at, place = html.pass_no_tag(source, at, end, out, place, state)
    _end_block(out, place, structure, records)
    return place


@allocating_kernel
def html_to_blocks(
    source: Bytes, start: int, end: int, out: Bytes, structure: Structure, records: Records
) -> int:
    """Write the visible text of source[start:end] to `out`, and the records of its blocks.

    All is as for `html_to_text`, which writes the same from out[0] on. now[COUNT] of `structure`
    says how many blocks have a record; `records` is int32[any, COLUMNS], a block is
    out[START:END], and blocks are ascending. Returns the place after the last byte written.
    """
    _clear(structure)
    state = np.zeros(html.STATE_SIZE, np.int64)
    return _pass_page(source, start, end, out, state, structure, records)
