"""An index with all of its shards, open for reading: of one folder, or of a worker's folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamer.errors import StoreMismatch
from streamer.index.codec import ShardMeta, StoreMeta
from streamer.model import Location, split_ref
from streamer.run.catalogue import stored_catalogue
from streamer.run.index_folder import Identity, first_shard, read_meta, shard_folders
from streamer.run.stages import Locate
from streamer.stored.store import Store


class IndexPart(NamedTuple):
    """Shard `number` of `shards` of an index, the one at `place` in its store."""

    store: Store
    place: int
    number: int
    shards: int

    @property
    def meta(self) -> ShardMeta:
        """Return what the newest flush says of the shard."""
        assert self.store.meta is not None, "it is read of a flush"
        return self.store.meta.shards[self.place]


class WholeIndex:
    """An index that is open for reading.

    Attributes:
        parts: its shards, by number.
        stores: with what their newest flush says.
        locate: returns the place of a page ref.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        """Open the index in `folder`; a worker's does not know its topic of pages, `topic` is it.

        Raises:
            StoreDamaged: something of it is missing, or cannot be read.
            StoreMismatch: it is a part of one, or of another format.
            StoreUnavailable: there is none, or it has no flush yet.
        """
        self.folder = folder
        self.parts: list[IndexPart] = []
        self.stores: list[tuple[Store, StoreMeta]] = []
        try:
            for name in shard_folders(folder):
                store, meta = read_meta(folder / name)
                self.stores.append((store, meta))
                shards, first = int(meta.identity["shards"]), first_shard(name)
                for place in range(len(meta.shards)):
                    self.parts.append(IndexPart(store, place, first + place, shards))
            meta = self.stores[0][1]
            self.identity: Identity = meta.identity
            self.locate = _locator(self.stores[0][0], meta, topic)
            _check_whole(folder, self.parts)
        except BaseException:
            self.close()
            raise
        self.parts.sort(key=lambda part: part.number)

    def close(self) -> None:
        """Close its stores."""
        for store, _ in self.stores:
            store.close()


def _check_whole(folder: Path, parts: Sequence[IndexPart]) -> None:
    wanted = [*range(parts[0].shards)]
    if sorted(part.number for part in parts) != wanted:
        raise StoreMismatch(
            f"{folder} has {len(parts)} of the {len(wanted)} shards of an index. Name the folder "
            "that has all of them, as shard-0, shard-1 and so on."
        )


def _locator(store: Store, meta: StoreMeta, topic: str) -> Locate:
    if "entries" in msgspec.msgpack.decode(meta.owner):
        return stored_catalogue(store, meta).locator()
    return lambda ref: Location(topic, *split_ref(ref))
