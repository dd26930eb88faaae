"""Another number of shards in the simulator: at rest, by the real code, with rules that break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from streamer.index.codec import pack_state, unpack_state
from streamer.index.messages import Record
from streamer.upkeep.reshard import Joined, Old, write
from tests.simulation.owner import Owner, copy_disk


class _BeforeRest(Old):
    """Nobody waits until no page is on its way."""

    def check_at_rest(self) -> None:
        pass


class _NoPositions(Old):
    """Where the pages were read is forgotten."""

    def state(self, number: int, shards: int) -> bytes:
        return _changed(super().state(number, shards), positions={})


class _NoWatermark(Old):
    """How old the pages are that are to come is forgotten."""

    def state(self, number: int, shards: int) -> bytes:
        return _changed(super().state(number, shards), watermark=0)


class _ContentOnly(Old):
    """Pages are posted under their contents alone."""

    def joined(self) -> Iterator[Joined]:
        for part in super().joined():
            part.posted[:, :-1] = False
            yield part


def _changed(state: bytes, **values: object) -> bytes:
    return pack_state(msgspec.structs.replace(unpack_state(state), **values))


FLAWS: dict[str, type[Old]] = {
    "reshard-before-rest": _BeforeRest,
    "reshard-no-positions": _NoPositions,
    "reshard-no-watermark": _NoWatermark,
    "reshard-content-only": _ContentOnly,
}


def is_at_rest(owners: list[list[Owner]], logs: list[list[Record]], flaws: frozenset[str]) -> bool:
    """Return whether all logs are read, and nothing is on its way."""
    newest = [crowd[-1] for crowd in owners]
    if not all(owner.live for owner in newest):
        return False
    told = {owner.shard.settings for owner in newest}
    if len(told) > 1 or None in told:
        return False
    if "reshard-before-rest" in flaws:
        return True
    return all(
        not owner.busy and not owner.shard.open_pages and owner.shard.applied == len(log)
        for owner, log in zip(newest, logs, strict=True)
    )


def reshard(owners: list[list[Owner]], shards: int, folder: Path, flaws: frozenset[str]) -> Path:
    """Stop all owners and write their index with so many shards; return its folder."""
    for number, crowd in enumerate(owners):
        newest = crowd[-1]
        newest.flush()
        for owner in crowd:
            owner.store.close()
        copy_disk(newest.disk, folder / "old" / f"shard-{number}")
    kind = next((FLAWS[name] for name in FLAWS if name in flaws), Old)
    with closing(kind(folder / "old")) as old:
        old.check_at_rest()
        write(old, shards, folder / "new", [b""] * shards, lambda _rows: None)
    return folder / "new"
