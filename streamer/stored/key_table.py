"""The key table: an in-memory hash table from keys to rows, for all rows that were flushed.

A posting is one word (postings.py): 32 bits of its key, then the number of its row. The key's top 8
bits choose one of 256 segments, and the 32 bits after them are in the word. So the table
distinguishes 40 bits of a key.
Callers that need certainty compare the rest (lookup.py).

Within a segment the words are in order. A word is enough to compute its home, so a segment grows
without its keys, by a fifth. The segments grow one after another, never all at once. Probing is
linear and ordered: homes ascend with the words, a word is stored at its home or after it, and a
free slot is greater than every word. So a search ends at the first greater word, about one cache
line from home however full the segment is (Amble and Knuth, Ordered hash tables, 1974). Words are
stored complemented, so that zeroed memory from the system is free slots.
"""

# A row is checked by the lower half of each of its keys. Otherwise another key's
# rows could make a bucket look full, and the time of a flush would show. Sorted runs behind Bloom
# filters, instead of the table, took 45 to 70 bytes of memory per kept page instead of 170, but at
# four million pages 6 us more per page, and half as much disk again.

import math
import mmap
from collections.abc import Sequence

import numpy as np

from streamer.index import postings
from streamer.index.postings import SEGMENTS, TAG_BITS, Keys, Places, home_of, segment_of, tag_of
from streamer.kernel import inline_kernel, kernel
from streamer.machine import int64, prefetch, put_word, uint64, word_at

FREE_SLOT = 0xFFFFFFFFFFFFFFFF  # no word: rows end before it
_LINE_SLOTS = 8  # of a cache line
_AHEAD = 12  # keys between what is asked for and what is read: as many as memory serves at once


@inline_kernel
def _read(address: int, slot: int) -> int:
    return uint64(~word_at(address, slot))


@inline_kernel
def _write(address: int, slot: int, word: int) -> None:
    put_word(address, slot, uint64(~word))


@kernel
def insert(
    columns: tuple[Places, Places, Places, Places], words: Keys, starts: Places, first: int,
    end: int, done: Places,
) -> None:  # fmt: skip
    """Insert the words of segments `first` up to `end`, those of segment i from starts[i] on.

    done[i] is how many of segment i are in already, and is counted up as counts[i] is; where a
    segment has no room at its end, the rest is left.
    """
    addresses, slots, ends, counts = columns
    for segment in range(first, end):
        address, size = addresses[segment], slots[segment]
        for i in range(starts[segment] + done[segment], starts[segment + 1]):
            if _read(address, ends[segment] - 2) != uint64(FREE_SLOT):
                break
            if i + _AHEAD < starts[segment + 1]:
                home = home_of(words[i + _AHEAD] >> uint64(TAG_BITS), size)
                prefetch(address, home)
                prefetch(address, home + _LINE_SLOTS)  # the next free slot is about as far
            _put(address, size, words[i])
            done[segment] += 1
            counts[segment] += 1


@inline_kernel
def _put(address: int, slots: int, word: int) -> None:
    """Put a word into a segment that has room for it, and move the greater ones after it on."""
    slot = home_of(word >> uint64(TAG_BITS), slots)
    while _read(address, slot) <= word:
        slot += 1
    while word != uint64(FREE_SLOT):
        moved = _read(address, slot)
        _write(address, slot, word)
        word = moved
        slot += 1


@kernel
def read_words(address: int, end: int, out: Keys, takes: bool) -> int:  # noqa: FBT001 - a kernel
    """Write the words of a segment to `out`, in order, and return their number.

    If it `takes` them, all slots are free then. `out` has room for one more. Free slots are skipped
    without a branch: where they are cannot be foreseen.
    """
    found = 0
    for slot in range(end):
        word = _read(address, slot)
        if takes:
            _write(address, slot, uint64(FREE_SLOT))
        out[found] = word
        found += word != uint64(FREE_SLOT)
    return found


@kernel
def merge(old: Keys, new: Keys, address: int, slots: int, end: int) -> bool:
    """Put words, both old and new ones in order, into a free segment; return whether they fit."""
    i = j = 0
    slot = int64(0)
    while slot < end - 1 and i + j < old.shape[0] + new.shape[0]:
        if j == new.shape[0] or (i < old.shape[0] and old[i] <= new[j]):
            word = old[i]
            i += 1
        else:
            word = new[j]
            j += 1
        slot = max(slot, home_of(word >> uint64(TAG_BITS), slots))
        _write(address, slot, word)
        slot += 1
    return bool(i + j == old.shape[0] + new.shape[0])


@kernel
def find(addresses: Places, slots: Places, keys: Keys, out_places: Places, out_rows: Places) -> int:
    """Write the place of a key and a row's number for each posting; return how many there are.

    Where there are more than the arrays hold, the rest is only counted.
    """
    found = 0
    count = keys.shape[0]
    for i in range(-_AHEAD, count):
        if i + _AHEAD < count:
            segment = segment_of(keys[i + _AHEAD])
            prefetch(addresses[segment], home_of(tag_of(keys[i + _AHEAD]), slots[segment]))
        if i < 0:
            continue
        segment, tag = segment_of(keys[i]), tag_of(keys[i])
        address, slot = addresses[segment], home_of(tag, slots[segment])
        while _read(address, slot) < tag << uint64(TAG_BITS):
            slot += 1
        word = _read(address, slot)
        while word >> uint64(TAG_BITS) == tag and word != uint64(FREE_SLOT):
            if found < out_places.shape[0]:
                out_places[found] = i
                out_rows[found] = int64(word & uint64(0xFFFFFFFF))
            found += 1
            slot += 1
            word = _read(address, slot)
    return found


_SLOTS_MIN = 256
_GROWTH = 1.2
_LOAD_MAX = 0.8  # more, and both a look and a posting that comes in take a third longer
_MARGIN = 512  # slots after the last home, for words that are moved on; the last stays free


def slots_for(segment: int, words: int) -> int:
    """Return the slots of a segment for so many words.

    The sizes of a segment go up by a fifth, and those of the next lie a little above: so at any
    time some segments have just grown and some are about to.
    """
    least = words / _LOAD_MAX / _SLOTS_MIN
    shift = segment / SEGMENTS
    steps = max(0, math.ceil(math.log(max(least, 1), _GROWTH) - shift))
    return math.ceil(_SLOTS_MIN * math.pow(_GROWTH, steps + shift))


class KeyTable:
    """Rows by key, for any number of postings.

    Any threads may find at once; one may add to a segment while nobody else uses it.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(SEGMENTS, np.int64)
        self._slots = np.array([slots_for(i, 0) for i in range(SEGMENTS)], np.int64)
        self._ends = self._slots + _MARGIN
        # One memory for all until each has grown: 256 small ones take long.
        self._shared = memory_of(8 * int(self._ends.sum()))
        self._memory: list[mmap.mmap | None] = [None] * SEGMENTS
        self._addresses = address_of(self._shared) + 8 * (np.cumsum(self._ends) - self._ends)

    @property
    def count(self) -> int:
        """Return how many postings it holds."""
        return int(self._counts.sum())

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its segments."""
        return 8 * int(self._ends.sum())

    def fill(self, parts: Sequence[postings.Postings], segments: range, expected: int) -> None:
        """Take the postings of parts in some segments; a part's need not be in order.

        The table is to have `expected` in the end, for which it has room at once.
        """
        for segment, words in zip(segments, postings.segment_words(parts, segments), strict=True):
            count = int(self._counts[segment]) + len(words)
            slots = slots_for(segment, max(count, expected // SEGMENTS))
            self._grow(segment, words, max(slots, int(self._slots[segment])), _MARGIN)

    def add(self, new: postings.Postings, segments: range) -> None:
        """Add the postings of some segments, which are in order."""
        words, starts = new
        done, counts = np.zeros(SEGMENTS, np.int64), np.diff(starts)
        for segment in segments:
            count = int(self._counts[segment] + counts[segment])
            if count > _LOAD_MAX * self._slots[segment]:
                added = words[starts[segment] : starts[segment + 1]]
                self._grow(segment, added, slots_for(segment, count), _MARGIN)
                done[segment] = counts[segment]
        left = list(segments)
        while left:
            columns = self._addresses, self._slots, self._ends, self._counts
            insert(columns, words, starts, segments.start, segments.stop, done)
            left = [segment for segment in segments if done[segment] < counts[segment]]
            for segment in left:  # many words have the greatest tags: more room after them
                slots = int(self._slots[segment])
                margin = 2 * (int(self._ends[segment]) - slots)
                self._grow(segment, words[:0], slots, margin)

    def words(self, segments: range) -> postings.Postings:
        """Return the postings of some segments, in order; starts are theirs, and the end."""
        part = slice(segments.start, segments.stop)
        starts = np.append(0, np.cumsum(self._counts[part]))
        words = np.empty(int(starts[-1]) + 1, np.uint64)
        for segment, start in zip(segments, starts.tolist(), strict=False):
            read_words(self._addresses[segment], self._ends[segment], words[start:], False)
        return postings.Postings(words[:-1], starts)

    def drop(self, rows: tuple[int, int], segments: range) -> None:
        """Remove the postings of rows before the first from some segments; others end before it."""
        for segment in segments:
            words = self._empty(segment, int(self._counts[segment]))
            numbers = (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
            left = words[postings.rows_before(rows[1], numbers) >= rows[0]]
            self._counts[segment] = 0
            self._resize(segment, slots_for(segment, len(left)), _MARGIN)
            self._grow(segment, left, int(self._slots[segment]), _MARGIN)

    def _grow(self, segment: int, new: Keys, slots: int, margin: int) -> None:
        """Give a segment so many slots, and new words, which are in order.

        The system moves its memory: new memory takes the system far longer than its words take to
        be placed again.
        """
        old = self._empty(segment, int(self._counts[segment]))
        self._resize(segment, slots, margin)
        while not merge(old, new, self._addresses[segment], slots, slots + margin):
            margin *= 2
            self._empty(segment, len(old) + len(new))
            self._resize(segment, slots, margin)
        self._counts[segment] += len(new)

    def _empty(self, segment: int, words_max: int) -> Keys:
        """Free all slots of a segment; return the words that it had, in order."""
        words = np.empty(words_max + 1, np.uint64)
        return words[: read_words(self._addresses[segment], self._ends[segment], words, True)]

    def _resize(self, segment: int, slots: int, margin: int) -> None:
        """Give a segment that has no words so many slots."""
        memory = self._memory[segment]
        if memory is None:
            memory = self._memory[segment] = memory_of(8 * (slots + margin))
        else:
            memory.resize(8 * (slots + margin))
        self._addresses[segment], self._slots[segment] = address_of(memory), slots
        self._ends[segment] = slots + margin

    def find(self, keys: Keys) -> tuple[Places, Places]:
        """Return (the place of a key, a row's number in its word) for each posting, by place."""
        columns = self._addresses, self._slots
        places, rows = postings.filled(
            2, len(keys), lambda out: find(*columns, keys, out[0], out[1])
        )
        return places, rows


def memory_of(size: int) -> mmap.mmap:
    """Return so many bytes, zero, which go back to the system as soon as they are dropped."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def address_of(memory: mmap.mmap) -> int:
    """Return where memory is."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
