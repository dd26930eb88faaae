"""All shards of an index in one process: records in, verdicts out, flushes when they are due.

Between two calls every shard is quiet: what one emits for another is applied at once, in the order
in which it was emitted. So no page is open between records, and one flush of all shards together is
a state of the whole index.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from streamer.index.flusher import Flusher
from streamer.index.head import HEAD_PAGES
from streamer.index.prefetch import Found, PrefetchedLookup
from streamer.index.shard import Shard
from streamer.index.stored_lookup import StoredLookup
from streamer.index.types import (
    CONFIG,
    VERDICTS,
    IndexSettings,
    Lookup,
    Pages,
    Record,
    Verdicts,
    shard_name,
    source_name,
)
from streamer.model import SEQUENCE_MASK
from streamer.run.index_folder import IndexFolder

RECORDS_BETWEEN_FLUSHES = 1 << 20  # bounds what a restart repeats where hardly a page is kept
SECONDS_BETWEEN_FLUSHES = 600.0  # what a killed run repeats of a slow input


class Detector:
    """Drive the shards of an open index.

    `clock` tells seconds; it decides when to flush, and the moment of a flush shows in no verdict.
    """

    def __init__(
        self,
        folder: IndexFolder,
        settings: IndexSettings,
        *,
        head_pages: int = HEAD_PAGES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._head_pages = head_pages
        self._clock = clock
        meta = folder.store.meta
        self.owner_state = meta.owner if meta else b""
        bands = int(folder.identity["bands"])
        states = [shard.state for shard in meta.shards] if meta else [b""] * settings.shards
        self._lookups = [StoredLookup(folder.store, i) for i in range(settings.shards)]
        self._prefetched = PrefetchedLookup(self._lookups[0])  # pages come to the first shard
        lookups: list[Lookup] = [self._prefetched, *self._lookups[1:]]
        self.shards = [
            Shard(i, settings.shards, bands, lookup, state=state, head_capacity=head_pages + 1024)
            for i, (lookup, state) in enumerate(zip(lookups, states, strict=True))
        ]
        self._flusher = Flusher(folder.store, folder.identity, self.shards, self._lookups)
        self._flushed_at = clock()
        self._records = 0
        self.configure(settings)

    def configure(self, settings: IndexSettings) -> None:
        """Put a CONFIG record into the log if these settings are not in force."""
        for shard in self.shards:
            if shard.settings != settings:
                mark = shard.marks.get(CONFIG, 0)
                shard.apply(Record(CONFIG, mark, mark + 1, np.array([mark]), settings))

    def position(self, source: int) -> int:
        """Return the first sequence number of a source that is not applied yet."""
        return self.shards[0].marks.get(source_name(source), 0)

    def look_up(self, pages: Pages) -> Found:
        """Find what the first shard will ask of the store for these pages; in any thread."""
        return self._prefetched.ahead(self.shards[0].own_keys(pages))

    def judge(
        self,
        source: int,
        start: int,
        end: int,
        pages: Pages,
        found: Found | None = None,
        numbers: npt.NDArray[np.int64] | None = None,
    ) -> list[Verdicts]:
        """Apply the pages read in [start, end) of a source; return their verdicts.

        `found` is what `look_up` gave for the same pages, however long ago; `numbers` are theirs in
        the source, where their refs are of other ones.
        """
        if found is not None:
            self._flusher.let_go(found.hits.flushes)
        self._prefetched.expect(found)
        if numbers is None:
            numbers = (pages.refs & np.uint64(SEQUENCE_MASK)).astype(np.int64)
        queue = deque([(0, Record(source_name(source), start, end, numbers, pages))])
        verdicts: list[Verdicts] = []
        while queue:
            number, record = queue.popleft()
            for output in self.shards[number].apply(record):
                if isinstance(output.items, Verdicts):
                    assert output.destination == VERDICTS, output.destination
                    verdicts.append(output.items)
                else:
                    other = int(output.destination.removeprefix(shard_name(0)[:-1]))
                    sequence = np.arange(output.start, output.end)
                    queue.append(
                        (
                            other,
                            Record(
                                shard_name(number), output.start, output.end, sequence, output.items
                            ),
                        )
                    )
        self._records += end - start
        return verdicts

    @property
    def flush_is_due(self) -> bool:
        """Tell whether a head is full, or records or time enough have passed."""
        return (
            any(shard.kept_in_head >= self._head_pages for shard in self.shards)
            or self._records >= RECORDS_BETWEEN_FLUSHES
            or (self._records > 0 and self._clock() - self._flushed_at >= SECONDS_BETWEEN_FLUSHES)
        )

    def begin_flush(self, owner_state: Callable[[], bytes]) -> None:
        """Begin to write all state in one atomic step.

        `owner_state` is called in another thread; when it returns, the outputs that its bytes tell
        of must be on disk.

        Raises:
            StoreUnavailable: the flush before failed; the index is what it was.
        """
        self._flusher.begin(owner_state)
        self._records = 0
        self._flushed_at = self._clock()

    def flush(self, owner_state: bytes) -> None:
        """Write all state, and see the end of it.

        Raises:
            StoreUnavailable: the index is what it was.
        """
        self.begin_flush(lambda: owner_state)
        self.finish()

    def finish(self) -> None:
        """Wait for what was begun.

        Raises:
            StoreUnavailable: the index is what it was.
        """
        self._flusher.finish()

    def stop(self) -> None:
        """End the threads beside the judgement, when they are done with what was begun."""
        self._flusher.close()

    def close(self) -> None:
        """Release the index; what was not flushed is repeated by the next run."""
        self.stop()
        self._folder.store.close()
