"""Many lifetimes of pages that expire: disk, memory and time a page stay level.

Pages without texts, all of them unique, are judged with the settings that make them expire: by age,
or by number. Not part of `make bench`: it takes some minutes.

    PYTHONPATH=. python -m benchmarks.lifetimes FOLDER [--pages 200000] [--by age|number] \
        [--track-changes]

With the last, RocksDB's log counts, which has up to 64 MB at any moment: take a million pages.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamer.index.types import IndexSettings, Pages
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.sketch.resemblance import BINS, DENSE_LEVEL, SKETCH_WORDS
from streamer.sketch.settings import SignatureSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 2000
LIFETIMES = 10
LEVEL = 1.1  # of the least after the first two lifetimes


class Sample(NamedTuple):
    """What an index takes at the end of a lifetime, and what its pages took."""

    lifetime: int
    disk_bytes: int
    table_bytes: int
    resident_bytes: int
    microseconds_a_page: float


def unique_pages(first: int, count: int) -> Pages:
    """Return pages that share no key, one a millisecond."""
    random = np.random.default_rng(first)
    refs = np.arange(first, first + count)
    sketches = random.integers(0, 1 << 63, (count, SKETCH_WORDS), np.uint64)
    sketches[:, 0] = DENSE_LEVEL | BINS << 8
    return Pages(
        refs.astype(np.uint64), random.integers(0, 1 << 63, (count, 15), np.uint64), sketches,
        np.full(count, 32, np.uint8), np.full(count, 100, np.uint32), np.full(count, 1000),
        [b"https://www.example.org/some/section/article-%09d.html" % ref for ref in refs],
        [None] * count, [b""] * count, refs + 1, refs + 1,
    )  # fmt: skip


def measure(index: Path, pages: int, *, by_age: bool, tracks: bool) -> Iterator[Sample]:
    """Judge ten lifetimes of so many pages each; yield a sample after each."""
    settings = IndexSettings(
        expire_after_ms=pages if by_age else 0,
        keep_pages=0 if by_age else pages,
        track_changes=tracks,
    )
    judge = replay_judge(IndexFolder.open(index, SignatureSettings(), 1), settings)
    for lifetime in range(1, LIFETIMES + 1):
        seconds = 0.0
        for first in range((lifetime - 1) * pages, lifetime * pages, BATCH):
            batch = unique_pages(first, BATCH)
            began = time.perf_counter()
            judge.judge(0, first, first + BATCH, batch, judge.look_up(batch))
            if judge.flush_is_due:
                judge.begin_flush(lambda: b"")
            seconds += time.perf_counter() - began
        judge.finish()
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        yield Sample(
            lifetime, judge.store.size_bytes(), judge.lookups[0].table.size_bytes, resident,
            round(1e6 * seconds / pages, 2),
        )  # fmt: skip
    judge.close()


def main() -> int:
    """Print a line a lifetime; return 1 if disk or table do not stay level."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--by", choices=("age", "number"), default="age")
    parser.add_argument("--track-changes", action="store_true")
    options = parser.parse_args()
    by_age, tracks = options.by == "age", options.track_changes
    samples = []
    for sample in measure(options.folder, options.pages, by_age=by_age, tracks=tracks):
        print(sample, flush=True)
        samples.append(sample)
    later = samples[2:]
    return any(
        max(column) > LEVEL * min(column)
        for column in ([s.disk_bytes for s in later], [s.table_bytes for s in later])
    )


if __name__ == "__main__":
    sys.exit(main())
