"""Frozen keys: what does not fit the key table, in the database, behind filters in memory.

A full table becomes a generation (generations.py): blocks of its words on disk, and a Bloom filter
in memory. So a key that is not there costs one look into memory for each generation, and a read in
one of two hundred cases.

A known page has all its keys in one generation, and most keys have one row there. So one key is
read, and the row that it leads to. Where that row's half (row_blocks.py) agrees with another key of
the page, and the filter says that the other key has one row, the other key need not be read.

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

import itertools
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import msgspec
import numpy as np

from streamer.errors import damage_error
from streamer.index import postings
from streamer.index.codec import BANDS, Entry, entry_key
from streamer.index.postings import KEYS_END, LINE_BYTES, TAG_BITS, Keys, Places, Postings, Probed
from streamer.stored import generations
from streamer.stored.generations import FILES, PIECE_BYTES, RUNS, Generation, Note, first_block
from streamer.stored.key_table import KeyTable, address_of, memory_of
from streamer.stored.row_blocks import PADDING, join_blocks
from streamer.stored.rows import StoredRows
from streamer.stored.store import Store

_PIECES_AT_ONCE = 16


class _Filters(NamedTuple):
    """What `probe` takes of all generations, and their shapes, int64[n, 4]."""

    addresses: Places
    lines: Places
    blocks: Places
    bases: Places
    ranges: Places
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
    refuses, and nothing is lost; and `Stopped`, once it is `stopped`.

    Attributes:
        note: what is frozen.
        stopped: what goes on in another thread is to end soon; what it has not noted is done again.
    """

    def __init__(
        self, store: Store, rows: StoredRows, alone: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._store = store
        self._rows = rows
        self._alone = alone
        self.stopped = False
        self._is_swept = False
        self.note = generations.read_note(store)
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
            postings.explain(keys, others, groups, starts, self._rows.halves(rows, own_keys), out)
            out[out >= 0] = rows[out[out >= 0]]
        return out

    def _probe(self, keys: Keys) -> Probed:
        room = len(keys) if len(self._filters.bases) else 0
        by = self._filters[:5]
        found = postings.filled(4, room, lambda out: postings.probe(*by, keys, Probed(*out)))
        return Probed(*found)

    def _read(self, keys: Keys, probed: Probed) -> tuple[Places, Places, Places]:
        """Return each posting's place, row, and which of `probed` it was found for."""
        if not len(probed.places):
            return probed.places, probed.places, probed.places
        numbers, blocks = np.unique(probed.blocks, return_inverse=True)
        data, limits = join_blocks(self._store.band_blocks(numbers.tolist()))
        shapes = self._filters.shapes

        def find(out: Places) -> int:
            own = out[0], out[1]
            return postings.find_in_blocks(data, limits, shapes, keys, probed, blocks, own)

        at, rows = postings.filled(2, len(blocks), find)
        return probed.places[at], rows, at

    # ---- changes, in one thread ------------------------------------------------------------------

    def take_up_runs(self) -> None:
        """Update the slots of rows that are frozen."""
        for number, _ in self.note.runs:
            [data] = self._store.band_blocks([first_block(RUNS) + number])
            self._rows.slots.put(np.frombuffer(data, np.int64).reshape(3, -1))

    def freeze(self, table: KeyTable, slot: int, release: Callable[[], None]) -> None:
        """Make a generation of a table to which nothing is added any more: all rows before a slot.

        `release` is called when it is found here, while nobody looks.
        """
        self._sweep()
        before, first_slot = self.note, self._store.known.first_slot
        runs = self._rows.slots.runs_from(before.slot, slot)
        number = before.next
        self._store.write_bands([[(entry_key(BANDS, first_block(RUNS) + number), runs.tobytes())]])
        rows = int(runs[0].min(initial=1 << 62)), int(runs[1].max(initial=0))  # all that are left
        new = generations.make_generation(number, 0, table.count, rows)
        parts = generations.parts_of_table(table, new)
        for step in range(new.steps):
            self._write_step(new, step, parts)
        left = [run for run in before.runs if run[1] > first_slot]
        first_row = self._rows.slots.first_row
        others = [each for each in before.generations if each.last_row >= first_row]
        there = [*others, new] if new.count else others
        after = Note(slot, number + 1, there, [*left, (number, slot)])
        self._change(after, release)

    def merge(self) -> bool:
        """Merge a step of four generations of a level into one; return whether there is one."""
        before = self.note
        old, new = generations.next_merge(before.generations)
        if not old:
            return False
        if new is None:
            first_row = max(self._rows.slots.first_row, min(each.first_row for each in old))
            rows = first_row, max(each.last_row for each in old) + 1
            count = sum(each.count for each in old)
            new = generations.make_generation(before.next, old[0].level + 1, count, rows)
            new.high = 0
        step = new.high * new.steps // KEYS_END
        end = KEYS_END // new.steps * (step + 1)
        new = msgspec.structs.replace(new, high=end)
        left = [msgspec.structs.replace(each, low=end) for each in old]
        self._write_step(new, step, self._merge(old, new.parts(step), left))
        changed = {each.number for each in (*old, new)}
        there = [each for each in before.generations if each.number not in changed]
        if end < KEYS_END:
            there += [*left, new]
        elif new.count:
            there.append(new)
        number = max(before.next, new.number + 1)
        after = msgspec.structs.replace(before, next=number, generations=there)
        self._change(after, lambda: None)
        return True

    def _change(self, after: Note, release: Callable[[], None]) -> None:
        """Note what is there from now on, and remove what is not when nobody reads it."""
        before, base = self.note, first_block(RUNS)
        runs = {number for number, _ in before.runs} - {number for number, _ in after.runs}
        dropped = [(base + number, base + number + 1) for number in runs]
        left = {each.number: each for each in after.generations}
        for each in before.generations:
            if now := left.get(each.number):
                dropped += generations.passed_blocks(each, now)
            else:
                dropped.append(self._range(each.number))
        self._store.put_note(generations.NOTE, msgspec.msgpack.encode(after))
        with self._alone():
            self.note = after
            self._filters = self._current()
            release()
        for each in after.generations:
            size = (each.low * each.lines >> TAG_BITS) * LINE_BYTES // mmap.PAGESIZE * mmap.PAGESIZE
            if size:
                self._memory[each.number].madvise(mmap.MADV_DONTNEED, 0, size)
        self._store.drop_bands(dropped)

    def _sweep(self) -> None:
        """Remove what a kill has left: all generations that are not noted."""
        if not self._is_swept:
            noted = sorted(each.number for each in self.note.generations)
            limits = [-1, *noted, RUNS]
            gaps = [(low + 1, high) for low, high in itertools.pairwise(limits) if low + 1 < high]
            base = [(self._range(low)[0], self._range(high)[0]) for low, high in gaps]
            self._store.drop_bands(base)
            self._is_swept = True

    def _range(self, number: int) -> tuple[int, int]:
        return first_block(number), first_block(number + 1)

    def _write_step(self, new: Generation, step: int, parts: Iterator[Postings]) -> None:
        """Write the postings of a step's parts, and fill its filter."""
        if not step:
            self._memory[new.number] = _memory(new.step_filter_bytes * new.steps)
        memory, size = self._memory[new.number], new.step_filter_bytes
        ranges, parts_a_file = list(new.parts(step)), postings.PARTS // FILES

        def blocks_of(file: int) -> Iterator[Entry]:
            for keys in ranges[file * parts_a_file : (file + 1) * parts_a_file]:
                if self.stopped:
                    raise Stopped
                yield from self._blocks(new, keys, next(parts))

        def filter_pieces() -> Iterator[Entry]:
            own = memory[step * size : (step + 1) * size]
            for i, number in enumerate(new.filter_numbers(step)):
                yield entry_key(BANDS, number), own[i * PIECE_BYTES : (i + 1) * PIECE_BYTES]

        self._store.write_bands([*map(blocks_of, range(FILES)), filter_pieces()])

    def _blocks(self, new: Generation, keys: tuple[int, int], added: Postings) -> Iterator[Entry]:
        """Add the postings of a range of keys to the filter, and yield its blocks."""
        (words, starts), address = added, address_of(self._memory[new.number])
        numbers = new.numbers(*keys)
        begin = keys[0] >> TAG_BITS, numbers.start - first_block(new.number)
        limits, ends = np.zeros((2, len(numbers) + 1), np.int64)
        postings.cut(words, starts, begin, new.blocks, new.lines, address, limits[1:])
        size = len(words) * new.shape.bits // 8 + len(numbers) + len(PADDING)
        out = np.zeros(size, np.uint8)
        postings.pack(words, limits, new.shape, begin[1], out, ends)
        new.count += len(words)
        data = out.tobytes()
        for number, (low, high) in zip(numbers, itertools.pairwise(ends.tolist()), strict=True):
            yield entry_key(BANDS, number), data[low:high]

    def _merge(
        self, old: Sequence[Generation], parts: Iterator[tuple[int, int]],
        left: Sequence[Generation],
    ) -> Iterator[Postings]:  # fmt: skip
        """Yield the postings of some ranges of keys, in order; `left` is counted down by them.

        Those of rows that have been dropped are left out.
        """
        first_row = self._rows.slots.first_row
        for keys in parts:
            read = [generations.read_words(self._store, each, *keys) for each in old]
            for each, by_segment in zip(left, read, strict=True):
                each.count -= sum(map(len, by_segment))
            rows = generations.rows_of
            there = [
                [words[rows(words, each.first_row) >= first_row] for words in by_segment]
                for each, by_segment in zip(old, read, strict=True)
            ]
            merged = [np.concatenate(own) for own in zip(*there, strict=True)]
            for words in merged:
                words.sort(kind="stable")  # which takes what is in order as it is
            starts = np.append(0, np.cumsum([len(words) for words in merged]))
            yield Postings(np.concatenate(merged), starts)

    def _read_filter(self, generation: Generation) -> mmap.mmap:
        size = generation.step_filter_bytes
        memory = _memory(size * generation.steps)
        for step in generation.steps_there:
            memory.seek(step * size)
            for numbers in generations.batched(generation.filter_numbers(step), _PIECES_AT_ONCE):
                memory.write(b"".join(self._store.band_blocks(numbers)))
            if memory.tell() != (step + 1) * size:
                what = f"the filter of generation {generation.number}"
                raise damage_error(self._store.path, what)
        return memory

    def _current(self) -> _Filters:
        """Return what look-ups work with from now on; filters that are of no use are released."""
        own = self.note.generations
        self._memory = {each.number: self._memory[each.number] for each in own}
        return _Filters(
            np.array([address_of(memory) for memory in self._memory.values()], np.int64),
            np.array([each.lines for each in own], np.int64),
            np.array([each.blocks for each in own], np.int64),
            np.array([first_block(each.number) for each in own], np.int64),
            np.array([(each.low, each.high) for each in own], np.int64).reshape(-1, 2),
            np.array([each.shape for each in own], np.int64).reshape(-1, 4),
        )
