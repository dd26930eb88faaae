"""Many flushes of one index: its files, open descriptors and metadata stay bounded.

As a worker of a quiet topic does it: each flush brings a row, some a few hundred. Then the index is
opened again, and each row must be there.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchmarks.figures import empty_table
from streamer.index.ports import FlushedRows
from streamer.run.index_folder import store_folder
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.stored.database import LOG_BYTES_MAX
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

FLUSHES = 50_000
KEYS = 15
STATE_BYTES = 4000  # of a shard and of its owner, as they are
LARGE_EVERY, LARGE_ROWS = 100, 300
FILES_MAX, DESCRIPTORS_MAX, METADATA_BYTES_MAX = 120, 120, 8 << 20


class Sample(msgspec.Struct, frozen=True):
    """What an index takes after so many flushes; metadata are all files but entries and log."""

    flushes: int
    seconds: float
    rows: int
    files: int
    descriptors: int
    metadata_bytes: int
    log_bytes: int
    bytes: int

    @property
    def is_bounded(self) -> bool:
        """Return whether what could grow with the flushes has not."""
        return (
            self.files <= FILES_MAX
            and self.descriptors <= DESCRIPTORS_MAX
            and self.metadata_bytes <= METADATA_BYTES_MAX
            and self.log_bytes <= LOG_BYTES_MAX
        )


def flushed(first: int, count: int) -> FlushedRows:
    """Return so many rows from the first on; their keys and sketches follow from the numbers."""
    rows = np.arange(first, first + count)
    spread = rows.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
    keys = spread + np.arange(KEYS, dtype=np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    sketches = np.repeat(rows.astype(np.uint64)[:, None], SKETCH_WORDS, axis=1)
    masks = np.full(count, (1 << KEYS) - 1, np.uint64)
    urls = [b"https://example.org/some/page-%d.html" % row for row in rows]
    return FlushedRows(
        rows, rows.astype(np.uint64), sketches, keys, masks, urls, rows, bytes(STATE_BYTES)
    )


def measure(folder: Path, flushes: int, samples: int = 10) -> list[Sample]:
    """Flush so often into a new index below a folder, which is removed behind that; as `flush`."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        return [*flush(Path(scratch, "index"), flushes, samples)]


def flush(index: Path, flushes: int, samples: int) -> Iterator[Sample]:
    """Flush so often into a new index; yield a sample now and then, the last after opening it anew.

    Raises:
        AssertionError: a row is not what was flushed.
    """
    store = Store.open(store_folder(index))
    lookup = StoredLookup(store, 0)
    rows, began = 0, time.monotonic()
    for number in range(1, flushes + 1):
        count = LARGE_ROWS if number % LARGE_EVERY == 0 else 1
        [brought] = store.flush({}, [flushed(rows, count)], bytes(STATE_BYTES))
        lookup.refresh(brought)
        rows += count
        if number % max(1, flushes // samples) == 0:
            yield _sample(index, number, began, rows)
    store.close()
    began = time.monotonic()
    store = Store.open(store_folder(index), writable=False)
    lookup = StoredLookup(store, 0)
    yield _sample(index, flushes, began, rows)
    for first in range(0, rows, LARGE_ROWS):
        wanted = flushed(first, min(LARGE_ROWS, rows - first))
        found = lookup.rows(wanted.rows)
        assert (found.refs, found.urls) == (wanted.refs.tolist(), wanted.urls), first
        assert set(lookup.find(wanted.keys).rows.tolist()) == set(wanted.rows.tolist()), first
    store.close()


def _sample(index: Path, flushes: int, began: float, rows: int) -> Sample:
    sizes = {file: file.stat().st_size for file in store_folder(index).iterdir()}
    entries = sum(size for file, size in sizes.items() if file.suffix == ".sst")
    log, total = (
        sum(size for file, size in sizes.items() if file.suffix == ".log"),
        sum(sizes.values()),
    )
    seconds, descriptors = time.monotonic() - began, len(list(Path("/proc/self/fd").iterdir()))
    metadata = total - entries - log
    return Sample(flushes, seconds, rows, len(sizes), descriptors, metadata, log, total)


def table(samples: Sequence[Sample]) -> Table:
    """Return what the index took, and the bounds; the last line is of the index opened anew."""
    shown = empty_table(
        "flushes of one index", "flushes", "rows", "files", "descriptors", "metadata, MB",
        "log, MB", "all, MB", "s",
    )  # fmt: skip
    for sample in samples:
        flushes, seconds, rows, files, descriptors, *sizes = msgspec.structs.astuple(sample)
        megabytes = (f"{size / 1e6:.2f}" for size in sizes)
        shown.add_row(
            f"{flushes:,}", f"{rows:,}", f"{files}", f"{descriptors}", *megabytes, f"{seconds:.1f}"
        )
    bounds = (f"{size / 1e6:.2f}" for size in (METADATA_BYTES_MAX, LOG_BYTES_MAX))
    shown.add_row("at most", "", f"{FILES_MAX}", f"{DESCRIPTORS_MAX}", *bounds, "", "")
    return shown
