"""The records of a shard's log, `<index>.bands.<i>`, as bytes; and an index's position in its log.

A record is one MessagePack array: a head that says which interval of which source it covers, and
the items in columns, as the bytes of arrays. Nothing is compressed, since sketches and hashes do
not compress. A record that a reader does not know stops it, be it of another version, another
fingerprint or other pages: skipping a record would lose its pages.

Nothing is ever reset. A position that the log does not have any more, a log or pages' topic that
was made again, or the folder of another shard end the start with the remedy.
"""

import hashlib
from dataclasses import dataclass, fields
from operator import methodcaller
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.errors import StoreMismatch
from streamer.index.messages import Forget, IndexSettings, Items, Pages, Record, Term
from streamer.sketch.resemblance import SKETCH_WORDS

WIRE_VERSION = 7  # a record of another one is refused

_PAGES, _CONFIG, _FORGET = 1, 2, 3


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """What all records of an index's logs have in common.

    `fingerprint` is that of the signature settings and the key, `origin` the id of the topic that
    the pages are in: a topic made again has another one, and its offsets name other pages. With
    `per_partition`, each log is of the pages of one partition, else of all.
    """

    fingerprint: str
    origin: str
    per_partition: bool = False


class _RecordHead(msgspec.Struct, array_like=True):
    version: int
    fingerprint: str
    origin: str
    per_partition: bool
    source: str
    start: int
    end: int
    numbers: bytes
    kind: int
    items: msgspec.Raw

    @property
    def identity(self) -> LogIdentity:
        """Return what it has in common with all records of the index."""
        return LogIdentity(self.fingerprint, self.origin, self.per_partition)


_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError)

_encoder = msgspec.msgpack.Encoder()
_decode_version = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_head = msgspec.msgpack.Decoder(_RecordHead).decode


def _array_of(kind: Any, data: bytes) -> npt.NDArray[Any]:  # noqa: ANN401 - an NDArray[...]
    """Return a column of this type; copied, or numba compiles another version of kernels."""
    return np.frombuffer(data, get_args(get_args(kind)[1])[0]).copy()


# The columns of Pages by name: each array as its bytes, by the type that it is declared with.
pack_pages = msgspec.msgpack.Encoder(enc_hook=methodcaller("tobytes")).encode
_decode_pages = msgspec.msgpack.Decoder(Pages, dec_hook=_array_of).decode
_decode_forget = msgspec.msgpack.Decoder(tuple[list[Term], str]).decode


def pack_record(record: Record, identity: LogIdentity) -> bytes:
    """Return a record as bytes; equal records give equal bytes."""
    items = record.items
    packed: Any
    if isinstance(items, Pages):
        kind, packed = _PAGES, msgspec.Raw(pack_pages(items))
    elif isinstance(items, Forget):
        kind, packed = _FORGET, (items.terms, items.ask)
    else:
        kind, packed = _CONFIG, items.model_dump()
    head = _RecordHead(
        WIRE_VERSION,
        identity.fingerprint,
        identity.origin,
        identity.per_partition,
        record.source,
        record.start,
        record.end,
        record.numbers.astype("<i8").tobytes(),
        kind,
        msgspec.Raw(_encoder.encode(packed)),
    )
    return _encoder.encode(head)


def unpack_record(data: bytes | None, identity: LogIdentity | None = None) -> Record:
    """Return the record in `data`, of the index with this identity (None: of whichever).

    Raises:
        StoreMismatch: another version wrote it, or one with other settings or for another topic; or
            its contents are damaged.
    """
    head = _head(data)
    if identity is not None:
        _check(head.identity, identity)
    try:
        numbers = np.frombuffer(head.numbers, "<i8").astype(np.int64)
        items = _items(head)
        count = 1 if isinstance(items, IndexSettings) else len(items)
        if len(numbers) != count:
            raise ValueError(f"it has {count} items and {len(numbers)} numbers")
    except _UNREADABLE as error:
        cause = " ".join(str(error).split()) or repr(error)
        raise StoreMismatch(
            f"The log's record of {head.source} from {head.start} to {head.end} has contents that "
            f"cannot be read: {cause}. Another program wrote it, or it is damaged: restore the "
            "log, or use another --index-name."
        ) from error
    return Record(head.source, head.start, head.end, numbers, items)


def identity_in(data: bytes) -> LogIdentity:
    """Return the identity that a record carries.

    Raises:
        StoreMismatch: as `unpack_record`.
    """
    return _head(data).identity


def _head(value: bytes | None) -> _RecordHead:
    data = value or b""
    try:
        version = msgspec.msgpack.decode(_decode_version(data)[0], type=int)
        if version == WIRE_VERSION:
            return _decode_head(data)
    except (*_UNREADABLE, IndexError) as error:
        raise StoreMismatch(
            "The log contains a record that streamer did not write. Use another --index-name."
        ) from error
    raise StoreMismatch(
        f"The log contains a record of version {version}, this program reads {WIRE_VERSION}. Run "
        "the version that wrote it, or use another --index-name."
    )


def _check(found: LogIdentity, wanted: LogIdentity) -> None:
    if found.fingerprint != wanted.fingerprint:
        raise StoreMismatch(
            f"The log was written with the fingerprint {found.fingerprint}, the settings here "
            f"give {wanted.fingerprint}. Give all workers of an index the same --key-file and "
            "signature settings (--method, its options, --canonical, --text, --exact, what --rules "
            "say of text), or use another --index-name."
        )
    if found.origin != wanted.origin:
        raise StoreMismatch(
            f"The log is of the pages in the topic with the id {found.origin}, the topic now has "
            f"the id {wanted.origin}: it was made again, and its offsets name other pages. Use "
            "another --index-name."
        )
    if found.per_partition != wanted.per_partition:
        how = "with" if found.per_partition else "without"
        raise StoreMismatch(
            f"The log was begun {how} --per-partition. Go on as it was begun, or use another "
            "--index-name."
        )


def unpack_pages(data: bytes) -> Pages:
    """Return the pages of a record.

    Raises:
        msgspec.MsgspecError: they are damaged.
        ValueError: a column has not as many entries as there are pages.
    """
    pages = _decode_pages(data)
    count = len(pages)
    pages.keys = pages.keys.reshape(count, -1 if count else 0)
    pages.sketches = pages.sketches.reshape(count, SKETCH_WORDS if count else 0)
    columns = (getattr(pages, each.name) for each in fields(pages))
    if any(column is not None and len(column) != count for column in columns):
        raise ValueError(f"a column has more or fewer than {count} entries, one a page")
    return pages


def _items(head: _RecordHead) -> Items:
    if head.kind == _PAGES:
        return unpack_pages(head.items)
    if head.kind == _FORGET:
        return Forget(*_decode_forget(head.items))
    if head.kind != _CONFIG:
        raise ValueError(f"there is no kind {head.kind} of record")
    return IndexSettings.model_validate(msgspec.msgpack.decode(head.items))


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
    """Return a digest that distinguishes records."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ShardLog:
    """Which log it is: that of shard `number`, in the topic with the id `topic_id`."""

    number: int
    topic_id: str
    identity: LogIdentity


def check_bounds(path: Path | str, at: LogPosition, bounds: LogBounds) -> None:
    """Raise StoreMismatch unless the log goes on where the index in `path` is."""
    if bounds.end < at.offset:
        raise StoreMismatch(
            f"The log of shard {at.shard} ends at {bounds.end}, the index {path} is at "
            f"{at.offset}: the log has lost records. Restore it, or delete the index to rebuild it "
            "from what the log has."
        )
    if bounds.start > at.offset:
        raise StoreMismatch(
            f"The log of shard {at.shard} begins at {bounds.start}, the index {path} is "
            f"at {at.offset}: records between them have expired. Restore a newer snapshot of the "
            "index (`streamer restore`), or begin a new one with another --index-name."
        )
    if at.offset and bounds.before is not None and record_digest(bounds.before) != at.digest:
        raise StoreMismatch(
            f"The log of shard {at.shard} holds another record at {at.offset - 1} than the "
            f"index {path} has read there. Delete the index to rebuild it from this log."
        )


def read_position(data: bytes) -> LogPosition | None:
    """Return the position in an index's owner state; None: it is that of a replay."""
    try:
        return msgspec.msgpack.decode(data, type=LogPosition) if data else None
    except msgspec.MsgspecError:
        return None


def fitting_position(path: Path, data: bytes, wanted: LogPosition) -> LogPosition:
    """Return the stored position; raise StoreMismatch if it is in another log than `wanted`."""
    found = read_position(data)
    if found is None:
        raise StoreMismatch(f"A replay of files made the index {path}. Name another --index.")
    if found.shard != wanted.shard:
        raise StoreMismatch(
            f"The index {path} is that of shard {found.shard}, not of {wanted.shard}. Give each "
            "shard its own folder."
        )
    if found.origin != wanted.origin:
        raise StoreMismatch(
            f"The index {path} is of the topic with the id {found.origin}, the pages' topic now "
            f"has the id {wanted.origin}: it was made again, and its offsets name other pages. Use "
            "another --index-name and --index."
        )
    if found.log_id != wanted.log_id:
        raise StoreMismatch(
            f"The index {path} was built from another log (topic id {found.log_id}, it is "
            f"{wanted.log_id} now): the log was made again. Restore that log, or name an empty "
            "folder with --index, to build the index from the log that there is."
        )
    return found
