"""Many lifetimes of pages that expire: disk, memory and time a page stay level.

Pages without texts, all of them unique, are judged with the settings that make them expire: by age,
or by number. Where changes are tracked RocksDB's log counts, which has up to 64 MB at any moment.
What is being merged is on the disk twice, and files have some 128 MB: so sizes are told as they are
with nothing to merge, and the highest beside them.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchmarks.figures import empty_table
from benchmarks.growth import judge_batch, made_pages
from benchmarks.resident import resident
from streamer.index.settings import IndexSettings
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.sketch.settings import SignatureSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

    from streamer.index.messages import Pages
    from streamer.stored.store import Store

PAGES = 1_000_000
BATCH = 2000
LIFETIMES = 10
LOOK_EVERY = 50  # batches, at the size on the disk


class Sample(msgspec.Struct, frozen=True):
    """What an index takes at the end of a lifetime, and what its pages took.

    `disk_bytes` with nothing left to merge, `highest_bytes` of all looks in that lifetime.
    """

    lifetime: int
    disk_bytes: int
    table_bytes: int
    resident_bytes: int
    microseconds_a_page: float
    highest_bytes: int = 0  # not known of older results


def unique_pages(first: int, count: int) -> Pages:
    """Return pages that share no key, one a millisecond."""
    numbers = np.arange(first, first + count)
    return made_pages(numbers, numbers)


def measure(folder: Path, pages: int) -> dict[str, list[Sample]]:
    """Judge ten lifetimes of so many pages each, in a new index below a folder for each way."""
    ways = {
        "by age": IndexSettings(expire_after_ms=pages),
        "by number": IndexSettings(keep_pages=pages),
        "by age, changes tracked": IndexSettings(expire_after_ms=pages, track_changes=True),
    }
    found = {}
    for name, settings in ways.items():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            found[name] = [*live(Path(scratch, "index"), pages, settings)]
    return found


def live(index: Path, pages: int, settings: IndexSettings) -> Iterator[Sample]:
    """Judge ten lifetimes of so many pages each; yield a sample after each."""
    judge = replay_judge(IndexFolder.open(index, SignatureSettings(), 1), settings)
    for lifetime in range(1, LIFETIMES + 1):
        seconds, highest = 0.0, 0
        for first in range((lifetime - 1) * pages, lifetime * pages, BATCH):
            batch = unique_pages(first, BATCH)
            began = time.perf_counter()
            judge_batch(judge, first, batch)
            seconds += time.perf_counter() - began
            if first // BATCH % LOOK_EVERY == 0:
                highest = max(highest, judge.store.size_bytes())
        judge.finish()
        _finish_merging(judge.store)
        size = judge.store.size_bytes()
        yield Sample(
            lifetime, size, judge.lookups[0].table.size_bytes, resident().total_bytes,
            round(1e6 * seconds / pages, 2), max(highest, size),
        )  # fmt: skip
    judge.close()


def _finish_merging(store: Store) -> None:
    database = store._database  # noqa: SLF001 - nobody else waits for what it does in its thread
    if database is not None:
        database._merger.submit(int).result()  # noqa: SLF001


def table(result: Mapping[str, Sequence[Sample]]) -> Table:
    """Return what ten lifetimes take, and by how much that moves after the first two."""
    shown = empty_table(
        "ten lifetimes", "expire", "disk, MB, least", "most", "highest", "table, MB, least", "most",
        "memory, MB, at the end", "us a page, first", "last",
    )  # fmt: skip
    for name, samples in result.items():
        later, cells = samples[2:], []
        for sizes in ([s.disk_bytes for s in later], [s.table_bytes for s in later]):
            more = max(sizes) / min(sizes) - 1
            cells += [f"{min(sizes) / 1e6:.1f}", f"{max(sizes) / 1e6:.1f} (+{more:.1%})"]
        cells.insert(2, f"{max(s.highest_bytes for s in later) / 1e6:.1f}")
        at_end = f"{samples[-1].resident_bytes / 1e6:.0f}"
        times = (f"{samples[at].microseconds_a_page:.1f}" for at in (0, -1))
        shown.add_row(name, *cells, at_end, *times)
    return shown
