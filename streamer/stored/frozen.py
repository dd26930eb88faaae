"""Frozen keys: what does not fit the key table, in the database, behind filters in memory.

A full table becomes a generation: blocks of its words on disk, and a Bloom filter in memory
(postings.py). So a key that is not there costs one look into memory for each generation, and a read
in one of two hundred cases. Four generations of a level are merged into one of the next level.
Their number grows with the logarithm, until they are so large that merging costs more than it
saves.

A known page has all its keys in one generation, and most keys have one row there. So one key is
read, and the row that it leads to. Where this row's marks (row_blocks.py) agree with another key of
the page, and the filter says that the other key has one row, the other key need not be read.

    "b" | generation u32, block u32        postings, ascending; see `pack`
    "b" | generation u32, 2^31 | piece     a MiB of the filter
    "b" | 2^24 - 1, number u32             the slots of rows: runs, int64[3, n]
    "frozen"                               the note of what there is, as MessagePack

All of it is derived from the keys in the store. It is durable nevertheless, so that a start need
not read those keys. The note is written last, in one atomic step, with the slot from which on keys
must be read. What a crash leaves is in no note: it is not read, and is removed before
anything is frozen again. A look-up finds what it would find in the table, by the same 40 bits of a
key.
"""

# Freezing takes 0.5 us of CPU per page, merging 1.1. A binary fuse filter needs 9 bits per posting
# instead of 12, but three cache lines; a Bloom filter of 9 bits causes four times as many reads. If
# two of five pages are duplicates of frozen pages, a page costs 11 us instead of 24. Frozen keys
# are durable although they are derived, or a start would read and sort all keys. Closing an index
# freezes a large table, so the next start reads a sixth of the bytes.

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import msgspec
import numpy as np

from streamer.errors import damage_error
from streamer.index.codec import BANDS, Entry, entry_key
from streamer.index.postings import (
    LINE_BITS,
    LINE_BYTES,
    PART_SEGMENTS,
    PARTS,
    ROWS_MAX,
    SEGMENTS,
    TAG_BITS,
    Keys,
    Places,
    Postings,
    Probed,
    Shape,
    cut,
    explain,
    filled,
    find_in_blocks,
    pack,
    probe,
    segments_of,
    unpack,
)
from streamer.stored.key_table import KeyTable, address_of, memory_of
from streamer.stored.row_blocks import PADDING, join_blocks
from streamer.stored.rows import StoredRows
from streamer.stored.store import Store

MERGED = 4  # generations of a level that become one of the next
MERGED_MAX = 1 << 28  # postings of a generation, about: to write 18 million pages' again gains less
FILTER_BITS = 12  # a posting: one key in two hundred is taken for one that is there
BLOCK_WORDS = 448  # about 3.6 kB: one page is read
_FILTER = 1 << 31  # the blocks from there on are pieces of the filter
_PIECE_BYTES = 1 << 20
_PIECES_AT_ONCE = 16
_RUNS = (1 << 24) - 1  # no generation's number
_NOTE = b"frozen"


class Generation(msgspec.Struct, array_like=True):
    """So many postings that were frozen or merged together, of rows from the first to the last.

    Each segment has so many `blocks`, and so many `lines` of the filter.
    """

    number: int
    level: int
    count: int
    first_row: int
    last_row: int
    blocks: int
    lines: int

    @property
    def filter_bytes(self) -> int:
        """Return the bytes of its filter."""
        return SEGMENTS * self.lines * LINE_BYTES

    @property
    def shape(self) -> Shape:
        """Return what its blocks are read and written by."""
        row_bits = max(1, (self.last_row - self.first_row).bit_length())
        tag_bits = (((1 << TAG_BITS) - 1) // self.blocks).bit_length()
        return Shape(self.blocks, self.first_row, row_bits, max(8, row_bits + tag_bits))


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
    data = store.note(_NOTE)
    return msgspec.msgpack.decode(data, type=Note) if data else Note()


def _base(number: int) -> int:
    """Return the number of a generation's first block."""
    return number << 32


class _Filters(NamedTuple):
    """What `probe` takes of all generations, and their shapes, int64[n, 4]."""

    addresses: Places
    lines: Places
    blocks: Places
    bases: Places
    shapes: Places


def _memory(size: int) -> mmap.mmap:
    memory = memory_of(size)
    with suppress(OSError):  # not every system has huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)  # each look is into another page
    return memory


class Stopped(Exception):  # noqa: N818 - it is no error
    """A generation was not finished, since the index is closed."""


class FrozenKeys:
    """The frozen keys of an index; any thread may look them up, one changes them.

    `alone` gives a moment in which nobody looks. Changes raise StoreUnavailable where the disk
    refuses, and nothing is lost; and `Stopped`, once `stop` was called.

    Attributes:
        note: what is frozen.
    """

    def __init__(
        self, store: Store, rows: StoredRows, alone: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._store = store
        self._rows = rows
        self._alone = alone
        self._stopped = False
        self._is_swept = False
        self.note = read_note(store)
        self._memory = {each.number: self._read_filter(each) for each in self.note.generations}
        self._filters = self._current()

    # ---- look-ups --------------------------------------------------------------------------------

    def find(self, keys: Keys, own_keys: int) -> tuple[Places, Places]:
        """Return (the place of a key, a row) for each posting, in no order.

        Keys are those of pages, so many each. Rows may have been dropped.
        """
        probed = self._probe(keys)
        if not len(probed.places):
            return probed.places, probed.places
        of_generation = probed.places // own_keys * len(self._filters.bases) + probed.generations
        order = np.lexsort((probed.shared, of_generation))
        probed, of_generation = probed.at(order), of_generation[order]
        is_first = np.diff(of_generation, prepend=-1) != 0
        first, others = probed.at(is_first), probed.at(~is_first)
        read = self._read(keys, first)
        groups = (np.cumsum(is_first) - 1)[~is_first]
        explained = self._explain_failures(keys, others, groups, first, read, own_keys)
        left = self._read(keys, others.at(explained < 0))
        is_explained = explained >= 0
        places = np.concatenate((read[0], others.places[is_explained], left[0]))
        return places, np.concatenate((read[1], explained[is_explained], left[1]))

    def _explain_failures(
        self, keys: Keys, others: Probed, groups: Places, first: Probed,
        read: tuple[Places, Places, Places], own_keys: int,
    ) -> Places:  # fmt: skip
        """Return the one row that has each of `others`, -1 where it must be read.

        What was `read` for the first key of each group decides; keys with several rows stay open.
        """
        is_alone = first.shared[read[2]] == 0
        rows = read[1][is_alone]
        out = np.full(len(others.places), -1)
        if len(out) and len(rows):
            starts = np.searchsorted(read[2][is_alone], np.arange(len(first.places) + 1))
            explain(keys, others, groups, starts, self._rows.marks(rows, own_keys), out)
            out[out >= 0] = rows[out[out >= 0]]
        return out

    def _probe(self, keys: Keys) -> Probed:
        room = len(keys) if len(self._filters.bases) else 0
        return Probed(*filled(4, room, lambda out: probe(*self._filters[:4], keys, Probed(*out))))

    def _read(self, keys: Keys, probed: Probed) -> tuple[Places, Places, Places]:
        """Return each posting's place, row, and which of `probed` it was found for."""
        if not len(probed.places):
            return probed.places, probed.places, probed.places
        numbers, blocks = np.unique(probed.blocks, return_inverse=True)
        data, limits = join_blocks(self._store.band_blocks(numbers.tolist()))
        shapes = self._filters.shapes

        def find(out: Places) -> int:
            return find_in_blocks(data, limits, shapes, keys, probed, blocks, (out[0], out[1]))

        at, rows = filled(2, len(blocks), find)
        return probed.places[at], rows, at

    # ---- changes, in one thread ------------------------------------------------------------------

    def take_up_runs(self) -> None:
        """Update the slots of rows that are frozen."""
        for number, _ in self.note.runs:
            [data] = self._store.band_blocks([_base(_RUNS) + number])
            self._rows.slots.put(np.frombuffer(data, np.int64).reshape(3, -1))

    def freeze(self, table: KeyTable, slot: int, release: Callable[[], None]) -> None:
        """Make a generation of a table to which nothing is added any more: all rows before a slot.

        `release` is called when it is found here, while nobody looks.
        """
        self._sweep()
        before, first_slot = self.note, self._store.meta.first_slot if self._store.meta else 0
        runs = self._rows.slots.runs_from(before.slot, slot)
        number = before.next
        self._store.write_bands([(entry_key(BANDS, _base(_RUNS) + number), runs.tobytes())])
        rows = int(runs[0].min(initial=ROWS_MAX)), int(runs[1].max(initial=0))  # all that are left
        parts = (table.words(segments_of(part)) for part in range(PARTS))
        new = self._read_written(0, table.count, rows, parts)
        left = [run for run in before.runs if run[1] > first_slot]
        first_row = self._rows.slots.first_row
        gone = [each for each in before.generations if each.last_row < first_row]
        others = [each for each in before.generations if each.last_row >= first_row]
        generations = [*others, new] if new.count else others
        after = Note(slot, number + 1, generations, [*left, (number, slot)])
        self._change(after, gone, release)

    def merge(self) -> bool:
        """Merge four generations of a level into one, if there are four; return whether it did."""
        before = self.note
        old = generations_to_merge(before.generations)
        if not old:
            return False
        parts = (self._merge(old, part) for part in range(PARTS))
        first = max(self._rows.slots.first_row, min(each.first_row for each in old))
        rows = first, max(each.last_row for each in old) + 1
        count = sum(each.count for each in old)
        new = self._read_written(old[0].level + 1, count, rows, parts)
        left = [each for each in before.generations if each not in old]
        generations = [*left, new] if new.count else left
        after = msgspec.structs.replace(before, next=before.next + 1, generations=generations)
        self._change(after, old, lambda: None)
        return True

    def stop(self) -> None:
        """Have what goes on in another thread end soon; what it has not noted is done again."""
        self._stopped = True

    def go_on(self) -> None:
        """Take `stop` back, when nothing goes on in another thread any more."""
        self._stopped = False

    def _change(self, after: Note, gone: Sequence[Generation], release: Callable[[], None]) -> None:
        """Note what is there from now on, and remove what is `gone` when nobody reads it."""
        runs = {number for number, _ in self.note.runs} - {number for number, _ in after.runs}
        self._store.put_note(_NOTE, msgspec.msgpack.encode(after))
        with self._alone():
            self.note = after
            self._filters = self._current()
            release()
        base = _base(_RUNS)
        ranges = [self._range(each.number) for each in gone]
        self._store.drop_bands(ranges + [(base + number, base + number + 1) for number in runs])

    def _sweep(self) -> None:
        """Remove what a kill has left: all generations that are not noted."""
        if not self._is_swept:
            noted = sorted(each.number for each in self.note.generations)
            limits = [-1, *noted, _RUNS]
            gaps = [(low + 1, high) for low, high in itertools.pairwise(limits) if low + 1 < high]
            base = [(self._range(low)[0], self._range(high)[0]) for low, high in gaps]
            self._store.drop_bands(base)
            self._is_swept = True

    def _range(self, number: int) -> tuple[int, int]:
        return _base(number), _base(number + 1)

    def _read_written(
        self, level: int, count: int, rows: tuple[int, int], parts: Iterator[Postings]
    ) -> Generation:
        """Write a generation of so many postings at most, of these rows; make its filter."""
        number = self.note.next
        blocks = max(1, -(-count // (SEGMENTS * BLOCK_WORDS)))
        lines = max(1, -(-count * FILTER_BITS // (SEGMENTS * LINE_BITS)))
        new = Generation(number, level, 0, rows[0], rows[1] - 1, blocks, lines)
        self._memory[number] = memory = _memory(new.filter_bytes)
        base = _base(number)

        def entries() -> Iterator[Entry]:
            for part, postings in enumerate(parts):
                if self._stopped:
                    raise Stopped
                yield from self._blocks(new, part, _select_rows(postings, *rows))
            for i, start in enumerate(range(0, len(memory), _PIECE_BYTES)):
                yield entry_key(BANDS, base + _FILTER + i), memory[start : start + _PIECE_BYTES]

        self._store.write_bands(entries())
        return new

    def _blocks(self, new: Generation, part: int, postings: Postings) -> Iterator[Entry]:
        """Add a part to the filter, and yield its blocks."""
        (words, starts), address = postings, address_of(self._memory[new.number])
        numbers = self._part(new, part)
        limits, ends = np.zeros((2, len(numbers) + 1), np.int64)
        cut(words, starts, part * PART_SEGMENTS, new.blocks, new.lines, address, limits[1:])
        size = len(words) * new.shape.bits // 8 + len(numbers) + len(PADDING)
        out = np.zeros(size, np.uint8)
        pack(words, limits, new.shape, out, ends)
        new.count += len(words)
        data = out.tobytes()
        for number, (low, high) in zip(numbers, itertools.pairwise(ends.tolist()), strict=True):
            yield entry_key(BANDS, number), data[low:high]

    def _merge(self, generations: Sequence[Generation], part: int) -> Postings:
        """Return the words of a part of some generations, in order."""
        read, merged = [], []
        for each in generations:
            words, limits = _words(self._store.band_blocks(self._part(each, part)), each)
            read.append((words, limits[:: each.blocks]))
        for i in range(PART_SEGMENTS):
            words = np.concatenate([words[at[i] : at[i + 1]] for words, at in read])
            words.sort(kind="stable")  # which takes what is in order as it is
            merged.append(words)
        starts = np.append(0, np.cumsum([len(words) for words in merged]))
        return Postings(np.concatenate(merged), starts)

    def _part(self, generation: Generation, part: int) -> range:
        """Return the numbers of the blocks of a part."""
        count = PART_SEGMENTS * generation.blocks
        first = _base(generation.number) + part * count
        return range(first, first + count)

    def _read_filter(self, generation: Generation) -> mmap.mmap:
        memory = _memory(generation.filter_bytes)
        pieces = range(-(-len(memory) // _PIECE_BYTES))
        first = _base(generation.number) + _FILTER
        for start in pieces[::_PIECES_AT_ONCE]:
            own = [first + i for i in pieces[start : start + _PIECES_AT_ONCE]]
            data = b"".join(self._store.band_blocks(own))
            if len(data) != min(len(own) * _PIECE_BYTES, len(memory) - memory.tell()):
                raise damage_error(
                    self._store.path, f"the filter of generation {generation.number}"
                )
            memory.write(data)
        return memory

    def _current(self) -> _Filters:
        """Return what look-ups work with from now on; filters that are of no use are released."""
        own = self.note.generations
        self._memory = {each.number: self._memory[each.number] for each in own}
        return _Filters(
            np.array([address_of(memory) for memory in self._memory.values()], np.int64),
            np.array([each.lines for each in own], np.int64),
            np.array([each.blocks for each in own], np.int64),
            np.array([_base(each.number) for each in own], np.int64),
            np.array([each.shape for each in own], np.int64).reshape(-1, 4),
        )


def thaw(store: Store) -> None:
    """Remove all that is frozen; the next one to open the index reads its keys.

    Raises:
        StoreUnavailable: the disk refuses.
    """
    store.put_note(_NOTE, b"")
    store.drop_bands([(0, _base(_RUNS + 1))])


def generations_to_merge(generations: Sequence[Generation]) -> list[Generation]:
    """Return those of the lowest level that has so many, unless they are large."""
    for level in sorted({each.level for each in generations}):
        own = [each for each in generations if each.level == level]
        if len(own) >= MERGED and sum(each.count for each in own) <= MERGED_MAX:
            return own
    return []


def _select_rows(postings: Postings, first: int, end: int) -> Postings:
    """Return the postings of the rows in [first, end); others have been dropped."""
    words, starts = postings
    rows = words & np.uint64(ROWS_MAX - 1)
    there = (rows >= first) & (rows < end)
    if there.all():
        return postings
    before = np.append(0, np.cumsum(there))
    return Postings(words[there], before[starts])


def _words(blocks: Sequence[bytes], generation: Generation) -> tuple[Keys, Places]:
    """Return the words of blocks of a generation, and where those of each begin, and the end."""
    data, limits = join_blocks(blocks)
    ends = np.zeros(len(limits), np.int64)
    words = np.empty(8 * len(data) // generation.shape.bits, np.uint64)
    unpack(data, limits, generation.shape, words, ends)
    return words[: ends[-1]], ends


def read_generation(store: Store, generation: Generation) -> Iterator[int]:
    """Read all that a generation has; yield how many bytes that are, part by part.

    Raises:
        StoreDamaged: it cannot be read, or there is more or less of it than was noted.
    """
    base, count, size = _base(generation.number), 0, 0
    at_once = PART_SEGMENTS * generation.blocks
    for first in range(base, base + SEGMENTS * generation.blocks, at_once):
        blocks = store.band_blocks(range(first, first + at_once))
        count += sum(8 * len(block) // generation.shape.bits for block in blocks)
        yield sum(map(len, blocks))
    for i in range(-(-generation.filter_bytes // _PIECE_BYTES)):
        [piece] = store.band_blocks([base + _FILTER + i])
        size += len(piece)
        yield len(piece)
    if (count, size) != (generation.count, generation.filter_bytes):
        raise damage_error(store.path, f"generation {generation.number} of its bands")
