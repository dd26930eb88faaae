"""The key table: which rows are posted under a key, for all that has left the head, in memory.

A posting is a word: 32 bits of its key, then its row. The key's top 8 bits choose one of 256
segments, the 32 after them are in the word, so 40 bits of a key are told apart here; what is found
is compared with the rest by whoever needs to be sure (stored_lookup.py).

A segment is a hash table whose words are in order (probing.py). A word is enough to find its home
again: a segment grows without reading a key, by a fifth, and the segments grow one after another,
not all at once.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import numpy as np

from streamer.index.postings import SEGMENTS, Keys, Places, Postings
from streamer.index.probing import find, insert, merge, sorted_words, take_words

_SLOTS_MIN = 256
_GROWTH = 1.2
_LOAD_MAX = 0.8  # more, and both a look and a posting that comes in take a third longer
_MARGIN = 512  # slots behind the last home, for words that are moved on; the last stays free


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
        self._shared = _memory(int(self._ends.sum()))
        self._memory: list[mmap.mmap | None] = [None] * SEGMENTS
        self._addresses = _address(self._shared) + 8 * (np.cumsum(self._ends) - self._ends)

    @property
    def count(self) -> int:
        """Return how many postings it holds."""
        return int(self._counts.sum())

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its segments."""
        return 8 * int(self._ends.sum())

    def fill(self, flushes: Sequence[Postings], segments: range) -> None:
        """Take all postings of flushes in some segments, which are empty."""
        addresses = np.array([words.ctypes.data for words, _ in flushes], np.int64)
        starts = np.stack([starts for _, starts in flushes])
        for segment in segments:
            count = int(np.diff(starts[:, segment : segment + 2]).sum())
            slots = slots_for(segment, count)
            words = sorted_words(addresses, starts, segment, slots)
            self._grow(segment, words, slots, _MARGIN)

    def add(self, postings: Postings, segments: range) -> None:
        """Add the postings of some segments."""
        words, starts = postings
        done, new = np.zeros(SEGMENTS, np.int64), np.diff(starts)
        for segment in segments:
            count = int(self._counts[segment] + new[segment])
            if count > _LOAD_MAX * self._slots[segment]:
                brought = words[starts[segment] : starts[segment + 1]]
                self._grow(segment, brought, slots_for(segment, count), _MARGIN)
                done[segment] = new[segment]
        left = list(segments)
        while left:
            columns = self._addresses, self._slots, self._ends, self._counts
            insert(columns, words, starts, segments.start, segments.stop, done)
            left = [segment for segment in segments if done[segment] < new[segment]]
            for segment in left:  # many words have the greatest tags: more room behind them
                slots = int(self._slots[segment])
                margin = 2 * (int(self._ends[segment]) - slots)
                self._grow(segment, words[:0], slots, margin)

    def _grow(self, segment: int, new: Keys, slots: int, margin: int) -> None:
        """Give a segment so many slots, and new words, which are in order.

        The system moves its memory: new memory takes the system far longer than its words take to
        be placed again.
        """
        old = self._emptied(segment, int(self._counts[segment]))
        self._resize(segment, slots, margin)
        while not merge(old, new, self._addresses[segment], slots, slots + margin):
            margin *= 2
            self._emptied(segment, len(old) + len(new))
            self._resize(segment, slots, margin)
        self._counts[segment] += len(new)

    def _emptied(self, segment: int, words_max: int) -> Keys:
        """Free all slots of a segment; return the words that it had, in order."""
        words = np.empty(words_max + 1, np.uint64)
        return words[: take_words(self._addresses[segment], self._ends[segment], words)]

    def _resize(self, segment: int, slots: int, margin: int) -> None:
        """Give a segment that has no words so many slots."""
        memory = self._memory[segment]
        if memory is None:
            memory = self._memory[segment] = _memory(slots + margin)
        else:
            memory.resize(8 * (slots + margin))
        self._addresses[segment], self._slots[segment] = _address(memory), slots
        self._ends[segment] = slots + margin

    def find(self, keys: Keys) -> tuple[Places, Places]:
        """Return (the place of a key, a row) for each posting: by place, rows ascending."""
        room = len(keys)
        while True:
            places, rows = np.empty(room, np.int64), np.empty(room, np.int64)
            found = find(self._addresses, self._slots, keys, places, rows)
            if found <= room:
                return places[:found], rows[:found]
            room = found


def _memory(slots: int) -> mmap.mmap:
    """Return memory for free slots, which goes back to the system as soon as it is dropped."""
    return mmap.mmap(-1, 8 * slots, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _address(memory: mmap.mmap) -> int:
    return int(np.frombuffer(memory, np.uint64).ctypes.data)
