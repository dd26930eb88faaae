"""A shard that is given records of pages, and what it asks of pages that were flushed."""

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamer.index.messages import CONFIG, IndexSettings, Keys, Output, Pages, Record
from streamer.index.ports import FlushedRows, FoundUrls, Hits, KeptRows, Lookup
from streamer.index.shard import Shard
from streamer.index.url_versions import url_keys
from streamer.sketch.resemblance import SKETCH_WORDS
from tests.helpers.serial_index import Judged, judged

SOURCE = "pages:0"


class MemoryLookup:
    """Flushed rows and postings in dictionaries: the plain form of StoredLookup."""

    def __init__(self) -> None:
        self.postings: dict[int, list[int]] = defaultdict(list)
        self.kept: dict[int, tuple[npt.NDArray[np.uint64], int, bytes, int]] = {}
        self.sets: dict[int, bytes] = {}
        self.versions: dict[int, bytes] = {}
        self.flushes = 0

    def add(self, flushed: FlushedRows) -> None:
        """Take up what a shard has flushed."""
        sketches = flushed.sketches.copy()  # or it changes with the shard's memtable
        for i, row in enumerate(flushed.rows.tolist()):
            time = int(flushed.times[i])
            self.kept[row] = (sketches[i], int(flushed.refs[i]), flushed.urls[i], time)
            self.sets[row] = flushed.shingles[i] if flushed.shingles else b""
            for bit, key in enumerate(flushed.keys[i].tolist()):
                if int(flushed.masks[i]) >> bit & 1:
                    self.postings[key].append(row)
        if flushed.versions is not None:
            self.versions |= flushed.versions.versions
        self.flushes += 1

    @property
    def first_row(self) -> int | None:
        """Return the lowest row that was flushed."""
        return min(self.kept, default=None)

    def find(self, keys: Keys, flushes: int = 0) -> Hits:
        """Return the postings of `keys`."""
        assert self.flushes >= flushes
        flat = keys.reshape(-1).tolist()
        places = [place for place, key in enumerate(flat) if key in self.postings]
        lists = [sorted(self.postings[flat[place]]) for place in places]
        starts = np.cumsum([0, *map(len, lists)])
        return Hits(
            np.array(places, np.int64),
            starts.astype(np.int64),
            np.array([row for rows in lists for row in rows], np.int64),
            self.flushes,
        )

    def rows(self, rows: npt.NDArray[np.int64]) -> KeptRows:
        """Return the rows of these numbers, in that order."""
        found = [self.kept[row] for row in rows.tolist()]
        sketches = np.array([sketch for sketch, *_ in found], np.uint64)
        return KeptRows(
            sketches.reshape(len(found), SKETCH_WORDS),
            [ref for _, ref, *_ in found],
            [url for *_, url, _ in found],
            np.array([time for *_, time in found], np.int64),
        )

    def shingles(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        """Return the sets of these rows."""
        return [self.sets[row] for row in rows.tolist()]

    def urls(self, urls: list[bytes], flushes: int = 0) -> FoundUrls:
        """Return the newest versions of URLs."""
        assert self.flushes >= flushes
        keys = url_keys(urls, b"")
        return FoundUrls(urls, keys, [self.versions.get(key) for key in keys], self.flushes)


class Flush(Protocol):
    """Moves what the shard hands out to where its look-up finds it."""

    def __call__(self, flushed: FlushedRows) -> None:
        """Take what the shard hands out."""


def said(output: Output | None) -> list[Judged]:
    """Return the verdicts in an output."""
    return [] if output is None else judged(output.verdicts)


def page_record(pages: Pages, start: int, end: int) -> Record:
    """Return the record of the pages whose ordinals are `start` up to `end`."""
    return Record(SOURCE, start, end, np.arange(start, end), pages.take(range(start, end)))


class MemoryIndex:
    """A shard; `verdicts` are all that it has given, `outputs` the same in blocks."""

    def __init__(self, settings: IndexSettings, bands: int) -> None:
        self.memory = MemoryLookup()
        self._bands = bands
        self.verdicts: list[Judged] = []
        self.outputs: list[Output] = []
        self._start(b"", self.memory, self.memory.add)
        self.shard.apply(Record(CONFIG, 0, 1, np.zeros(1, np.int64), settings))

    def _start(self, state: bytes, lookup: Lookup, flush: Flush) -> None:
        self.shard = Shard(self._bands, lookup, state=state, memtable_capacity=16)
        self._flush = flush

    def use(self, lookup: Lookup, flush: Flush) -> None:
        """Start the shard again over another look-up."""
        self._start(self.shard.state(), lookup, flush)

    def restart(self) -> None:
        """Flush, and go on with a new shard that knows the flushed state only."""
        self.flush()
        self._start(self.shard.state(), self.shard.lookup, self._flush)

    def flush(self) -> None:
        """Flush the shard."""
        self._flush(self.shard.begin_flush())
        self.shard.end_flush()

    def take(self, record: Record) -> list[Judged]:
        """Give the shard a record; return the verdicts."""
        output = self.shard.apply(record)
        if output is not None:
            self.outputs.append(output)
        found = said(output)
        self.verdicts += found
        return found

    def give(self, pages: Pages, start: int, end: int) -> list[Judged]:
        """Give the shard a record of pages; return the verdicts."""
        return self.take(page_record(pages, start, end))

    def run(
        self, pages: Pages, choose: Callable[[int], int], flush_now: Callable[[], bool]
    ) -> list[Judged]:
        """Give all pages in records of chosen sizes; flush in between where `flush_now` says so."""
        at = 0
        while at < len(pages):
            end = min(len(pages), at + 1 + choose(7))
            self.give(pages, at, end)
            at = end
            if flush_now():
                self.flush()
        return self.verdicts
