"""What the database holds, as bytes: the state, and the keys of its entries.

    key                        value
    "r" | block u64            eight rows (row_blocks.py)
    "k" | block u64            the keys of 512 rows, except what the rows have (row_blocks.py)
    "b" | number u64           frozen keys (frozen.py)
    "s" | slot u64             the set of shingles of a row (sketch/hash_sets.py), with --exact
    "u" | generation u64 | key u64   the newest version of a URL (url_versions.py)
    "c" | block u64            256 sources of the catalogue (run/catalogue.py)
    0xFF                       the state, as MessagePack

Blocks are numbered by slots. A flush gives each of its rows a slot, from the state's `next_slot`
on. So entries are never rewritten, except those that a crash left after the state's slots. Each
kind has a column family of its own; the state, one key that is overwritten, is in the default one.

A shard's state is everything that is neither a row nor a posting in the store. It is written in the
same atomic step as the rows, so that rows, positions, counters, undecided and held pages always
belong to one moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.index.messages import Headers, Match, NearMiss, Pages
from streamer.index.ports import NO_HORIZON, Horizon
from streamer.index.settings import IndexSettings
from streamer.sketch.resemblance import SKETCH_WORDS

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("refs", np.uint64),
    ("keys", np.uint64),
    ("sketches", np.uint64),
    ("distinct", np.uint8),
    ("tokens", np.uint32),
    ("text_bytes", np.int64),
    ("times", np.int64),
    ("watermarks", np.int64),
)
_COLUMNS_BEFORE_TIMES = 6  # what the logs of earlier versions have


class PackedPages(msgspec.Struct, omit_defaults=True):
    """Pages as MessagePack: the columns' bytes in the order of Pages; the last, if there is one.

    `shingles` are there if the pages have sets, `changes` if they have any, `replacements` if some
    were held, `nearest` if near misses are asked for, `headers` if some have any, `containers` if
    containment is asked for, `renews` if they only renew others, `matches` if they go back to
    shard 0.
    """

    columns: list[bytes]
    urls: list[bytes]
    message_keys: list[bytes | None]
    carried: list[bytes]
    shingles: list[bytes] = []
    changes: bytes = b""
    replacements: bytes = b""
    nearest: list[NearMiss | None] = []
    headers: list[Headers] = []
    containers: list[NearMiss | None] = []
    renews: bytes = b""
    matches: list[Match] = []


class Undecided(msgspec.Struct, omit_defaults=True):
    """The memtable's undecided entries in columns, oldest first.

    `retired`, int64, is the number of the replacement that retired each, 0 for none; b"" if no
    entry is retired.
    """

    rows: bytes
    refs: list[int]
    keys: bytes
    masks: bytes
    sketches: bytes
    urls: list[bytes]
    times: bytes
    shingles: list[bytes] = []
    retired: bytes = b""


class Replaced(msgspec.Struct, array_like=True):
    """A replacement of what a URL had, while pages may still come that arrived before it.

    Its rows before `row_end` answer no page that arrived later, nor do the pages `refs`: these
    arrived before, were held, and became rows later.
    """

    number: int
    url: bytes
    row_end: int
    refs: list[int] = []


class PendingForget(msgspec.Struct):
    """What a shard is about to forget, as forgetting.py has it.

    `terms`: kind, value, the row before which it holds, the command that wants it, and which record
    it came by. `records`: how many such records the shard has had. `retired`: URLs, and for each in
    `retired_before`, int64, the row before which it is. `replaced`: in order, the replacements that
    pages to come may have arrived before. `replacements`: how many there have been; `oldest`: after
    how many of them all pages arrived that the shard before has yet to send.
    """

    terms: list[tuple[str, bytes | int, int, str, int]] = []
    doomed: list[int] = []
    gone: list[int] = []
    asked: list[str] = []
    passed_on: list[str] = []
    counts: dict[str, int] = {}
    done: dict[str, int] = {}
    records: int = 0
    retired: list[bytes] = []
    retired_before: bytes = b""
    replaced: list[Replaced] = []
    replacements: int = 0
    oldest: int = 0


class ShardState(msgspec.Struct, rename={"positions": "marks"}):
    """The state of a shard.

    `positions`: how far each source is read; stored under the name that it had first. `sent`: how
    many items each destination was given. `held`: for the row of an undecided page, the pages that
    wait for it, in order. `watermark`: no page to come is older. `horizon`: what comes before it
    answers no page any more, whatever the settings are now. `generation`: of versions of URLs, the
    one that the next flush goes to, with the time and the row at which it began. `missing`: for
    each source with a hole, where the records end that were skipped because of it. `renewed`:
    how often a page was inserted again.
    """

    settings: dict[str, Any] | None
    positions: dict[str, int]
    sent: dict[str, int]
    applied: int
    next_row: int
    refused: int
    undecided: Undecided
    held: list[tuple[int, list[PackedPages]]]
    watermark: int = 0
    horizon: Horizon = NO_HORIZON
    generation: tuple[int, int, int] = (0, 0, 0)
    forgotten: PendingForget = msgspec.field(default_factory=PendingForget)
    missing: dict[str, int] = msgspec.field(default_factory=dict)
    renewed: int = 0


def pack_pages(pages: Pages) -> PackedPages:
    """Return pages as bytes."""
    columns = [getattr(pages, name).astype(kind, copy=False).tobytes() for name, kind in _COLUMNS]
    if pages.main is not None:
        columns.append(pages.main.tobytes())
    changes, replacements, renews = (
        b"" if column is None else column.tobytes()
        for column in (pages.changes, pages.replacements, pages.renews)
    )
    return PackedPages(
        columns, pages.urls, pages.message_keys, pages.carried, pages.shingles or [], changes,
        replacements, pages.nearest or [], pages.headers or [], pages.containers or [],
        renews, pages.matches or [],
    )  # fmt: skip


def unpack_pages(packed: PackedPages) -> Pages:
    """Return the pages that were packed.

    Raises:
        ValueError: a column has not as many entries as there are pages.
    """
    count = len(packed.urls)
    # Copied, since numba compiles another version for read-only arrays.
    given = packed.columns
    if len(given) == _COLUMNS_BEFORE_TIMES:
        given = [*given, bytes(8 * count), bytes(8 * count)]
    columns: list[npt.NDArray[Any]] = [
        np.frombuffer(data, kind).copy()
        for data, (_, kind) in zip(given[: len(_COLUMNS)], _COLUMNS, strict=True)
    ]
    main = given[len(_COLUMNS) :]
    refs, keys, sketches, distinct, tokens, text_bytes, times, watermarks = columns
    singles = refs, distinct, tokens, text_bytes, times, watermarks
    if any(len(each) != count for each in (*singles, packed.message_keys, packed.carried)):
        raise ValueError(f"a column has more or fewer than {count} entries, one a page")
    return Pages(
        refs,
        keys.reshape(count, -1 if count else 0),
        sketches.reshape(count, SKETCH_WORDS if count else 0),
        distinct,
        tokens,
        text_bytes,
        packed.urls,
        packed.message_keys,
        packed.carried,
        times,
        watermarks,
        np.frombuffer(main[0], np.bool_).copy() if main else None,
        packed.shingles or None,
        np.frombuffer(packed.changes, np.int32).copy() if packed.changes else None,
        np.frombuffer(packed.replacements, np.int64).copy() if packed.replacements else None,
        packed.nearest or None,
        packed.headers or None,
        packed.containers or None,
        np.frombuffer(packed.renews, np.uint64).copy() if packed.renews else None,
        packed.matches or None,
    )


def pack_state(state: ShardState) -> bytes:
    """Return the state of a shard as bytes; equal states give equal bytes."""
    return msgspec.msgpack.encode(state, order="deterministic")


def unpack_state(data: bytes) -> ShardState:
    """Return the state in `data`."""
    return msgspec.msgpack.decode(data, type=ShardState)


def unpack_settings(settings: dict[str, Any] | None) -> IndexSettings | None:
    """Return the settings in a state, None where the log has not given any yet."""
    return None if settings is None else IndexSettings.model_validate(settings)


FORMAT = 8  # of this file, row_blocks.py, frozen.py and url_versions.py
# An index of another one is refused. 5 had rows and whole keys only, 6 retired nothing, 7 did not
# know which pages had arrived before a replacement.
READ_FORMATS = (5, 6, 7, FORMAT)

SOURCES = b"c"  # in the family of the state
ROWS, KEYS, BANDS, SHINGLES, URLS = b"r", b"k", b"b", b"s", b"u"  # what keys of families begin with
STATE_KEY = b"\xff"  # the last of all, in all formats

Entry = tuple[bytes, bytes]


def entry_key(family: bytes, block: int) -> bytes:
    """Return the key of a block."""
    return family + block.to_bytes(8, "big")


def entry_keys(family: bytes, blocks: Sequence[int]) -> list[bytes]:
    """Return the keys of blocks; one by one they would take longer than to read some."""
    data = np.array(blocks, ">u8").tobytes()
    return [family + data[start : start + 8] for start in range(0, len(data), 8)]


class Stretch(msgspec.Struct):
    """The rows of one or more flushes, up to the slot `end`, in which they are dropped together.

    For each shard: how many rows and postings they are, the newest time, and the last row.
    """

    end: int
    shards: list[tuple[int, int, int, int]]


class UrlGeneration(msgspec.Struct, array_like=True):
    """Versions of URLs that are dropped together: none is newer than `time`, or behind `row`."""

    number: int
    time: int
    row: int


class ShardMeta(msgspec.Struct):
    """How many rows and postings the store has of one shard, and the shard's own state.

    Some of the rows may be before the `horizon`: they are dropped together with later ones.
    `generations` are those of the versions of URLs, oldest first. `forgotten` is how many rows were
    written over, some of which may have been dropped since.
    """

    rows: int = 0
    postings: int = 0
    state: bytes = b""
    horizon: Horizon = NO_HORIZON
    generations: list[UrlGeneration] = []
    forgotten: int = 0


class StoreMeta(msgspec.Struct):
    """All state of an index that is not rows or postings, as of its newest flush, `seq`.

    `identity` names what must fit before anything is read; `next_slot` is where the next flush puts
    its rows; `owner` is the caller's own state. What is in slots before `first_slot` was dropped;
    `stretches` are the rows from there on, oldest first.
    """

    format: int
    identity: dict[str, str | int | float]
    seq: int
    next_slot: int
    shards: list[ShardMeta]
    owner: bytes = b""
    first_slot: int = 0
    stretches: list[Stretch] = []


def format_of(value: bytes) -> object:
    """Return the format that a state says it has; any format's state is a map that has one.

    Raises:
        msgspec.MsgspecError: it is no state.
    """
    return msgspec.msgpack.decode(value, type=dict[str, object]).get("format")
