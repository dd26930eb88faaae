"""A fresh fold of one shard's log: the shard's own machine over an index in a scratch folder.

It needs no key, since signatures come from the log. Flushes keep its memory bounded, and their
moments show in no output.
"""

from __future__ import annotations

from pathlib import Path

from streamer.index.flusher import Flusher
from streamer.index.head import HEAD_PAGES
from streamer.index.records import Output, Record
from streamer.index.shard import Shard
from streamer.index.store import Store
from streamer.index.stored_lookup import StoredLookup


class FreshShard:
    """Folds records into an index in `folder`, which must be empty."""

    def __init__(
        self, folder: Path, number: int, shards: int, bands: int, head_pages: int = HEAD_PAGES
    ) -> None:
        self._head_pages = head_pages
        self._store = Store.open(folder / "store")
        lookup = StoredLookup(self._store, 0)
        self.shard = Shard(number, shards, bands, lookup, head_capacity=head_pages + 1024)
        self._flusher = Flusher(self._store, {}, [self.shard], [lookup])

    def apply(self, record: Record) -> list[Output]:
        """Apply a record; return what it makes the shard emit.

        Raises:
            StoreMismatch: as `Shard.apply`.
            StoreUnavailable: the scratch disk refuses.
        """
        outputs = self.shard.apply(record)
        if self.shard.kept_in_head >= self._head_pages:
            self._flusher.begin(lambda: b"")
        return outputs

    def close(self) -> None:
        """Release the scratch index."""
        self._flusher.close()
        self._store.close()
