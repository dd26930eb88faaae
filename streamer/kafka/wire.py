"""The records of a shard's log as bytes: `<index>.bands.<i>`.

A record is one MessagePack array: a head that says what interval of which source it covers, and the
items in columns, whose bytes are the arrays themselves. Nothing is compressed, since sketches and
hashes do not compress. What a reader does not know, a later version, another fingerprint or other
pages, stops it: passing over a record would lose its pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from streamer.errors import StoreMismatch
from streamer.index.records import Decisions, Items, Pages, Record
from streamer.index.settings import IndexSettings
from streamer.index.snapshot import PackedPages, pack_pages, unpack_pages

WIRE_VERSION = 1

_PAGES, _DECISIONS, _CONFIG = 1, 2, 3


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """What all records of an index's logs have in common.

    `fingerprint` is that of the signature settings and the key, `origin` the id of the topic that
    the pages are in: a topic made anew has another one, and its offsets name other pages.
    """

    fingerprint: str
    origin: str


class _Head(msgspec.Struct, array_like=True):
    version: int
    fingerprint: str
    origin: str
    source: str
    start: int
    end: int
    numbers: bytes
    kind: int
    items: msgspec.Raw


class _Decisions(msgspec.Struct, array_like=True):
    refs: bytes
    kept: bytes


_encoder = msgspec.msgpack.Encoder()
_decode_version = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_pages = msgspec.msgpack.Decoder(PackedPages).decode
_decode_decisions = msgspec.msgpack.Decoder(_Decisions).decode


def pack_record(record: Record, identity: LogIdentity) -> bytes:
    """Return a record as bytes; equal records give equal bytes."""
    items = record.items
    packed: Any
    if isinstance(items, Pages):
        kind, packed = _PAGES, pack_pages(items)
    elif isinstance(items, Decisions):
        kind, packed = _DECISIONS, _Decisions(items.refs.tobytes(), items.kept.tobytes())
    else:
        kind, packed = _CONFIG, items.model_dump()
    head = _Head(
        WIRE_VERSION,
        identity.fingerprint,
        identity.origin,
        record.source,
        record.start,
        record.end,
        record.numbers.astype("<i8").tobytes(),
        kind,
        msgspec.Raw(_encoder.encode(packed)),
    )
    return _encoder.encode(head)


def unpack_record(data: bytes, identity: LogIdentity | None = None) -> Record:
    """Return the record in `data`, of the index with this identity (None: of whichever).

    Raises:
        StoreMismatch: a later version wrote it, or one with other settings or for another topic.
    """
    head = _head(data)
    if identity is not None:
        _check(LogIdentity(head.fingerprint, head.origin), identity)
    numbers = np.frombuffer(head.numbers, "<i8").astype(np.int64)
    return Record(head.source, head.start, head.end, numbers, _items(head))


def identity_in(data: bytes) -> LogIdentity:
    """Return the identity that a record carries.

    Raises:
        StoreMismatch: as `unpack_record`.
    """
    head = _head(data)
    return LogIdentity(head.fingerprint, head.origin)


def _head(data: bytes) -> _Head:
    try:
        parts = _decode_version(data)
        version = msgspec.msgpack.decode(parts[0], type=int)
        if version == WIRE_VERSION:
            return _decode_head(data)
    except (msgspec.MsgspecError, IndexError) as error:
        raise StoreMismatch(
            "The log holds a record that is none of ours. Use another --index-name."
        ) from error
    raise StoreMismatch(
        f"The log holds a record of version {version}, this program reads {WIRE_VERSION}. "
        "Run the version that wrote it; stop it cleanly before a change."
    )


def _check(found: LogIdentity, wanted: LogIdentity) -> None:
    if found.fingerprint != wanted.fingerprint:
        raise StoreMismatch(
            f"The log was written with the fingerprint {found.fingerprint}, the settings here "
            f"give {wanted.fingerprint}. Give all workers of an index the same --key-file and "
            "signature settings (--method, its options, --canonical), or use another --index-name."
        )
    if found.origin != wanted.origin:
        raise StoreMismatch(
            f"The log is of the pages in the topic with the id {found.origin}, the topic now has "
            f"the id {wanted.origin}: it was made anew, and its offsets name other pages. "
            "Use another --index-name."
        )


def _items(head: _Head) -> Items:
    if head.kind == _PAGES:
        return unpack_pages(_decode_pages(head.items))
    if head.kind == _DECISIONS:
        packed = _decode_decisions(head.items)
        return Decisions(
            np.frombuffer(packed.refs, np.uint64), np.frombuffer(packed.kept, np.bool_)
        )
    return IndexSettings.model_validate(msgspec.msgpack.decode(head.items))
