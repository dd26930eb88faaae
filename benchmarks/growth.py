"""An index that grows beyond its memory: memory, disk and time a page as it fills, and a start.

Pages without texts, two of five copies of any earlier one, are judged in bounded memory. Not
part of `make bench`: ten million kept pages take some minutes and 7 GB of disk.

    PYTHONPATH=. python -m benchmarks.growth FOLDER [--pages 10000000] [--memory 536870912]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.resident import resident
from streamer.index.store import Store
from streamer.index.stored_lookup import StoredLookup
from streamer.index.types import IndexSettings, Pages
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.sketch.resemblance import BINS, DENSE_LEVEL, SKETCH_WORDS
from streamer.sketch.settings import SignatureSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

NEW, KNOWN = 1200, 800  # of a batch
KEYS = 15
PAGE_WORDS = 64  # random ones, of which a page's keys and sketch are made
SAMPLES = 10


class Sample(NamedTuple):
    """What an index of so many kept pages takes, and what a page took since the sample before.

    `wall_us` is of the thread that looks up and judges, `cpu_us` of all threads.
    """

    kept: int
    wall_us: float
    cpu_us: float
    memory_bytes: float
    resident_bytes: float
    disk_bytes: float
    generations: int


def made_pages(numbers: npt.NDArray[np.int64], refs: npt.NDArray[np.int64]) -> Pages:
    """Return pages with these numbers; those of one number are the same."""
    places = np.arange(KEYS + SKETCH_WORDS, dtype=np.uint64)
    words = numbers.astype(np.uint64)[:, None] * np.uint64(PAGE_WORDS) + places
    words *= np.uint64(0x9E3779B97F4A7C15)
    for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ words >> np.uint64(bits)) * np.uint64(factor)
    words ^= words >> np.uint64(31)
    count, sketches = len(numbers), words[:, KEYS:].copy()
    sketches[:, 0] = DENSE_LEVEL | BINS << 8
    return Pages(
        refs.astype(np.uint64), words[:, :KEYS].copy(), sketches, np.full(count, 32, np.uint8),
        np.full(count, 100, np.uint32), np.full(count, 1000),
        [b"https://www.example.org/some/section/article-%09d.html" % each for each in numbers],
        [None] * count, [b""] * count, refs + 1, refs + 1,
    )  # fmt: skip


def measure(index: Path, pages: int, memory: int) -> Iterator[Sample]:
    """Judge pages until so many are kept; yield ten samples on the way."""
    random = np.random.default_rng(1)
    folder = IndexFolder.open(index, SignatureSettings(), 1)
    judge = replay_judge(folder, IndexSettings(), index_memory=memory)
    kept = read = 0
    for end in range(pages // SAMPLES, pages + 1, pages // SAMPLES):
        wall = making = 0.0
        cpu, read_before = time.process_time(), read
        while kept < end:
            began = time.thread_time()
            numbers = np.append(np.arange(kept, kept + NEW), random.integers(0, kept + NEW, KNOWN))
            batch = made_pages(numbers, np.arange(read, read + NEW + KNOWN))
            making += time.thread_time() - began
            start = time.perf_counter()
            judge.judge(0, read, read + len(batch), batch, judge.look_up(batch))
            if judge.flush_is_due:
                judge.begin_flush(lambda: b"")
            wall += time.perf_counter() - start
            kept, read = kept + NEW, read + len(batch)
        cpu, count = time.process_time() - cpu - making, read - read_before
        [lookup] = judge.lookups
        yield Sample(
            kept, round(1e6 * wall / count, 2), round(1e6 * cpu / count, 2),
            round(lookup.memory_bytes / kept, 1), round(resident().anonymous_bytes / kept, 1),
            round(judge.store.size_bytes() / kept, 1), len(lookup.frozen.note.generations),
        )  # fmt: skip
    judge.flush(b"")
    judge.close()


def opened_in(index: Path) -> float:
    """Return the seconds until an index can be asked."""
    start = time.perf_counter()
    store = Store.open(index / "store", writable=False)
    StoredLookup(store, 0)
    seconds = time.perf_counter() - start
    store.close()
    return seconds


def main() -> None:
    """Print a line a sample, and the seconds of three starts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=10_000_000)
    parser.add_argument("--memory", type=int, default=512 << 20)
    options = parser.parse_args()
    for sample in measure(options.folder, options.pages, options.memory):
        print(sample, flush=True)
    print("opened in", [round(opened_in(options.folder), 2) for _ in range(3)], "seconds")


if __name__ == "__main__":
    main()
