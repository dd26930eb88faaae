"""An index that is open for reading: an index's folder, or a worker's with one index in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from streamer.index.codec import ShardState, StoreMeta, unpack_state
from streamer.index.forgetting import Forgetting
from streamer.model import Location, split_ref
from streamer.run.catalogue import read_catalogue
from streamer.run.index_folder import Identity, folder_of, read_meta
from streamer.run.stages import Locate
from streamer.stored.rows import ScannedRows, scan_rows
from streamer.stored.store import Store


class ReadIndex:
    """An index that is open for reading.

    Attributes:
        store, meta: with what its newest flush says.
        identity: what it was made with.
        locate: returns the place of a page ref.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        """Open the index in `folder`; a worker's does not know its topic of pages, `topic` is it.

        Raises:
            StoreDamaged: something of it is missing, or cannot be read.
            StoreMismatch: it is of another format, or the folder has several.
            StoreUnavailable: there is none, or it has no flush yet.
        """
        self.folder = folder
        self.store, self.meta = read_meta(folder_of(folder))
        self.identity: Identity = self.meta.identity
        try:
            self.locate = _locator(self.store, self.meta, topic)
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> ShardState:
        """Return the state of its shard as of the newest flush."""
        return unpack_state(self.meta.state)

    def answering_rows(self, progress: Callable[[int], None]) -> Iterator[ScannedRows]:
        """Yield the rows that answer: `progress` gets how many were read."""
        read = 0
        for scanned in scan_rows(self.store, Forgetting(self.state.forgotten)):
            yield scanned
            read += len(scanned.rows.refs)
            progress(read)

    def close(self) -> None:
        """Close its store."""
        self.store.close()


def _locator(store: Store, meta: StoreMeta, topic: str) -> Locate:
    if "entries" in msgspec.msgpack.decode(meta.owner):
        return read_catalogue(store, meta).locator()
    return lambda ref: Location(topic, *split_ref(ref))
