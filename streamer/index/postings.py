"""Postings as words: sorted, as the key table holds them, and packed, as frozen ones are on disk.

A posting says that a row is found under a key. As a word it is 32 bits of the key, then the number
of the row modulo ROWS_MAX. An index has no more rows at a time, so `rows_before` finds which one it
is. The 8 bits of the key before these choose its segment, and are not in the word. Words of a
segment are in order. The remaining 24 bits are stored with the row, in the half of its key.

Frozen postings (generations.py) are in blocks by their tags. Tags are spread evenly, so a key
determines its block without a search. The blocks are behind a Bloom filter, whose bits for one key
are in one cache line.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamer.hashing import fmix
from streamer.kernel import allocating_kernel, inline_kernel, kernel
from streamer.machine import (
    int64,
    load_u64,
    prefetch,
    put_word,
    store_u64,
    uint8,
    uint32,
    uint64,
    word_at,
)

SEGMENT_BITS = 8
SEGMENTS = 1 << SEGMENT_BITS
TAG_BITS = 32
KEYS_END = 1 << (SEGMENT_BITS + TAG_BITS)  # after the greatest key, of which 40 bits count
ROWS_MAX = (1 << 32) - 1  # at a time; so no word has all bits of a row
PARTS = 16  # in which segments are taken
PART_SEGMENTS = SEGMENTS // PARTS
LINE_BYTES = 64  # of a cache line
LINE_BITS = 8 * LINE_BYTES
_BITS_A_KEY = 6
_WORD_BITS = 64
_AHEAD = 4  # keys between what is asked for and what is looked at, in all generations

Bytes = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.uint64]
Halves = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


class Postings(NamedTuple):
    """Postings by segment: those of segment i are words[starts[i]:starts[i + 1]].

    They ascend, unless their maker says otherwise.
    """

    words: npt.NDArray[np.uint64]
    starts: Places


NO_POSTINGS = Postings(np.empty(0, np.uint64), np.zeros(SEGMENTS + 1, np.int64))


@inline_kernel
def segment_of(key: int) -> int:
    """Return the segment of a key: its top 8 bits."""
    segment: int = int64(uint64(key) >> uint64(64 - SEGMENT_BITS))
    return segment


@inline_kernel
def tag_of(key: int) -> int:
    """Return the 32 bits of a key that its words have."""
    return uint64(key) >> uint64(64 - SEGMENT_BITS - TAG_BITS) & uint64((1 << TAG_BITS) - 1)


@inline_kernel
def home_of(tag: int, ranges: int) -> int:
    """Return into which of so many equal ranges a tag falls; it goes up with the tag."""
    home: int = int64(uint64(tag) * uint64(ranges) >> uint64(TAG_BITS))
    return home


@inline_kernel
def sort_nearly(words: Keys, start: int, end: int) -> None:
    """Sort words[start:end], of which hardly one is far from its place."""
    for i in range(start + 1, end):
        word, place = words[i], i
        while place > start and words[place - 1] > word:
            words[place] = words[place - 1]
            place -= 1
        words[place] = word


@allocating_kernel
def _part(keys: Keys, masks: Keys, rows: Places, out_words: Keys) -> Places:
    """Write the words of postings by segment, by row in each; return where segments start."""
    starts = np.zeros(SEGMENTS + 1, np.int64)
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            starts[segment_of(keys[i, j]) + 1] += masks[i] >> uint64(j) & uint64(1)
    for i in range(SEGMENTS):
        starts[i + 1] += starts[i]
    places = np.empty(SEGMENTS, np.int64)
    for i in range(SEGMENTS):
        places[i] = starts[i]
    for i in range(keys.shape[0]):
        row = uint64(rows[i] % ROWS_MAX)
        for j in range(keys.shape[1]):
            if masks[i] >> uint64(j) & uint64(1):
                segment, tag = segment_of(keys[i, j]), tag_of(keys[i, j])
                out_words[places[segment]] = tag << uint64(TAG_BITS) | row
                places[segment] += 1
    return starts


@allocating_kernel
def _sort_words(parts: Places, starts: Places, segment: int) -> Keys:
    """Return the words of a segment in order, out of those at the addresses of parts.

    Of part p they begin at its word starts[p, segment]. A counting sort by as many ranges of
    tags as there are words, then by insertion. Keys are hashes, so hardly any words share a range;
    those of equal tags come in the order of rows.
    """
    count = 0
    for part in range(starts.shape[0]):
        count += starts[part, segment + 1] - starts[part, segment]
    out = np.empty(count, np.uint64)
    places = np.zeros(count + 1, np.int32)
    for part in range(starts.shape[0]):
        for i in range(starts[part, segment], starts[part, segment + 1]):
            places[home_of(word_at(parts[part], i) >> uint64(TAG_BITS), count) + 1] += 1
    for i in range(count):
        places[i + 1] += places[i]
    for part in range(starts.shape[0]):
        for i in range(starts[part, segment], starts[part, segment + 1]):
            word = word_at(parts[part], i)
            home = home_of(word >> uint64(TAG_BITS), count)
            out[places[home]] = word
            places[home] += 1
    sort_nearly(out, 0, count)
    return out


def part_postings(keys: Keys, masks: Keys, rows: Places) -> Postings:
    """Return the postings of rows: of rows[i] under keys[i, j] where bit j of masks[i] is set.

    Those of a segment are in the order of rows.
    """
    words = np.empty(int(np.bitwise_count(masks).sum()), np.uint64)
    return Postings(words, _part(keys, masks, rows, words))


def sort_postings(keys: Keys, masks: Keys, rows: Places) -> Postings:
    """Return the postings of rows as `part_postings`, ascending."""
    parted = part_postings(keys, masks, rows)
    return Postings(np.concatenate([*segment_words([parted], range(SEGMENTS))]), parted.starts)


def segment_words(parts: Sequence[Postings], segments: range) -> Iterator[Keys]:
    """Yield the words of segments out of several parts, those of each segment in order."""
    addresses = np.array([words.ctypes.data for words, _ in parts], np.int64)
    starts = np.stack([starts for _, starts in parts])
    for segment in segments:
        yield _sort_words(addresses, starts, segment)


def rows_before(end: int, numbers: Places) -> Places:
    """Return the rows before `end` that have these numbers in words; -1 where there is none."""
    return np.maximum(end - 1 - (end - 1 - numbers) % ROWS_MAX, -1)


def filled(columns: int, room: int, fill: Callable[[Places], int]) -> Places:
    """Return all that a kernel finds, as int64[columns, n].

    `fill` has it write to an array with so much room, and returns n; if n is more, it is called
    again.
    """
    while True:
        out = np.empty((columns, room), np.int64)
        if (found := fill(out) if room else 0) <= room:
            return out[:, :found]
        room = found


def segments_of(part: int) -> range:
    """Return the segments of a part."""
    return range(part * PART_SEGMENTS, (part + 1) * PART_SEGMENTS)


# ---- frozen: filters and blocks ------------------------------------------------------------------


class Shape(NamedTuple):
    """The form of a generation's blocks: how many a segment has, and how a posting is packed.

    It takes `bits` bits: the distance of its tag from the least that the block can have, then, in
    `row_bits`, that of its row from the generation's first.
    """

    blocks: int
    first_row: int
    row_bits: int
    bits: int


@inline_kernel
def _hash(segment: int, tag: int) -> int:
    return fmix(uint64(segment) << uint64(TAG_BITS) | uint64(tag))


@inline_kernel
def _set_bits(line: int, bits: int) -> None:
    for j in range(_BITS_A_KEY):
        bit = bits >> uint64(9 * j) & uint64(LINE_BITS - 1)
        at = int64(bit >> uint64(6))
        put_word(line, at, word_at(line, at) | uint64(1) << (bit & uint64(63)))


@inline_kernel
def _are_set(line: int, bits: int) -> bool:
    are_set = True
    j = 0
    while are_set and j < _BITS_A_KEY:
        bit = bits >> uint64(9 * j) & uint64(LINE_BITS - 1)
        are_set = word_at(line, int64(bit >> uint64(6))) >> (bit & uint64(63)) & uint64(1) != 0
        j += 1
    return are_set


@kernel
def cut(
    words: Keys, starts: Places, begin: tuple[int, int], blocks: int, lines: int, address: int,
    limits: Places,
) -> None:  # fmt: skip
    """Add words to the filter at an address, and write where each block of them ends to `limits`.

    `begin` is their first segment, and the generation's blocks before theirs. Those of segment i
    after the first are words[starts[i]:starts[i + 1]]. A tag that several of them have is added
    once more, by other bits.
    """
    first, before = begin
    block = 0
    for i in range(starts.shape[0] - 1):
        for j in range(starts[i], starts[i + 1]):
            tag = words[j] >> uint64(TAG_BITS)
            home = (first + i) * blocks + home_of(tag, blocks) - before
            while block < home:
                limits[block] = j
                block += 1
            line = address + ((first + i) * lines + home_of(tag, lines)) * LINE_BYTES
            bits = _hash(first + i, tag)
            _set_bits(line, bits)
            if j > starts[i] and words[j - 1] >> uint64(TAG_BITS) == tag:
                _set_bits(line, fmix(bits))
    while block < limits.shape[0]:
        limits[block] = words.shape[0]
        block += 1


@inline_kernel
def _least_tag(home: int, blocks: int) -> int:
    """Return the least tag of a block of a segment."""
    return ((uint64(home) << uint64(TAG_BITS)) + uint64(blocks - 1)) // uint64(blocks)


@inline_kernel
def _pack(data: Bytes, bit: int, bits: int) -> int:
    """Return what is packed into so many bits, from this one on."""
    at, shift = bit >> 3, uint64(bit & 7)
    value = load_u64(data, at) >> shift
    if bits + int64(shift) > _WORD_BITS:
        value |= uint64(data[at + 8]) << (uint64(64) - shift)
    return value & (uint64(0xFFFFFFFFFFFFFFFF) >> uint64(64 - bits))


@kernel
def pack(
    words: Keys, limits: Places, shape: Shape, before: int, out: Bytes, out_limits: Places
) -> None:
    """Write blocks of words to `out`, which is zero and has nine bytes more than they take.

    Block i is words[limits[i]:limits[i + 1]], and begins at the byte out_limits[i]; the generation
    has `before` blocks before them.
    """
    first_row = shape.first_row % ROWS_MAX
    for block in range(limits.shape[0] - 1):
        least = _least_tag((before + block) % shape.blocks, shape.blocks)
        bit = 8 * out_limits[block]
        for i in range(limits[block], limits[block + 1]):
            tag = (words[i] >> uint64(TAG_BITS)) - least
            row = (int64(words[i] & uint64(0xFFFFFFFF)) + ROWS_MAX - first_row) % ROWS_MAX
            value = tag << uint64(shape.row_bits) | uint64(row)
            at, shift = bit >> 3, uint64(bit & 7)
            store_u64(out, at, load_u64(out, at) | value << shift)
            if shape.bits + int64(shift) > _WORD_BITS:
                out[at + 8] |= uint8(value >> (uint64(64) - shift))
            bit += shape.bits
        out_limits[block + 1] = (bit + 7) >> 3


@kernel
def unpack(
    data: Bytes, limits: Places, shape: Shape, before: int, out: Keys, out_limits: Places
) -> None:
    """Write the words of blocks to `out`, and where those of each end: what `pack` was given."""
    count, first_row = int64(0), shape.first_row % ROWS_MAX
    for block in range(limits.shape[0] - 1):
        least = _least_tag((before + block) % shape.blocks, shape.blocks)
        bit = 8 * limits[block]
        for _ in range(8 * (limits[block + 1] - limits[block]) // shape.bits):
            value = _pack(data, bit, shape.bits)
            tag = (value >> uint64(shape.row_bits)) + least
            row = value & ((uint64(1) << uint64(shape.row_bits)) - uint64(1))
            number = uint64((int64(row) + first_row) % ROWS_MAX)
            out[count] = tag << uint64(TAG_BITS) | number
            bit += shape.bits
            count += 1
        out_limits[block + 1] = count


class Probed(NamedTuple):
    """Keys that may be in a generation, in the order of keys: int64[n] each.

    Attributes:
        places: the places of the keys.
        generations: the places of the generations.
        blocks: the numbers of the blocks where they would be.
        shared: 0 where the key has one row there if any.
    """

    places: Places
    generations: Places
    blocks: Places
    shared: Places

    def at(self, which: npt.NDArray[np.bool_] | Places | slice) -> Self:
        """Return some of them."""
        return type(self)(*(column[which] for column in self))


@kernel
def probe(
    addresses: Places, lines: Places, blocks: Places, bases: Places, ranges: Places, keys: Keys,
    out: Probed,
) -> int:  # fmt: skip
    """Write which keys may be in a generation; return how many.

    For each generation: the address of its filter, the lines and blocks of a segment, the number of
    its first block, and the range of keys that it has, int64[n, 2]. Where there are more than the
    arrays hold, the rest is only counted.
    """
    found = 0
    for i in range(-_AHEAD, keys.shape[0]):
        if i + _AHEAD < keys.shape[0]:
            segment, tag = segment_of(keys[i + _AHEAD]), tag_of(keys[i + _AHEAD])
            for g in range(bases.shape[0]):
                line = segment * lines[g] + home_of(tag, lines[g])
                prefetch(addresses[g], line * (LINE_BYTES // 8))
        if i < 0:
            continue
        segment, tag = segment_of(keys[i]), tag_of(keys[i])
        bits, key = _hash(segment, tag), int64(uint64(segment) << uint64(TAG_BITS) | tag)
        for g in range(bases.shape[0]):
            if not ranges[g, 0] <= key < ranges[g, 1]:
                continue
            line = addresses[g] + (segment * lines[g] + home_of(tag, lines[g])) * LINE_BYTES
            if _are_set(line, bits):
                if found < out.places.shape[0]:
                    out.places[found] = i
                    out.generations[found] = g
                    out.blocks[found] = bases[g] + segment * blocks[g] + home_of(tag, blocks[g])
                    out.shared[found] = _are_set(line, fmix(bits))
                found += 1
    return found


@kernel
def find_in_blocks(
    data: Bytes, limits: Places, shapes: Places, keys: Keys, probed: Probed, at: Places,
    out: tuple[Places, Places],
) -> int:  # fmt: skip
    """Write i and a row for each posting of keys[probed.places[i]] in block at[i]; return how many.

    Block b is data[limits[b]:limits[b + 1]]; shapes[g] is that of generation g. Where there are
    more than the arrays hold, the rest is only counted.
    """
    found = 0
    for i in range(at.shape[0]):
        generation = probed.generations[i]
        blocks, first_row = shapes[generation, 0], shapes[generation, 1]
        row_bits, bits = shapes[generation, 2], shapes[generation, 3]
        tag = tag_of(keys[probed.places[i]])
        tag -= _least_tag(home_of(tag, blocks), blocks)
        start = 8 * limits[at[i]]
        low, end = int64(0), 8 * (limits[at[i] + 1] - limits[at[i]]) // bits
        high = end
        while low < high:
            middle = (low + high) >> 1
            if _pack(data, start + middle * bits, bits) >> uint64(row_bits) < tag:
                low = middle + 1
            else:
                high = middle
        while low < end:
            value = _pack(data, start + low * bits, bits)
            if value >> uint64(row_bits) != tag:
                break
            if found < out[0].shape[0]:
                out[0][found] = i
                row = value & ((uint64(1) << uint64(row_bits)) - uint64(1))
                out[1][found] = first_row + int64(row)
            found += 1
            low += 1
    return found


@kernel
def explain(
    keys: Keys, probed: Probed, groups: Places, starts: Places, halves: Halves, out: Places
) -> None:
    """Write which row has each key that was not read yet: its place in `halves`, -1 for none.

    Key i of a page is own key i % halves.shape[1]; groups[i] is the page and generation of a key,
    whose rows that are known by now are those from starts[groups[i]] on. Keys that may have several
    rows there are left.
    """
    for i in range(groups.shape[0]):
        out[i] = -1
        half = uint32(keys[probed.places[i]])
        if probed.shared[i] or half == 0:  # a row that is not posted has 0
            continue
        own = probed.places[i] % halves.shape[1]
        for row in range(starts[groups[i]], starts[groups[i] + 1]):
            if halves[row, own] == half:
                out[i] = row
                break
