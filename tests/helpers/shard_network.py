"""Shards of one index, their logs between them, and what they ask of pages that were flushed."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamer.index.messages import CONFIG, Output, Pages, Record, Verdicts
from streamer.index.ports import FoundUrls, Hits, KeptRows, Lookup
from streamer.index.shard import Shard
from streamer.index.url_versions import url_keys
from streamer.sketch.resemblance import SKETCH_WORDS
from tests.helpers.serial_index import Judged, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from streamer.index.messages import Keys
    from streamer.index.ports import FlushedRows
    from streamer.index.settings import IndexSettings

SOURCE = "pages:0"


class MemoryLookup:
    """Flushed rows and postings in dictionaries: the plain form of StoredLookup."""

    def __init__(self) -> None:
        self.postings: dict[int, list[int]] = defaultdict(list)
        self.kept: dict[int, tuple[npt.NDArray[np.uint64], int, bytes, int]] = {}
        self.sets: dict[int, bytes] = {}
        self.posted: dict[int, tuple[npt.NDArray[np.uint64], int]] = {}
        self.versions: dict[int, bytes] = {}
        self.flushes = 0

    def add(self, flushed: FlushedRows) -> None:
        """Take up what a shard has flushed."""
        sketches = flushed.sketches.copy()  # or it changes with the shard's memtable
        for i, row in enumerate(flushed.rows.tolist()):
            time = int(flushed.times[i])
            self.kept[row] = (sketches[i], int(flushed.refs[i]), flushed.urls[i], time)
            self.sets[row] = flushed.shingles[i] if flushed.shingles else b""
            self.posted[row] = flushed.keys[i].copy(), int(flushed.masks[i])
            for bit, key in enumerate(flushed.keys[i].tolist()):
                if int(flushed.masks[i]) >> bit & 1:
                    self.postings[key].append(row)
        if flushed.versions is not None:
            self.versions |= flushed.versions.versions
        self.flushes += 1

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

    def keys(self, row: int) -> tuple[Keys, int]:
        """Return the keys of a row, and which of them it is posted under."""
        return self.posted[row]

    def urls(self, urls: list[bytes], flushes: int = 0) -> FoundUrls:
        """Return the newest versions of URLs."""
        assert self.flushes >= flushes
        keys = url_keys(urls, b"")
        return FoundUrls(urls, keys, [self.versions.get(key) for key in keys], self.flushes)


class Flush(Protocol):
    """Moves what the shards hand out to where their lookups find it."""

    def __call__(self, flushed: list[FlushedRows]) -> None:
        """Take what each shard hands out, in the shards' order."""


def said(outputs: Iterable[Output]) -> list[Judged]:
    """Return the verdicts among outputs."""
    return [
        verdict
        for output in outputs
        if isinstance(output.items, Verdicts)
        for verdict in judged(output.items)
    ]


def page_record(pages: Pages, start: int, end: int, *, source: str = SOURCE) -> Record:
    """Return the record of the pages whose ordinals are `start` up to `end`."""
    return Record(source, start, end, np.arange(start, end), pages.take(range(start, end)))


class Network:
    """Shards with a queue between any two; `verdicts` are in the order of their publication."""

    def __init__(self, settings: IndexSettings, bands: int, *, memtable_capacity: int = 16) -> None:
        self.memory = [MemoryLookup() for _ in range(settings.shards)]
        self._bands = bands
        self._memtable_capacity = memtable_capacity
        self._settings = settings
        self._start([b""] * settings.shards, self.memory, self._flush_to_memory)
        for number in range(settings.shards):
            self.shards[number].apply(Record(CONFIG, 0, 1, np.zeros(1, np.int64), settings))

    def _start(self, states: list[bytes], lookups: Iterable[Lookup], flush: Flush) -> None:
        count = self._settings.shards
        self.shards = [
            Shard(
                i,
                count,
                self._bands,
                lookup,
                state=state,
                memtable_capacity=self._memtable_capacity,
            )
            for i, (lookup, state) in enumerate(zip(lookups, states, strict=True))
        ]
        self._flush = flush
        self.logs: list[deque[Record]] = [deque() for _ in range(count)]
        self.verdicts: list[Judged] = []
        self.outputs: list[Output] = []

    def _flush_to_memory(self, flushed: list[FlushedRows]) -> None:
        for lookup, rows in zip(self.memory, flushed, strict=True):
            lookup.add(rows)

    def use(self, lookups: Iterable[Lookup], flush: Flush) -> None:
        """Start the shards anew over other look-ups."""
        states = [shard.state() for shard in self.shards]
        self._start(states, lookups, flush)

    def restart(self) -> None:
        """Flush, and go on with new shards that know the flushed state only."""
        self.flush()
        logs, verdicts, outputs = self.logs, self.verdicts, self.outputs
        states = [shard.state() for shard in self.shards]
        self._start(states, [shard.lookup for shard in self.shards], self._flush)
        self.logs, self.verdicts, self.outputs = logs, verdicts, outputs

    def flush(self) -> None:
        """Flush all shards at one moment."""
        self._flush([shard.begin_flush() for shard in self.shards])
        for shard in self.shards:
            shard.flushed()

    def step(self, number: int) -> None:
        """Let one shard take the oldest record of its log."""
        for output in self.shards[number].apply(self.logs[number].popleft()):
            self.outputs.append(output)
            if isinstance(output.items, Verdicts):
                self.verdicts += judged(output.items)
                continue
            self.logs[output.destination].append(output.record(number))

    def waiting(self) -> list[int]:
        """Return the shards whose logs are not read to the end."""
        return [number for number, log in enumerate(self.logs) if log]

    def give(self, pages: Pages, start: int, end: int) -> list[Judged]:
        """Give shard 0 a record of pages, let all shards come to rest, return the verdicts."""
        before = len(self.verdicts)
        self.logs[0].append(page_record(pages, start, end))
        while waiting := self.waiting():
            self.step(waiting[-1])
        return self.verdicts[before:]

    def run(
        self, pages: Pages, choose: Callable[[int], int], flush_now: Callable[[], bool]
    ) -> list[Judged]:
        """Give all pages in records of chosen sizes, shards in a chosen order, flushes as told."""
        at = 0
        while at < len(pages) or self.waiting():
            if at < len(pages) and (not self.waiting() or choose(2)):
                end = min(len(pages), at + 1 + choose(7))
                self.logs[0].append(page_record(pages, at, end))
                at = end
            else:
                waiting = self.waiting()
                self.step(waiting[choose(len(waiting))])
            if flush_now():
                self.flush()
        return self.verdicts
