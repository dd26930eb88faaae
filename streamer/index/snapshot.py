"""A shard's state as bytes: everything that is neither a row nor a posting in the store.

It goes into the same atomic step as the rows, so that rows, marks, counters, undecided and held
pages are always those of one moment.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.index.records import Pages
from streamer.index.settings import IndexSettings

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("refs", np.uint64),
    ("keys", np.uint64),
    ("sketches", np.uint64),
    ("distinct", np.uint8),
    ("tokens", np.uint32),
    ("text_bytes", np.int64),
)


class PackedPages(msgspec.Struct):
    """Pages as MessagePack: the columns' bytes in the order of Pages."""

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


class Snapshot(msgspec.Struct):
    """The state of a shard.

    `marks`: how far each source is read. `sent`: how many items each destination was given. `held`:
    for the row of an undecided page, the pages that wait for it, in order.
    """

    settings: dict[str, Any] | None
    marks: dict[str, int]
    sent: dict[str, int]
    applied: int
    next_row: int
    refused: int
    undecided: Undecided
    held: list[tuple[int, list[PackedPages]]]


def pack_pages(pages: Pages) -> PackedPages:
    """Return pages as bytes."""
    columns = [getattr(pages, name).astype(kind, copy=False).tobytes() for name, kind in _COLUMNS]
    return PackedPages(columns, pages.urls, pages.message_keys, pages.carried)


def unpack_pages(packed: PackedPages) -> Pages:
    """Return the pages that were packed."""
    count = len(packed.urls)
    # Copied, since a kernel is compiled anew for arrays that cannot be written.
    columns: list[npt.NDArray[Any]] = [
        np.frombuffer(data, kind).copy()
        for data, (_, kind) in zip(packed.columns, _COLUMNS, strict=True)
    ]
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
