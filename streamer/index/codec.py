"""The bytes of the store: keys that sort the way we read, and packed values.

    key                                              value
    seq u64 | POSTINGS | shard u8 | block u32        postings of one block (postings.py)
    seq u64 | ROWS     | shard u8 | block u32        8 rows: refs, sketches, marks, URLs
    seq u64 | NUMBERS  | shard u8 | 0                the row numbers of a flush, if they have gaps
    seq u64 | 0xFF                                   the meta record: all state, as MessagePack

Big-endian, so the store's order is the order of `seq`, the number of the step that brought the
entry. Files therefore never overlap, the store never has to merge them, and the last key of all is
the meta record of the newest step: to open an index is to read its last entry. Postings come before
all else, because they lie in files of their own, which go as a whole when runs are merged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.sketch.compact import SKETCH_BYTES, SKETCH_WORDS

FORMAT = 1  # of everything in this file; an index of another format is refused
ROWS_A_BLOCK = 8  # about 3.2 kB: one page is read for the sake of one row

POSTINGS, ROWS, NUMBERS = 1, 2, 3
_META = 0xFF


class RunMeta(msgspec.Struct):
    """A run: the sorted postings of one flush, or of several merged ones."""

    seq: int
    level: int
    bits: int
    postings: int


class FlushMeta(msgspec.Struct):
    """The rows that one flush brought; `dense` if they are first_row .. last_row without gaps.

    `keys` is how many keys a row has at its shard.
    """

    seq: int
    first_row: int
    last_row: int
    rows: int
    keys: int
    dense: bool


class ShardMeta(msgspec.Struct):
    """What the store knows of one shard, and the shard's own state as it packed it."""

    runs: list[RunMeta] = []
    flushes: list[FlushMeta] = []
    state: bytes = b""


class StoreMeta(msgspec.Struct):
    """The newest file's meta record: the whole state of an index that is not rows or postings.

    `identity` names what must fit before anything is read; `owner` is the caller's own state;
    `garbage` are the (shard, seq) of runs whose postings have been merged and are to be deleted.
    """

    format: int
    identity: dict[str, str | int | float]
    seq: int
    shards: list[ShardMeta]
    garbage: list[tuple[int, int]] = []
    owner: bytes = b""


def entry_key(seq: int, shard: int, kind: int, number: int = 0) -> bytes:
    """Return the key of a block."""
    return struct.pack(">QBBI", seq, kind, shard, number)


def entry_prefix(seq: int, shard: int, kind: int) -> bytes:
    """Return what the keys of a file's blocks of one kind begin with."""
    return struct.pack(">QBB", seq, kind, shard)


def meta_key(seq: int) -> bytes:
    """Return the key of a file's meta record: the last of its keys."""
    return struct.pack(">QB", seq, _META)


def is_meta_key(key: bytes) -> bool:
    """Tell whether `key` is a meta record's."""
    return len(key) == struct.calcsize(">QB") and key[-1] == _META


def pack_rows(
    refs: npt.NDArray[np.uint64],
    sketches: npt.NDArray[np.uint64],
    marks: npt.NDArray[np.uint32],
    urls: Sequence[bytes],
) -> Iterator[bytes]:
    """Yield the row blocks of rows in order."""
    ends = np.cumsum([0, *map(len, urls)])
    starts = np.repeat(ends[:-1:ROWS_A_BLOCK], ROWS_A_BLOCK)[: len(urls)]
    columns = (
        refs.astype("<u8").tobytes(),
        sketches.tobytes(),
        marks.tobytes(),
        (ends[1:] - starts).astype("<u4").tobytes(),
    )
    sizes = [len(column) // max(1, len(urls)) * ROWS_A_BLOCK for column in columns]
    for block, start in enumerate(range(0, len(urls), ROWS_A_BLOCK)):
        yield b"".join(
            (
                *(
                    column[block * size : (block + 1) * size]
                    for column, size in zip(columns, sizes, strict=True)
                ),
                *urls[start : start + ROWS_A_BLOCK],
            )
        )


class RowBlock:
    """A row block as read; rows are named by their place in it, and have `keys` marks each."""

    def __init__(self, value: bytes, rows: int, keys: int) -> None:
        self._value = value
        self._rows = rows
        self._keys = keys
        self._marks = (8 + SKETCH_BYTES) * rows
        self._ends = self._marks + 4 * keys * rows

    def sketch(self, place: int) -> npt.NDArray[np.uint64]:
        """Return the sketch as uint64[33]."""
        return np.frombuffer(
            self._value, np.uint64, SKETCH_WORDS, 8 * self._rows + SKETCH_BYTES * place
        )

    def marks(self, place: int) -> npt.NDArray[np.uint32]:
        """Return the marks of the keys that the row has postings under, as uint32[keys]."""
        return np.frombuffer(
            self._value, np.uint32, self._keys, self._marks + 4 * self._keys * place
        )

    def ref(self, place: int) -> int:
        """Return the page ref."""
        return int(struct.unpack_from("<Q", self._value, 8 * place)[0])

    def url(self, place: int) -> bytes:
        """Return the URL."""
        base = self._ends + 4 * self._rows
        end = struct.unpack_from("<I", self._value, self._ends + 4 * place)[0]
        start = struct.unpack_from("<I", self._value, self._ends + 4 * place - 4)[0] if place else 0
        return self._value[base + start : base + end]
