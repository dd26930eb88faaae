"""What the database holds, as bytes: the state, and the keys of its entries.

    key                        value
    "r" | block u64            eight rows (row_blocks.py)
    "k" | block u64            the keys of 512 rows, except what the rows have (row_blocks.py)
    "b" | number u64           frozen keys (generations.py)
    "s" | slot u64             the set of shingles of a row (sketch/hash_sets.py), with --exact
    "u" | generation u64 | key u64   the newest version of a URL (url_versions.py)
    "c" | block u64            256 sources of the catalogue (run/catalogue.py)
    "a" | key u64              an archive that was read from (run/known_archives.py)
    "f" | table u32 | part u32       a part of a table of sites (run/site_store.py)
    "o" | block u64            what revisits need of 64 kept pages (run/revisits.py)
    0xFF                       the state, as MessagePack

Blocks are numbered by slots. A flush gives each of its rows a slot, from the state's `next_slot`
on. So entries are never rewritten, except those that a crash left after the state's slots. Each
kind has a column family of its own; the state, one key that is overwritten, is in the default one.

The state of a shard is everything that is neither a row nor a posting in the store. It is written
in the same atomic step as the rows: rows, positions and counters always belong to one moment.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from streamer.index.messages import IndexSettings
from streamer.index.ports import NO_HORIZON, Horizon


class PendingForget(msgspec.Struct):
    """What an index is about to forget, as forgetting.py has it.

    `terms`: kind, value, the row before which it holds, the command that wants it, and which record
    it came by. `asked`: the commands that wait for a sweep. `counts`: how many pages were forgotten
    so far, by command. `records`: how many such records the index has had.
    """

    terms: list[tuple[str, bytes | int, int, str, int]] = []
    asked: list[str] = []
    counts: dict[str, int] = {}
    done: dict[str, int] = {}
    records: int = 0


class TimeState(msgspec.Struct, array_like=True):
    """The time of a log, as log_time.py has it.

    `recent`: the last dates, each with the time then and the page's ref. `jumps`: rows from a time
    on count as of another one at least. `wrong`: how many dates were too late, except the last ones
    in `recent`; `last_wrong` is the ref of such a page.
    """

    now: int = 0
    recent: list[tuple[int, int, int]] = []
    jumps: list[tuple[int, int]] = []
    wrong: int = 0
    last_wrong: int = 0


class ShardState(msgspec.Struct):
    """The state of a shard.

    `positions`: how far each source is read. `verdicts`: how many were given. `horizon`: what comes
    before it answers no page any more, whatever the settings are now. `generation`: of versions of
    URLs, the one that the next flush goes to, with the time and the row at which it began.
    `missing`: for each source with a hole, where the records end that were skipped because of it.
    """

    settings: dict[str, Any] | None
    positions: dict[str, int]
    verdicts: int
    applied: int
    next_row: int
    refused: int
    horizon: Horizon
    generation: tuple[int, int, int]
    forgotten: PendingForget
    missing: dict[str, int]
    time: TimeState = msgspec.field(default_factory=TimeState)  # an older version has none


def pack_state(state: ShardState) -> bytes:
    """Return the state of a shard as bytes; equal states give equal bytes."""
    return msgspec.msgpack.encode(state, order="deterministic")


def unpack_state(data: bytes) -> ShardState:
    """Return the state in `data`."""
    return msgspec.msgpack.decode(data, type=ShardState)


def unpack_settings(settings: dict[str, Any] | None) -> IndexSettings | None:
    """Return the settings in a state, None where the log has not given any yet."""
    return None if settings is None else IndexSettings.model_validate(settings)


FORMAT = 10  # of this, row_blocks.py, generations.py and url_versions.py; another one is refused

SOURCES = b"c"  # in the family of the state
ROWS, KEYS, BANDS, SHINGLES, URLS = b"r", b"k", b"b", b"s", b"u"  # what keys of families begin with
STATE_KEY = b"\xff"  # the last of all

Entry = tuple[bytes, bytes]


def entry_key(family: bytes, block: int) -> bytes:
    """Return the key of a block."""
    return family + block.to_bytes(8, "big")


def entry_keys(family: bytes, blocks: Sequence[int]) -> list[bytes]:
    """Return the keys of blocks; one by one they would take longer than to read some."""
    data = np.array(blocks, ">u8").tobytes()
    return [family + data[start : start + 8] for start in range(0, len(data), 8)]


class Stretch(msgspec.Struct, array_like=True):
    """The rows of one or more flushes, up to the slot `end`, in which they are dropped together.

    `newest` is the newest of their times, `last_row` the last of their numbers.
    """

    end: int
    rows: int
    postings: int
    newest: int
    last_row: int


class UrlGeneration(msgspec.Struct, array_like=True):
    """Versions of URLs that are dropped together: none is newer than `time`, or after `row`."""

    number: int
    time: int
    row: int


class StoreMeta(msgspec.Struct):
    """All state of an index that is not rows or postings, as of its newest flush, `seq`.

    `identity` names what must fit before anything is read; `next_slot` is where the next flush puts
    its rows; `owner` is the caller's own state, `state` that of the shard. `rows` and `postings`
    are how many the store has. Some of the rows may be before the `horizon`: they are dropped
    together with later ones. What is in slots before `first_slot` was dropped; `stretches` are the
    rows from there on, oldest first. `generations` are those of the versions of URLs, oldest first.
    `forgotten` is how many rows were written over, some of which may have been dropped since.
    """

    format: int
    identity: dict[str, str | int | float]
    seq: int = 0
    next_slot: int = 0
    rows: int = 0
    postings: int = 0
    state: bytes = b""
    horizon: Horizon = NO_HORIZON
    owner: bytes = b""
    first_slot: int = 0
    stretches: list[Stretch] = []
    generations: list[UrlGeneration] = []
    forgotten: int = 0


def format_of(value: bytes) -> object:
    """Return the format that a state says it has; any format's state is a map that has one.

    Raises:
        msgspec.MsgspecError: it is no state.
    """
    return msgspec.msgpack.decode(value, type=dict[str, object]).get("format")
