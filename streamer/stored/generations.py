"""Generations of frozen keys: what they are on disk, how they are cut, and which are merged.

A generation has postings of all keys, in order: blocks of them, and a Bloom filter (postings.py).
It is written in steps, each a range of keys, and a step in parts, which have whole blocks.

    "b" | generation u32, block u32        postings, ascending; see `pack`
    "b" | generation u32, 2^31 | piece     a MiB of the filter, or the last of a step's
    "b" | 2^24 - 1, number u32             the slots of rows: runs, int64[3, n]
    "frozen"                               the note of what there is, as MessagePack

Four generations of a level are merged into one of the next level, so their number grows with the
logarithm. A merge goes through the keys in steps, the lowest level first. A step writes one range
of keys, notes that the new generation has it and the old ones have not, and then drops what these
had. So a key is looked for in either, a kill costs one step, and a merge needs the room of one.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from streamer.errors import damage_error
from streamer.index import postings
from streamer.index.postings import KEYS_END, SEGMENTS, TAG_BITS, Keys, Places, Postings, Shape
from streamer.stored.key_table import KeyTable
from streamer.stored.row_blocks import join_blocks
from streamer.stored.store import Store

MERGED = 4  # generations of a level that become one of the next
STEP_BYTES = 128 << 20  # of the blocks that a step of a merge writes, at most
FILES = 4  # of these blocks: space is given back by whole files, as RocksDB would rewrite others
FILTER_BITS = 12  # a posting: one key in two hundred is taken for one that is there
BLOCK_WORDS = 448  # about 3.6 kB: one page is read
FILTER = 1 << 31  # the blocks from there on are pieces of the filter
PIECE_BYTES = 1 << 20
RUNS = (1 << 24) - 1  # no generation's number
NOTE = b"frozen"


class Generation(msgspec.Struct, array_like=True):
    """So many postings that were frozen or merged together, of rows from the first to the last.

    Each segment has so many `blocks`, and so many `lines` of the filter. It was written in so many
    `steps`, of equal ranges of keys. While it is merged, only keys in [low, high) are there: of the
    new generation those that are done, of the old ones the others. A key is its upper 40 bits.
    """

    number: int
    level: int
    count: int
    first_row: int
    last_row: int
    blocks: int
    lines: int
    steps: int = 1
    low: int = 0
    high: int = KEYS_END

    @property
    def filter_bytes(self) -> int:
        """Return the bytes of its filter."""
        low, high = (key * self.lines >> TAG_BITS for key in (self.low, self.high))
        return (high - low) * postings.LINE_BYTES

    @property
    def shape(self) -> Shape:
        """Return what its blocks are read and written by."""
        row_bits = max(1, (self.last_row - self.first_row).bit_length())
        tag_bits = (((1 << TAG_BITS) - 1) // self.blocks).bit_length()
        return Shape(self.blocks, self.first_row, row_bits, max(8, row_bits + tag_bits))

    @property
    def step_filter_bytes(self) -> int:
        """Return the bytes of the filter that a step writes."""
        return SEGMENTS * self.lines * postings.LINE_BYTES // self.steps

    @property
    def steps_there(self) -> range:
        """Return the steps of which keys are there."""
        size = KEYS_END // self.steps
        return range(self.low // size, -(-self.high // size))

    def parts(self, step: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of keys in which a step is written; each has whole blocks."""
        size = KEYS_END // (postings.PARTS * self.steps)
        for part in range(postings.PARTS * step, postings.PARTS * (step + 1)):
            yield part * size, (part + 1) * size

    def numbers(self, low: int, high: int) -> range:
        """Return the numbers of the blocks where keys in [low, high) are."""
        base = first_block(self.number)
        first, last = (key * self.blocks >> TAG_BITS for key in (low, high - 1))
        return range(base + first, base + last + 1)

    def filter_numbers(self, step: int) -> range:
        """Return the numbers under which the filter of a step lies."""
        pieces = -(-self.step_filter_bytes // PIECE_BYTES)
        first = first_block(self.number) + FILTER + step * pieces
        return range(first, first + pieces)


class Note(msgspec.Struct, array_like=True):
    """What is frozen: all rows in slots before `slot`, in these generations.

    `next` is the number of the next one; `runs` are the numbers under which the runs of the rows
    lie, each with the slot where they end.
    """

    slot: int = 0
    next: int = 0
    generations: list[Generation] = []
    runs: list[tuple[int, int]] = []

    @property
    def count(self) -> int:
        """Return how many postings are frozen."""
        return sum(each.count for each in self.generations)

    @property
    def filter_bytes(self) -> int:
        """Return the bytes of the filters."""
        return sum(each.filter_bytes for each in self.generations)


def read_note(store: Store) -> Note:
    """Return what is frozen."""
    data = store.note(NOTE)
    return msgspec.msgpack.decode(data, type=Note) if data else Note()


def first_block(number: int) -> int:
    """Return the number of a generation's first block."""
    return number << 32


def thaw(store: Store) -> None:
    """Remove all that is frozen; the next one to open the index reads its keys.

    Raises:
        StoreUnavailable: the disk refuses.
    """
    store.put_note(NOTE, b"")
    store.drop_bands([(0, first_block(RUNS + 1))])


def make_generation(number: int, level: int, count: int, rows: tuple[int, int]) -> Generation:
    """Return an empty one, with room for so many postings, of rows in [first, end)."""
    blocks = max(1, _ceil(count, SEGMENTS * BLOCK_WORDS))
    lines = max(1, _ceil(count * FILTER_BITS, SEGMENTS * postings.LINE_BITS))
    new = Generation(number, level, 0, rows[0], rows[1] - 1, blocks, lines)
    while count * new.shape.bits > 8 * STEP_BYTES * new.steps:
        new.steps *= 2
    # Parts of a segment: each has whole blocks and lines.
    parts = max(1, postings.PARTS * new.steps // SEGMENTS)
    new.blocks, new.lines = (_ceil(each, parts) * parts for each in (new.blocks, new.lines))
    return new


def _ceil(count: int, of: int) -> int:
    return -(-count // of)


def batched(numbers: range, count: int) -> Iterator[range]:
    """Yield numbers, so many at once."""
    for start in range(0, len(numbers), count):
        yield numbers[start : start + count]


def next_merge(generations: Sequence[Generation]) -> tuple[list[Generation], Generation | None]:
    """Return which generations of the lowest level to merge, and into which, if that is begun.

    What a merge has begun with goes on being merged, without what came later.
    """
    for level in sorted({each.level for each in generations}):
        own = [each for each in generations if each.level == level and each.high == KEYS_END]
        for begun in generations:
            if begun.level == level + 1 and begun.high < KEYS_END:
                return [each for each in own if each.low], begun
        if len(own) >= MERGED:
            return own, None
    return [], None


def passed_blocks(before: Generation, now: Generation) -> list[tuple[int, int]]:
    """Return the numbers [start, end) of what a merge has passed in a generation, whole files."""
    if before.low == now.low:
        return []
    size = KEYS_END // (FILES * now.steps)
    blocks = [each.numbers(each.low // size * size, KEYS_END).start for each in (before, now)]
    filters = [each.filter_numbers(each.steps_there.start).start for each in (before, now)]
    return [(start, end) for start, end in (blocks, filters) if start < end]


def select_rows(own: Postings, first: int, end: int) -> Postings:
    """Return the postings of the rows in [first, end); others have been dropped."""
    words, starts = own
    there = rows_of(words, first) < end
    if there.all():
        return own
    before = np.append(0, np.cumsum(there))
    return Postings(words[there], before[starts])


def rows_of(words: Keys, first: int) -> Places:
    """Return the rows of words, none of which comes before the first."""
    numbers = (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return first + (numbers - first) % postings.ROWS_MAX


def parts_of_table(table: KeyTable, new: Generation) -> Iterator[Postings]:
    """Yield the postings of a table's rows, for each part of a generation."""
    read, rows = range(0), (new.first_row, new.last_row + 1)
    own = Postings(np.empty(0, np.uint64), np.zeros(1, np.int64))
    for step in range(new.steps):
        for low, high in new.parts(step):
            segments = range(low >> TAG_BITS, ((high - 1) >> TAG_BITS) + 1)
            if segments != read:
                read, own = segments, select_rows(table.words(segments), *rows)
            if high - low < 1 << TAG_BITS:
                words = _between(own.words, low, high)
                yield Postings(words, np.array([0, len(words)]))
            else:
                yield own


def _between(words: Keys, low: int, high: int) -> Keys:
    """Return those words of the segment of the key `low` whose keys are in [low, high)."""
    first = low >> TAG_BITS << TAG_BITS
    limits = np.array([low - first, min(high - first, 1 << TAG_BITS)], np.uint64)
    start, end = np.searchsorted(words >> np.uint64(TAG_BITS), limits)
    return words[start:end]


def read_words(store: Store, generation: Generation, low: int, high: int) -> list[Keys]:
    """Return the words of the keys in [low, high), by segment."""
    numbers, shape = generation.numbers(low, high), generation.shape
    data, limits = join_blocks(store.band_blocks(numbers))
    before, ends = numbers.start - first_block(generation.number), np.zeros(len(limits), np.int64)
    words = np.empty(8 * len(data) // shape.bits, np.uint64)
    postings.unpack(data, limits, shape, before, words, ends)
    found = []
    for segment in range(low >> TAG_BITS, ((high - 1) >> TAG_BITS) + 1):
        places = np.array([segment, segment + 1]) * shape.blocks - before
        first, last = ends[places.clip(0, len(numbers))].tolist()
        found.append(_between(words[first:last], max(low, segment << TAG_BITS), high))
    return found


def read_generation(store: Store, generation: Generation) -> Iterator[int]:
    """Read all that a generation has; yield how many bytes that are, part by part.

    Raises:
        StoreDamaged: it cannot be read, or there is more or less of it than was noted.
    """
    base, count, size = first_block(generation.number), 0, 0
    numbers = generation.numbers(generation.low, generation.high)
    for own in batched(numbers, postings.PART_SEGMENTS * generation.blocks):
        blocks = store.band_blocks(own)
        count += sum(8 * len(block) // generation.shape.bits for block in blocks)
        yield sum(map(len, blocks))
    begin = _ceil((numbers.start - base) << TAG_BITS, generation.blocks)
    if begin < generation.low:  # a merge has passed a part of the first block
        count -= sum(map(len, read_words(store, generation, begin, generation.low)))
    for step in generation.steps_there:
        for number in generation.filter_numbers(step):
            [piece] = store.band_blocks([number])
            size += len(piece)
            yield len(piece)
    steps = len(generation.steps_there)
    if (count, size) != (generation.count, steps * generation.step_filter_bytes):
        raise damage_error(store.path, f"generation {generation.number} of its bands")
