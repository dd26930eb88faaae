"""An index that grows beyond its memory: memory, disk and time a page as it fills, and a start.

Pages without texts, two of five copies of any earlier one, are judged in bounded memory. Then the
index is opened again, a snapshot is taken of it, and another index is made of that.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchmarks.figures import Figure, empty_table, figures_table
from benchmarks.resident import resident
from streamer.index.messages import IndexSettings, Pages
from streamer.run.catalogue import Catalogue, SourceEntry, pack_catalogue
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import JudgeOptions, replay_judge
from streamer.sketch.resemblance import BINS, DENSE_LEVEL, SKETCH_WORDS
from streamer.sketch.settings import SignatureSettings
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from streamer.upkeep.snapshots import SnapshotFolder, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    from rich.table import Table

    from streamer.index.messages import Verdicts
    from streamer.run.judge import Judge

PAGES = 10_000_000
NEW, KNOWN = 1200, 800  # of a batch
MEMORY_TARGET, DISK_TARGET, START_TARGET = 40, 600, 60.0  # bytes a kept page; seconds
RESTORE_TARGET = 2.0  # seconds a million kept pages
KEYS = 15
PAGE_WORDS = 64  # random ones, of which a page's keys and sketch are made
SAMPLES = 10
OWNER = pack_catalogue(Catalogue(entries=[SourceEntry("pages.jsonl", "", None)]))


class Sample(msgspec.Struct, frozen=True):
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


class Growth(msgspec.Struct):
    """An index as it grew; seconds until it was opened, a snapshot was taken, and was restored."""

    samples: list[Sample]
    opened: float
    snapshot: float
    restored: float


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
        [None] * count, [b""] * count, refs + 1,
    )  # fmt: skip


def judge_batch(judge: Judge, start: int, batch: Pages) -> list[Verdicts]:
    """Look up and judge a batch that begins at `start`, and begin a flush if that is due."""
    verdicts = judge.judge(0, start, start + len(batch), batch, judge.shard.look_up(batch))
    if judge.flush_is_due:
        judge.begin_flush(lambda: OWNER)
    return verdicts


def measure(folder: Path, pages: int) -> Growth:
    """Let a new index below a folder grow to so many kept pages; it is removed behind that."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        index = Path(scratch, "index")
        return Growth([*grow(index, pages, MEMORY_TARGET * pages)], *ready_again(index))


def grow(index: Path, pages: int, memory: int) -> Iterator[Sample]:
    """Judge pages until so many are kept; yield ten samples on the way."""
    random = np.random.default_rng(1)
    folder = IndexFolder.open(index, SignatureSettings())
    judge = replay_judge(folder, IndexSettings(), JudgeOptions(index_memory=memory))
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
            judge_batch(judge, read, batch)
            wall += time.perf_counter() - start
            kept, read = kept + NEW, read + len(batch)
        cpu, count = time.process_time() - cpu - making, read - read_before
        lookup = judge.lookup
        yield Sample(
            kept, round(1e6 * wall / count, 2), round(1e6 * cpu / count, 2),
            round(lookup.memory_bytes / kept, 1), round(resident().anonymous_bytes / kept, 1),
            round(judge.store.size_bytes() / kept, 1), len(lookup.frozen.note.generations),
        )  # fmt: skip
    judge.flush(OWNER)
    judge.close()


def ready_again(index: Path) -> tuple[float, float, float]:
    """Return the seconds until an index can be asked, a snapshot is taken, and one made of it can.

    The snapshot is on the same disk, and both of these are removed.
    """
    opened = opened_in(index)
    place, other = index.with_name("snapshots"), index.with_name("restored")
    began = time.perf_counter()
    take_snapshot(index, SnapshotFolder(place), 1)
    taken = time.perf_counter()
    SnapshotFolder(place).restore(other)
    restored = time.perf_counter() - taken + opened_in(other)
    shutil.rmtree(place)
    shutil.rmtree(other)
    return opened, taken - began, restored


def opened_in(index: Path) -> float:
    """Return the seconds until an index can be asked."""
    start = time.perf_counter()
    store = Store.open(index / "store", writable=False)
    StoredLookup(store, 0)
    seconds = time.perf_counter() - start
    store.close()
    return seconds


def table(result: Growth) -> Table:
    """Return what the whole index takes, next to the targets."""
    last = result.samples[-1]
    restored = RESTORE_TARGET * last.kept / 1e6
    return figures_table(
        "growth: pages without texts, tables and filters bounded",
        [
            Figure("kept pages", f"{last.kept:,}"),
            Figure("memory, bytes a kept page", f"{last.memory_bytes:.0f}", f"{MEMORY_TARGET}"),
            Figure("  of the process", f"{last.resident_bytes:.0f}"),
            Figure("disk, bytes a kept page", f"{last.disk_bytes:.0f}", f"{DISK_TARGET}"),
            Figure("us a page", f"{last.wall_us:.1f}"),
            Figure("opened, s", f"{result.opened:.1f}", f"{START_TARGET:.0f}"),
            Figure("snapshot taken, s", f"{result.snapshot:.1f}"),
            Figure("restored and opened, s", f"{result.restored:.1f}", f"{restored:.0f}"),
        ],
    )


def samples_table(result: Growth) -> Table:
    """Return what the index took as it grew."""
    shown = empty_table(
        "", "kept pages", "us a page", "CPU us a page", "memory, bytes a kept page",
        "of the process", "disk", "frozen generations",
    )  # fmt: skip
    for sample in result.samples:
        kept, *times, memory, process, disk, generations = msgspec.structs.astuple(sample)
        sizes = (f"{size:.0f}" for size in (memory, process, disk))
        shown.add_row(f"{kept:,}", *(f"{each:.1f}" for each in times), *sizes, f"{generations}")
    return shown
