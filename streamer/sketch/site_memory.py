"""What an index knows of sites: a table for each partition of a topic, or one for all pages.

Pages are signed in threads, some chunks before they are judged, and the text of a page depends on
the pages before it. So each chunk takes a turn when it is read, and the table learns chunks in the
order of their turns. What was learned and not judged can be taken out again: a flush stores the
table as of the pages that were judged, a question about a page changes nothing, and where chunks
are judged in another order than they were read, or some never, the table goes back and they are
signed again. `settle` notices that. So turns make signing fast, and are no condition of its being
right.
"""

# A flush takes out what is ahead, copies the parts of the table that changed since the last flush
# (1 KiB each), and puts it back. A pool begins work in the order of turns, so the turn that others
# wait for is always being worked on.

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamer.hosts import host_of
from streamer.sketch.scopes import keyed_hash
from streamer.text import furniture
from streamer.text.furniture import Furniture
from streamer.text.scan import Bytes
from streamer.text.site_pages import PageBlocks, Words

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

PART_BYTES = 1024  # of the table: what is stored together
_PART_ENTRIES = PART_BYTES // furniture.BUCKET_BYTES * furniture.WAYS


class SiteKeys:
    """Hashes of pages' hosts and URLs; those of hosts have the index's secret, if it is given."""

    def __init__(self, secret: bytes = b"") -> None:
        self._hash = keyed_hash(b"site", secret)

    def hosts(self, urls: Sequence[bytes]) -> Words:
        """Return a hash of the host of each URL, 0 where it has none."""
        hosts = (host_of(url.decode()).encode() for url in urls)
        return np.array([self._hash(host) or 1 if host else 0 for host in hosts], np.uint64)

    def urls(self, urls: Sequence[bytes]) -> Words:
        """Return a hash of 32 bits of each URL."""
        return np.array([zlib.crc32(url) for url in urls], np.uint64)


class _Learned(NamedTuple):
    """What the table learned in a turn: the writes that it made, and of how many pages."""

    turn: int
    before: Words
    pages: int


class TableParts(NamedTuple):
    """Parts of a table by their numbers, as of so many pages and a position in their source."""

    pages: int
    position: int
    parts: list[tuple[int, bytes]]


def parts_of(size_bytes: int) -> int:
    """Return how many parts a table of so many bytes has."""
    return max(1, size_bytes // PART_BYTES)


class SiteMemory:
    """A table of so many bytes; safe to use from several threads.

    Attributes:
        stored: bool[parts], whether a part was ever stored.
        position: where the last pages end that were judged, as given to `settle`.
    """

    def __init__(self, size_bytes: int, stored: TableParts | None = None, copies: int = 1) -> None:
        # A whole number of parts, so that each is stored alike.
        self._furniture = furniture.new_furniture(parts_of(size_bytes) * PART_BYTES)
        pages, self.position, parts = stored or TableParts(0, 0, [])
        self._furniture.clock[0] = pages
        self._parts = self._furniture.entries.reshape(-1, _PART_ENTRIES, 2)
        self.stored = np.zeros(len(self._parts), np.bool_)
        for number, data in parts:
            self.stored[number] = True
            self._parts[number] = np.frombuffer(data, "<u8").reshape(_PART_ENTRIES, 2)
        # Of each copy that is kept elsewhere: what changed since by pages that were judged.
        self._changed = np.zeros((copies, len(self._parts)), np.bool_)
        self._ahead: list[_Learned] = []  # in the order in which the table learned
        self._turns = 0
        self._waiting: set[int] = set()  # turns in which nothing was learned yet
        self._condition = threading.Condition()
        self._submitting = threading.Lock()

    # ---- ahead of the judge ----------------------------------------------------------------------

    def submit(
        self, pool: Executor, work: Callable[[_Item, int], _Result], item: _Item
    ) -> Future[_Result]:
        """Have a pool work on a chunk, which gets the next turn; items come in order of reading.

        The pool begins in the order of turns, so the one that all others wait for is at work.
        """
        with self._submitting:
            with self._condition:
                self._turns += 1
                turn = self._turns
                self._waiting.add(turn)
            future = pool.submit(work, item, turn)
        future.add_done_callback(lambda _: self._end_turn(turn))
        return future

    def _end_turn(self, turn: int) -> None:
        """Let those after a turn go on; where it was cancelled or failed, nothing was learned."""
        with self._condition:
            self._waiting.discard(turn)
            self._condition.notify_all()

    def learn(self, turn: int, own: PageBlocks) -> Bytes:
        """Learn a chunk's pages when it is their turn; return the repeats of their blocks."""
        with self._condition:
            self._condition.wait_for(lambda: turn == min(self._waiting, default=turn))
            repeats, learned = self._learn(turn, own)
            self._ahead.append(learned)
            self._end_turn(turn)
        return repeats

    def learn_judged(self, own: PageBlocks) -> Bytes:
        """Learn pages that are judged next, now; what was learned ahead is to be learned again."""
        with self._condition:
            for each in reversed(self._ahead):
                furniture.take_out(self._furniture.entries, each.before)
                self._furniture.clock[0] -= np.uint64(each.pages)
            self._ahead.clear()
            repeats, learned = self._learn(0, own)
            self._note(learned)
        return repeats

    def _learn(self, turn: int, own: PageBlocks) -> tuple[Bytes, _Learned]:
        count = int(own.ends[-1]) if len(own.ends) else 0
        repeats = np.empty(count, np.uint8)
        before = np.empty((count, 3), np.uint64)
        furniture.learn_pages(self._furniture, own, repeats, before)
        return repeats, _Learned(turn, before, len(own.ends))

    @contextmanager
    def as_judged(self) -> Iterator[Furniture]:
        """Give the table as of the pages that were judged; what is changed in it stays."""
        with self._condition:
            clock = self._furniture.clock
            for each in reversed(self._ahead):
                furniture.take_out(self._furniture.entries, each.before)
            pages = np.uint64(sum(each.pages for each in self._ahead))
            clock[0] -= pages
            try:
                yield self._furniture
            finally:
                for each in self._ahead:
                    furniture.put_back(self._furniture.entries, each.before)
                clock[0] += pages

    def repeats(self, own: PageBlocks) -> Bytes:
        """Return the repeats of the blocks of pages that came next; nothing changes."""
        with self.as_judged() as table:
            repeats, learned = self._learn(0, own)
            furniture.take_out(table.entries, learned.before)
            table.clock[0] -= np.uint64(learned.pages)
        return repeats

    # ---- with the judge --------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Return whether all that was learned is judged."""
        with self._condition:
            return not self._ahead and not self._waiting

    def settle(self, turn: int, position: int = 0) -> bool:
        """Note that the pages of a turn are judged next; return whether they were learned next.

        If not, they are to be signed again, with `learn_judged`. `position` is where they end.
        """
        with self._condition:
            if not self._ahead or self._ahead[0].turn != turn:
                return False
            self._note(self._ahead.pop(0))
            self.position = position
            return True

    def _note(self, learned: _Learned) -> None:
        self._changed[:, learned.before[:, 0] // np.uint64(_PART_ENTRIES)] = True

    def mark(self, copy: int, changed: npt.NDArray[np.bool_]) -> None:
        """Say of each part whether a copy is to get it with the next flush."""
        self._changed[copy] = changed

    def to_flush(self, copy: int = 0) -> TableParts:
        """Return what changed since this copy was written, as of the pages that were judged."""
        with self.as_judged() as table:
            numbers = np.flatnonzero(self._changed[copy])
            data = self._parts[numbers].astype("<u8").tobytes()
            self.stored[numbers] = True
            self._changed[copy] = False
            pages, position = int(table.clock[0]), self.position
        cut = (data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES))
        return TableParts(pages, position, list(zip(numbers.tolist(), cut, strict=True)))


class SiteTables:
    """The tables of an index, by number: one for each partition of a topic, 0 for all else."""

    def __init__(self, size_bytes: int, tables: Mapping[int, SiteMemory] | None = None) -> None:
        self._size = size_bytes
        self.by_number = {**(tables or {})}

    def of(self, number: int) -> SiteMemory:
        """Return a table, which is made if it is not there."""
        if number not in self.by_number:
            self.by_number.setdefault(number, SiteMemory(self._size))
        return self.by_number[number]

    def repeats(self, own: PageBlocks) -> Bytes:
        """Return the repeats of pages that came next, by the table that knows most of a block."""
        none = np.zeros(len(own.keys), np.uint8)
        most: Bytes = np.max(
            [none, *(each.repeats(own) for each in self.by_number.values())], axis=0
        )
        return most
