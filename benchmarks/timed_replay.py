"""One replay in a process of its own: its rate, memory and index, and on demand its stages.

It is the command `streamer replay` itself, called as a function, with a stopwatch where a terminal
has the progress bar. A process of its own, because peak memory belongs to a process; pinned to two
cores, because that is what the targets are for. It reads a file or standard input. The result goes
into a file as JSON.

    python -m benchmarks.timed_replay corpus.jsonl result.json --folder scratch
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from unittest import mock

import msgspec
import numpy as np

import streamer.cli.replay as command
from benchmarks import memory
from benchmarks.corpus_file import obtain
from benchmarks.machine import ROOT
from benchmarks.resident import resident
from benchmarks.stage_clock import StageClock
from streamer.cli import summary
from streamer.cli.summary import Summary, summarise
from streamer.index.batch import Batch
from streamer.index.rule import DUPLICATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamer.pages.files import Source
    from streamer.run.judge import Judge
    from streamer.run.replay import Progress

MODULE = "benchmarks.timed_replay"
CORES = 2
STEP = 100_000
WARM_PAGES = 2_000
WARM_HEAD_PAGES = 64  # a small memtable flushes, so that every kernel is called


class Span(msgspec.Struct, frozen=True):
    """So many pages, and the seconds that they took."""

    pages: int
    seconds: float


class Sample(msgspec.Struct, frozen=True):
    """Bytes in memory after so many pages, and how many of them are anonymous."""

    pages: int
    rss_bytes: int
    anonymous_bytes: int


class Run(msgspec.Struct, frozen=True):
    """What one replay did.

    Attributes:
        cpu_seconds: of all threads, from the first read to the last flush.
        spans: the run in parts, in order; without the flush at the end, which `seconds` includes.
        samples: the memory at the end of each part.
        duplicates_of_flushed: duplicates whose representative had left the memtable.
        stages: CPU seconds a stage; empty in an unwrapped run.
        overhead_seconds: about what the wrapping cost.
        memory: what the memory was made of when the run was done, if that was asked for.
    """

    pages: int
    unique: int
    duplicates: int
    seconds: float
    cpu_seconds: float
    spans: list[Span]
    index_bytes: int
    index_pages: int
    peak_rss_bytes: int = 0
    samples: list[Sample] = []
    duplicates_of_flushed: int = 0
    stages: dict[str, float] = {}
    overhead_seconds: float = 0.0
    memory: memory.Memory | None = None

    @property
    def rate(self) -> float:
        """Return pages a second over the whole run, its last flush included."""
        return self.pages / self.seconds

    @property
    def rates(self) -> list[float]:
        """Return pages a second of each part; without a last one too short to compare."""
        whole = self.spans[0].pages / 2 if self.spans else 0
        return [span.pages / span.seconds for span in self.spans if span.pages >= whole]

    @property
    def cpu_us(self) -> float:
        """Return microseconds of CPU a page."""
        return 1e6 * self.cpu_seconds / self.pages

    @property
    def peak_bytes(self) -> int:
        """Return the most memory that was seen: the system notes its own peak now and then only."""
        return max(self.peak_rss_bytes, *(one.rss_bytes for one in self.samples), 0)

    @property
    def index_bytes_a_page(self) -> float:
        """Return the bytes of the index's files a kept page."""
        return self.index_bytes / max(1, self.index_pages)


# ---- from outside --------------------------------------------------------------------------------


def warm(folder: Path) -> None:
    """Replay a few pages, so that every kernel is compiled."""
    replay(folder, obtain(folder, WARM_PAGES).path, head_pages=WARM_HEAD_PAGES)


def replay(folder: Path, pages: Path, **options: int | bool | None) -> Run:
    """Run one replay in a fresh process; what it writes is removed when it is done.

    Raises:
        subprocess.CalledProcessError: it failed; it has said why on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="replay-", dir=folder.absolute()) as scratch:
        return replay_in(Path(scratch, "work"), str(pages.absolute()), **options)


def replay_in(
    work: Path, pages: str, stdin: IO[bytes] | None = None, /, **options: int | bool | None
) -> Run:
    """Run one replay in a fresh process that leaves its index in a folder, which is made.

    Options are those of the program: `step`, `head_pages`, `stages`, `memory`.
    """
    work.mkdir()
    result = work.with_name("result.json")
    given = [sys.executable, "-m", MODULE, pages, str(result), "--folder", str(work)]
    for name, value in options.items():
        if value:
            given += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    subprocess.run(given, cwd=ROOT, stdin=stdin, stdout=subprocess.DEVNULL, check=True)
    return msgspec.json.decode(result.read_bytes(), type=Run)


# ---- in the process ------------------------------------------------------------------------------


class Stopwatch:
    """Note the time at every `step` records, and what the memory is then."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._marks: list[tuple[int, float]] = []
        self.samples: list[Sample] = []
        self.cpu_seconds = 0.0

    @contextmanager
    def watch(self, _sources: Sequence[Source], *_: object) -> Iterator[Progress]:
        """Yield the function that a replay tells its progress; in place of the progress bar."""
        begin, cpu_begin = time.perf_counter(), time.process_time()
        self._marks = [(0, 0.0)]
        last = (0, 0.0)

        def report(_bytes_read: int, records: int) -> None:
            nonlocal last
            last = (records, time.perf_counter() - begin)
            if records - self._marks[-1][0] >= self._step:
                self._marks.append(last)
            if records >= (len(self.samples) + 1) * self._step:
                now = resident()
                self.samples.append(Sample(records, now.total_bytes, now.anonymous_bytes))

        yield report
        if last[0] > self._marks[-1][0]:
            self._marks.append(last)
        self.cpu_seconds = time.process_time() - cpu_begin

    def spans(self) -> list[Span]:
        """Return the time between the marks; the last span may be shorter than the step."""
        pairs = zip(self._marks, self._marks[1:], strict=False)
        return [Span(end - start, after - before) for (start, before), (end, after) in pairs]


class _Looked:
    """What only the judge knows: duplicates of flushed pages, and at the end its memory.

    `base_bytes` is None where the memory is not asked for.
    """

    def __init__(self, base_bytes: int | None) -> None:
        self._base_bytes = base_bytes
        self.memory: memory.Memory | None = None
        self.of_flushed = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Look for the time of a `with` block."""
        judge = Batch.judge

        def counted(batch: Batch, *rest: Any) -> tuple[int, int]:  # noqa: ANN401 - passed on
            found = judge(batch, *rest)
            of_flushed = (batch.judged.outcome == DUPLICATE) & (batch.judged.best < 0)
            self.of_flushed += int(np.count_nonzero(of_flushed))
            return found

        with (
            mock.patch.object(Batch, "judge", counted),
            mock.patch.object(summary, "summarise", self._summarise),
        ):
            yield

    def _summarise(self, outcome: Any, catalogue: Any, judge: Judge, folder: Any) -> Summary:  # noqa: ANN401 - passed on
        """Stand in for the command's function of this name, while the judge is open."""
        if self._base_bytes is not None:
            self.memory = memory.measure(judge, self._base_bytes)
        return summarise(outcome, catalogue, judge, folder)


def timed_replay(asked: argparse.Namespace) -> Run:
    """Replay a file, or `-`, as the program's options say; return what was measured."""
    stopwatch, clock = Stopwatch(asked.step), StageClock()
    looked = _Looked(memory.base_bytes() if asked.memory else None)
    with ExitStack() as stack:
        stack.enter_context(looked.installed())
        stack.enter_context(mock.patch.object(command, "progress_bar", stopwatch.watch))
        if asked.stages:
            stack.enter_context(clock.installed())
        command.replay(
            [asked.pages],
            verdicts=str(asked.folder / "verdicts.jsonl"),
            index=asked.folder / "index",
            summary=asked.folder / "summary.json",
            head_pages=asked.head_pages,
        )
    summary: dict[str, Any] = msgspec.json.decode((asked.folder / "summary.json").read_bytes())
    reported = ("pages", "unique", "duplicates", "seconds", "index_bytes", "index_pages")
    return Run(
        **{name: summary[name] for name in reported},
        cpu_seconds=stopwatch.cpu_seconds,
        spans=stopwatch.spans(),
        peak_rss_bytes=resident().peak_bytes,
        samples=stopwatch.samples,
        duplicates_of_flushed=looked.of_flushed,
        stages=clock.seconds() if asked.stages else {},
        overhead_seconds=clock.overhead_seconds() if asked.stages else 0.0,
        memory=looked.memory,
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Replay pages once and measure it.")
    parser.add_argument("pages", help="a corpus, or - for standard input")
    parser.add_argument("result", type=Path, help="where the result goes, as JSON")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder to work in")
    parser.add_argument("--step", type=int, default=STEP, help="pages between two rates")
    parser.add_argument("--head-pages", type=int, help="as of streamer replay")
    parser.add_argument("--stages", action="store_true", help="wrap the stages to time them")
    parser.add_argument("--memory", action="store_true", help="tell what the memory is made of")
    return parser.parse_args(arguments)


def main() -> None:
    """Run one replay as the command line says; write the result as JSON."""
    asked = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    asked.result.write_bytes(msgspec.json.encode(timed_replay(asked)))


if __name__ == "__main__":
    main()
