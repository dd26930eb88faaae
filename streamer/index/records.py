"""What shards read and write: records over intervals of a source's sequence, in columns.

One rule holds for every record: (source, start, end, items) covers [start, end) of the source's own
sequence. A reader whose mark is e takes the items n >= e if start <= e < end and moves to end; else
it passes the record over: seen before, or a hole. Pages are numbered by their source (offset,
ordinal); what a shard emits is numbered by the shard, for each destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.index.settings import IndexSettings

VERDICTS = "verdicts"  # the destination of verdicts; shards are named by shard_name()
CONFIG = "config"


def shard_name(shard: int) -> str:
    """Return the name of a shard as a source and as a destination."""
    return f"shard:{shard}"


def source_name(source: int) -> str:
    """Return the name of a page source in the marks, by its number in the catalogue."""
    return f"pages:{source}"


@dataclass(slots=True)
class Pages:
    """Signed pages in columns, n entries each.

    Attributes:
        refs: uint64, page refs.
        keys: uint64[n, bands + 1], band keys, then the content key.
        sketches: uint64[n, 33], see sketch/compact.py.
        distinct: uint8, distinct shingles as far as they are counted.
        tokens: uint32.
        text_bytes: int64.
        urls, message_keys, carried: bytes; a message key may be None.
    """

    refs: npt.NDArray[np.uint64]
    keys: npt.NDArray[np.uint64]
    sketches: npt.NDArray[np.uint64]
    distinct: npt.NDArray[np.uint8]
    tokens: npt.NDArray[np.uint32]
    text_bytes: npt.NDArray[np.int64]
    urls: list[bytes]
    message_keys: list[bytes | None]
    carried: list[bytes]

    def __len__(self) -> int:
        return len(self.urls)

    def take(self, places: Sequence[int] | npt.NDArray[np.int64]) -> Pages:
        """Return the pages at `places`, in that order."""
        where = np.asarray(places, np.int64)
        listed = where.tolist()
        return Pages(
            self.refs[where],
            self.keys[where],
            self.sketches[where],
            self.distinct[where],
            self.tokens[where],
            self.text_bytes[where],
            [self.urls[i] for i in listed],
            [self.message_keys[i] for i in listed],
            [self.carried[i] for i in listed],
        )


@dataclass(slots=True)
class Decisions:
    """What became of pages further along: kept (True) or dropped."""

    refs: npt.NDArray[np.uint64]
    kept: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.refs)


@dataclass(slots=True)
class Verdicts:
    """Verdicts in columns; representatives hold 0 and b"" where the page is unique.

    Attributes:
        pages: the judged pages, all of one index.
        similarities: int32, ten-thousandths; -1 where the page is unique.
        basis: uint8, see place.py.
        representative_refs: uint64.
        representative_urls: bytes.
    """

    pages: Pages
    similarities: npt.NDArray[np.int32]
    basis: npt.NDArray[np.uint8]
    representative_refs: npt.NDArray[np.uint64]
    representative_urls: list[bytes]

    def __len__(self) -> int:
        return len(self.pages)


Items = Pages | Decisions | IndexSettings


@dataclass(slots=True)
class Record:
    """One record of a shard's log: [start, end) of `source`, and the items numbered in it."""

    source: str
    start: int
    end: int
    numbers: npt.NDArray[np.int64]
    items: Items


@dataclass(slots=True)
class Output:
    """Items for one destination, numbered from `start` on without gaps."""

    destination: str
    start: int
    items: Pages | Decisions | Verdicts

    @property
    def end(self) -> int:
        """Return the number after the last item's."""
        return self.start + len(self.items)
