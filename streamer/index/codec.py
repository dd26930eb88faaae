"""The bytes of the database: keys that sort by what they are of, and packed values.

    key                                 value
    FLUSH   | shard u8 | seq u64        what a flush brought of a shard, as MessagePack
    BLOCKS  | shard u8 | seq u64        the lengths of its row blocks
    NUMBERS | shard u8 | seq u64        its row numbers, if they have gaps
    0xFF                                all other state, as MessagePack

`seq` is the number of the flush, big-endian. The entries of a flush are never written again, the
state is: there is one, that of the newest flush, under the last key of all. It says how many
flushes each shard has, so that a database which lacks some is not taken for a younger one.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import numpy.typing as npt

FORMAT = 4  # of this file, postings.py and row_blocks.py; an index of another format is refused

FLUSH, BLOCKS, NUMBERS = 1, 2, 3
STATE_KEY = b"\xff"
_KEY = ">BBQ"

Lengths = npt.NDArray[np.int64]


class FlushMeta(msgspec.Struct, array_like=True):
    """The rows that one flush brought; `dense` if they are first_row .. last_row without gaps.

    `keys` is how many keys a row has at its shard, `postings` how many of all have room in buckets,
    `size` how many bytes it added to the shard's row file; those that it added to the postings file
    begin at `postings_start`, and are `postings_size`, in parts as long as `part_lengths` says.
    """

    seq: int
    first_row: int
    last_row: int
    rows: int
    keys: int
    postings: int
    size: int
    postings_start: int
    postings_size: int
    dense: bool
    part_lengths: bytes = b""


class ShardMeta(msgspec.Struct):
    """What the store knows of one shard, and the shard's own state as it packed it."""

    flushes: list[FlushMeta] = []
    state: bytes = b""


class StoreMeta(msgspec.Struct):
    """All state of an index that is not rows or postings, as of its newest flush, `seq`.

    `identity` names what must fit before anything is read; `owner` is the caller's own state.
    """

    format: int
    identity: dict[str, str | int | float]
    seq: int
    shards: list[ShardMeta]
    owner: bytes = b""


class StoredShard(msgspec.Struct):
    """A shard in the state: how many of the database's flushes are its own, and its own state."""

    flushes: int
    state: bytes


class StoredState(msgspec.Struct):
    """A StoreMeta as it is stored: without what the flushes brought, which have their entries."""

    format: int
    identity: dict[str, str | int | float]
    seq: int
    shards: list[StoredShard]
    owner: bytes


def entry_key(kind: int, shard: int, seq: int) -> bytes:
    """Return the key of what a flush brought of a shard, of one kind."""
    return struct.pack(_KEY, kind, shard, seq)


def entry_place(key: bytes) -> tuple[int, int, int]:
    """Return the kind, the shard and the flush of an entry's key.

    Raises:
        struct.error: it is no entry's key.
    """
    kind, shard, seq = struct.unpack(_KEY, key)
    return kind, shard, seq


def pack_state(meta: StoreMeta) -> bytes:
    """Return the state that stands under STATE_KEY."""
    shards = [StoredShard(len(shard.flushes), shard.state) for shard in meta.shards]
    state = StoredState(meta.format, meta.identity, meta.seq, shards, meta.owner)
    return msgspec.msgpack.encode(state)


def format_of(value: bytes) -> object:
    """Return the format that a state says it has; any format's state is a map that has one.

    Raises:
        msgspec.MsgspecError: it is no state.
    """
    return msgspec.msgpack.decode(value, type=dict[str, object]).get("format")


def pack_lengths(lengths: Lengths) -> bytes:
    """Return the lengths of blocks as bytes."""
    return lengths.astype("<u4").tobytes()


def unpack_lengths(data: bytes) -> Lengths:
    """Return the lengths that were packed."""
    return np.frombuffer(data, "<u4").astype(np.int64)
