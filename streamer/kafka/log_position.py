"""Where an index stands in its log, and whether the two still belong together.

Nothing is ever reset: a position that the log does not have any more, a log or pages that were made
anew, or the folder of another shard, end the start with the remedy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from streamer.errors import StoreMismatch
from streamer.kafka.wire import LogIdentity


class LogPosition(msgspec.Struct):
    """The owner's part of a store's state: which log it is a fold of, and up to where.

    `offset` is that of the first record not applied, `digest` the hash of the record before it.
    """

    origin: str
    log_id: str
    shard: int
    offset: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """What a log holds now: the offsets [start, end), and the record before the store's position.

    `before` is None where there is no such record.
    """

    start: int
    end: int
    before: bytes | None


def record_digest(data: bytes) -> str:
    """Return a digest that tells records apart."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ShardLog:
    """Which log it is: that of shard `number` of `shards`, in the topic with the id `topic_id`."""

    number: int
    shards: int
    topic_id: str
    identity: LogIdentity


def check_bounds(path: Path, at: LogPosition, bounds: LogBounds) -> None:
    """Raise StoreMismatch unless the log goes on where the index in `path` stands."""
    if bounds.end < at.offset:
        raise StoreMismatch(
            f"The log of shard {at.shard} ends at {bounds.end}, the index {path} stands at "
            f"{at.offset}: the log has lost records. Restore it, or delete the index to "
            "rebuild it from what the log has."
        )
    if bounds.start > at.offset:
        raise StoreMismatch(
            f"The log of shard {at.shard} begins at {bounds.start}, the index {path} stands "
            f"at {at.offset}: records between them have expired. Put back a newer copy of the "
            "index, or begin a new one with another --index-name."
        )
    if at.offset and bounds.before is not None and record_digest(bounds.before) != at.digest:
        raise StoreMismatch(
            f"The log of shard {at.shard} holds another record at {at.offset - 1} than the "
            f"index {path} has read there. Delete the index to rebuild it from this log."
        )


def stored_position(data: bytes) -> LogPosition | None:
    """Return the position in an index's owner state; None: it is that of a replay."""
    try:
        return msgspec.msgpack.decode(data, type=LogPosition) if data else None
    except msgspec.MsgspecError:
        return None


def fitting_position(path: Path, data: bytes, wanted: LogPosition) -> LogPosition:
    """Return the stored position; raise StoreMismatch if it is in another log than `wanted`."""
    found = stored_position(data)
    if found is None:
        raise StoreMismatch(
            f"The index {path} was made by a replay of files. Name another folder with --index."
        )
    if found.shard != wanted.shard:
        raise StoreMismatch(
            f"The index {path} is that of shard {found.shard}, not of {wanted.shard}. "
            "Give each shard its own folder."
        )
    if found.origin != wanted.origin:
        raise StoreMismatch(
            f"The index {path} is of the topic with the id {found.origin}, the pages' topic now "
            f"has the id {wanted.origin}: it was made anew, and its offsets name other pages. "
            "Use another --index-name and --index."
        )
    if found.log_id != wanted.log_id:
        raise StoreMismatch(
            f"The index {path} was built from another log (topic id {found.log_id}, it is "
            f"{wanted.log_id} now): the log was made anew. Delete the index to rebuild it."
        )
    return found
