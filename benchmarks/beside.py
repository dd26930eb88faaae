"""What other indexes cost a page that is compared with them, and what resharding one takes.

An index of pages without texts is made; then pages are judged without it and beside it, of which
none is in it, or every other one; then it is written anew with three shards. Each run is a process
of its own, since its memory is told. Times are of CPU, of all threads, look-ups too.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from benchmarks.figures import Figure, figures_table, mebibytes
from benchmarks.growth import OWNER, judge_batch, made_pages
from benchmarks.resident import resident
from streamer.index.settings import IndexSettings
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.sketch.settings import SignatureSettings
from streamer.upkeep.reshard import Destination, Old, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

PAGES = 1_000_000  # of the other index
BATCH = 2000
UNTIMED = 5 * BATCH  # pages: kernels are loaded meanwhile
ROUNDS = 3
SHARDS = 3
NEW = 1 << 40  # the first number of pages that no index has
KEY = "11" * 32
Result = TypeVar("Result")


class Run(msgspec.Struct, frozen=True):
    """Microseconds of CPU a page, bytes of memory that were added, and duplicates."""

    us: float
    memory_bytes: int
    duplicates: int


class Resharding(msgspec.Struct, frozen=True):
    """What it took to write an index anew; `disk_bytes` is that of both, at the most."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int
    old_bytes: int
    disk_bytes: int
    new_bytes: int


class Beside(msgspec.Struct, frozen=True):
    """The measurement: median runs, beside an index of so many pages."""

    theirs: int
    pages: int
    without: Run
    none_near: Run
    half_near: Run
    resharding: Resharding


def measure(folder: Path, theirs: int, rounds: int = ROUNDS) -> Beside:
    """Measure in a folder beside an index of so many pages, with a fifth as many of our own."""
    pages = max(theirs // 5, 2 * UNTIMED)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        clean = Path(scratch, "clean")
        Path(scratch, "key").write_text(KEY, encoding="utf-8")
        _alone(judged, clean, theirs, 0, ())
        also = (f"clean={clean}",)
        ways = ((NEW, 0, ()), (NEW, 0, also), (NEW, theirs, also))
        runs: list[list[Run]] = [[] for _ in ways]
        for turn in range(rounds):
            for number, (way, found) in enumerate(zip(ways, runs, strict=True)):
                found.append(_alone(judged, Path(scratch, f"{turn}-{number}"), pages, *way))
        without, none_near, half_near = (
            sorted(found, key=lambda run: run.us)[rounds // 2] for found in runs
        )
        anew = _alone(resharded, clean)
        return Beside(theirs, pages, without, none_near, half_near, anew)


def _alone(function: Callable[..., Result], *given: object) -> Result:
    """Return what a function returns in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *given).result()


def judged(index: Path, pages: int, first: int, theirs: int = 0, also: tuple[str, ...] = ()) -> Run:
    """Judge new pages, numbered from `first` on; every other one is one of `theirs`, if any."""
    random = np.random.default_rng(1)
    before = resident().anonymous_bytes
    folder = IndexFolder.open(index, SignatureSettings(), 1, index.with_name("key"))
    references = ReferenceIndexes(also, folder.fingerprint, folder.identity)
    judge = replay_judge(folder, references.named_in(IndexSettings()), references=references)
    spent, duplicates = 0.0, 0
    for start in range(0, pages, BATCH):
        numbers = np.arange(first + start, first + start + BATCH)
        if theirs:
            numbers[::2] = random.integers(0, theirs, BATCH // 2)
        batch = made_pages(numbers, np.arange(start, start + BATCH))
        began = time.process_time()
        for verdicts in judge_batch(judge, start, batch):
            duplicates += int((verdicts.similarities >= 0).sum())
        spent += time.process_time() - began if start >= UNTIMED else 0.0
    memory = resident().anonymous_bytes - before
    judge.flush(OWNER)
    judge.close()
    references.close()
    return Run(1e6 * spent / (pages - UNTIMED), memory, duplicates)


def resharded(index: Path) -> Resharding:
    """Write an index anew with other shards, in its place."""
    place, old_bytes, done = Destination(index), _bytes_in(index), threading.Event()
    before, sizes = resident().anonymous_bytes, [(0, 0)]

    def watch() -> None:
        while not done.wait(0.2):
            sizes.append((resident().anonymous_bytes, _bytes_in(index) + _bytes_in(place.new)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, cpu = time.perf_counter(), time.process_time()
    old = Old(index)
    place.begin(SHARDS)
    write(old, SHARDS, place.new, old.owners, lambda _rows: None)
    sizes.append((0, old_bytes + _bytes_in(place.new)))
    place.take()
    place.end()
    old.close()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    done.set()
    watcher.join()
    memory, disk = (max(each) for each in zip(*sizes, strict=True))
    return Resharding(seconds, cpu, memory - before, old_bytes, disk, _bytes_in(index))


def _bytes_in(folder: Path) -> int:
    """Return what the files in a folder have; some may go meanwhile."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size
        except FileNotFoundError:
            continue
    return size


def table(result: Beside) -> Table:
    """Return the figures."""
    anew = result.resharding
    ways = (
        ("without it", result.without),
        ("beside it, none is near", result.none_near),
        ("beside it, every other is one of its", result.half_near),
    )
    runs = (
        Figure(f"{way}: CPU us a page; memory", f"{run.us:.1f}; {mebibytes(run.memory_bytes)}")
        for way, run in ways
    )
    return figures_table(
        "an index beside another one, pages without texts; and resharding that",
        [
            Figure("its pages; our own", f"{result.theirs:,}; {result.pages:,}"),
            *runs,
            Figure(f"to {SHARDS} shards, s", f"{anew.seconds:.1f}"),
            Figure("  of CPU", f"{anew.cpu_seconds:.1f}"),
            Figure("  pages/s", f"{result.theirs / anew.seconds:,.0f}"),
            Figure("  memory", mebibytes(anew.memory_bytes)),
            Figure("  disk before", mebibytes(anew.old_bytes)),
            Figure("  of both, at the most", mebibytes(anew.disk_bytes)),
            Figure("  after", mebibytes(anew.new_bytes)),
        ],
    )
