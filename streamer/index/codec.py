"""The bytes of the database: keys that sort by what they are of, and packed values.

    key                                 value
    FLUSH   | shard u8 | seq u64        what a flush brought of a shard, as MessagePack
    BLOCKS  | shard u8 | seq u64        the lengths of its row blocks
    NUMBERS | shard u8 | seq u64        its row numbers, if they have gaps
    0xFF                                all other state, as MessagePack

`seq` is the number of the flush, big-endian. The entries of a flush are never written again, the
state is: there is one, that of the newest flush, under the last key of all. It says how many
flushes each shard has, so that a database which lacks some is not taken for a younger one.

A shard's state as bytes: everything that is neither a row nor a posting in the store.

It goes into the same atomic step as the rows, so that rows, positions, counters, undecided and held
pages are always those of one moment.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.index.types import IndexSettings, Pages

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("refs", np.uint64),
    ("keys", np.uint64),
    ("sketches", np.uint64),
    ("distinct", np.uint8),
    ("tokens", np.uint32),
    ("text_bytes", np.int64),
)


class PackedPages(msgspec.Struct):
    """Pages as MessagePack: the columns' bytes in the order of Pages; the last, if there is one."""

    columns: list[bytes]
    urls: list[bytes]
    message_keys: list[bytes | None]
    carried: list[bytes]


class Undecided(msgspec.Struct):
    """The head's undecided entries in columns, oldest first."""

    rows: bytes
    refs: list[int]
    keys: bytes
    masks: bytes
    sketches: bytes
    urls: list[bytes]


class Snapshot(msgspec.Struct, rename={"positions": "marks"}):
    """The state of a shard.

    `positions`: how far each source is read; stored under the name that it had first. `sent`: how
    many items each destination was given. `held`: for the row of an undecided page, the pages that
    wait for it, in order.
    """

    settings: dict[str, Any] | None
    positions: dict[str, int]
    sent: dict[str, int]
    applied: int
    next_row: int
    refused: int
    undecided: Undecided
    held: list[tuple[int, list[PackedPages]]]


def pack_pages(pages: Pages) -> PackedPages:
    """Return pages as bytes."""
    columns = [getattr(pages, name).astype(kind, copy=False).tobytes() for name, kind in _COLUMNS]
    if pages.main is not None:
        columns.append(pages.main.tobytes())
    return PackedPages(columns, pages.urls, pages.message_keys, pages.carried)


def unpack_pages(packed: PackedPages) -> Pages:
    """Return the pages that were packed."""
    count = len(packed.urls)
    # Copied, since a kernel is compiled anew for arrays that cannot be written.
    columns: list[npt.NDArray[Any]] = [
        np.frombuffer(data, kind).copy()
        for data, (_, kind) in zip(packed.columns[: len(_COLUMNS)], _COLUMNS, strict=True)
    ]
    main = packed.columns[len(_COLUMNS) :]
    refs, keys, sketches, distinct, tokens, text_bytes = columns
    return Pages(
        refs,
        keys.reshape(count, -1 if count else 0),
        sketches.reshape(count, -1 if count else 0),
        distinct,
        tokens,
        text_bytes,
        packed.urls,
        packed.message_keys,
        packed.carried,
        np.frombuffer(main[0], np.bool_).copy() if main else None,
    )


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes; equal states give equal bytes."""
    return msgspec.msgpack.encode(snapshot, order="deterministic")


def unpack_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot in `data`."""
    return msgspec.msgpack.decode(data, type=Snapshot)


def unpack_settings(settings: dict[str, Any] | None) -> IndexSettings | None:
    """Return the settings in a snapshot, None where the log has not given any yet."""
    return None if settings is None else IndexSettings.model_validate(settings)


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
