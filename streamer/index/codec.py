"""The bytes of the store: keys that sort the way we read, and packed values.

    key                                              value
    seq u64 | POSTINGS | shard u8                    the lengths of a flush's parts of postings
    seq u64 | BLOCKS   | shard u8                    the lengths of its row blocks
    seq u64 | NUMBERS  | shard u8                    its row numbers, if they have gaps
    seq u64 | 0xFF                                   the meta record: all state, as MessagePack

Big-endian, so the store's order is the order of `seq`, the number of the flush that brought the
entry. Files therefore never overlap, the store never has to merge them, and the last key of all is
the meta record of the newest flush: to open an index is to read its last entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

FORMAT = 3  # of this file, postings.py and row_blocks.py; an index of another format is refused

POSTINGS, BLOCKS, NUMBERS = 1, 2, 3
_META = 0xFF

Entries = Iterator[tuple[bytes, bytes]]  # keys and values, in the order of keys


class FlushMeta(msgspec.Struct):
    """The rows that one flush brought; `dense` if they are first_row .. last_row without gaps.

    `keys` is how many keys a row has at its shard, `postings` how many of all have room in buckets,
    `size` how many bytes it added to the shard's row file; those that it added to the postings file
    begin at `postings_start`, and are `postings_size`.
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


class ShardMeta(msgspec.Struct):
    """What the store knows of one shard, and the shard's own state as it packed it."""

    flushes: list[FlushMeta] = []
    state: bytes = b""


class StoreMeta(msgspec.Struct):
    """The newest file's meta record: the whole state of an index that is not rows or postings.

    `identity` names what must fit before anything is read; `owner` is the caller's own state.
    """

    format: int
    identity: dict[str, str | int | float]
    seq: int
    shards: list[ShardMeta]
    owner: bytes = b""


def entry_key(seq: int, shard: int, kind: int) -> bytes:
    """Return the key of what a flush brought of a shard, of one kind."""
    return struct.pack(">QBB", seq, kind, shard)


def meta_key(seq: int) -> bytes:
    """Return the key of a file's meta record: the last of its keys."""
    return struct.pack(">QB", seq, _META)


def is_meta_key(key: bytes) -> bool:
    """Tell whether `key` is a meta record's."""
    return len(key) == struct.calcsize(">QB") and key[-1] == _META
