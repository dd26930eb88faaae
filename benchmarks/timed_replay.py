"""One replay in a process of its own: its rate, memory and index, and on demand its stages.

It is the command `streamer replay` itself, called as a function, with a stopwatch where a terminal
has the progress bar. A process of its own, because peak memory belongs to a process; pinned to two
cores, because that is what the targets are for. Run by throughput.py; the result goes into a file
as JSON.

    python -m benchmarks.timed_replay corpus.jsonl result.json --folder scratch
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import numpy as np

import streamer.cli.replay as command
from benchmarks.resident import resident
from benchmarks.stage_clock import StageClock
from streamer.index.rule import DUPLICATE, Judged
from streamer.index.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamer.pages.files import Source
    from streamer.run.replay import Progress

CORES = 2
STEP = 100_000


class Span(msgspec.Struct, frozen=True):
    """So many pages, and the seconds that they took."""

    pages: int
    seconds: float


class Run(msgspec.Struct, frozen=True):
    """What one replay did.

    Attributes:
        cpu_seconds: of all threads, from the first read to the last flush.
        spans: the run in parts, in order; without the flush at the end, which `seconds` includes.
        duplicates_of_flushed: duplicates whose representative had left the head.
        stages: CPU seconds a stage; empty in an unwrapped run.
        overhead_seconds: about what the wrapping cost.
    """

    pages: int
    unique: int
    duplicates: int
    duplicates_of_flushed: int
    seconds: float
    cpu_seconds: float
    spans: list[Span]
    peak_rss_bytes: int
    index_bytes: int
    index_pages: int
    stages: dict[str, float]
    overhead_seconds: float


class Stopwatch:
    """Note the time at every `step` records."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._marks: list[tuple[int, float]] = []
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

        yield report
        if last[0] > self._marks[-1][0]:
            self._marks.append(last)
        self.cpu_seconds = time.process_time() - cpu_begin

    def spans(self) -> list[Span]:
        """Return the time between the marks; the last span may be shorter than the step."""
        pairs = zip(self._marks, self._marks[1:], strict=False)
        return [Span(end - start, after - before) for (start, before), (end, after) in pairs]


class _RunHits:
    """Count the duplicates whose representative was flushed: one sum a batch."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Count for the time of a `with` block."""
        publish = Shard._publish  # noqa: SLF001 - where a shard knows from where a match came

        def counted(shard: Shard, pages: Any, judged: Judged, *rest: Any) -> None:  # noqa: ANN401 - passed on
            of_flushed = (judged.outcome == DUPLICATE) & (judged.best < 0)
            self.count += int(np.count_nonzero(of_flushed))
            publish(shard, pages, judged, *rest)

        with mock.patch.object(Shard, "_publish", counted):
            yield


def timed_replay(
    pages: str, folder: Path, *, step: int, head_pages: int | None, stages: bool
) -> Run:
    """Replay a file with a new index in `folder`, which must be empty; return what was measured."""
    stopwatch, hits, clock = Stopwatch(step), _RunHits(), StageClock()
    with hits.installed(), clock.installed() if stages else nullcontext():
        summary = replayed(stopwatch, pages, folder, head_pages, None)
    return Run(
        pages=summary["pages"],
        unique=summary["unique"],
        duplicates=summary["duplicates"],
        duplicates_of_flushed=hits.count,
        seconds=summary["seconds"],
        cpu_seconds=stopwatch.cpu_seconds,
        spans=stopwatch.spans(),
        peak_rss_bytes=resident().peak_bytes,
        index_bytes=summary["index_bytes"],
        index_pages=summary["index_pages"],
        stages=clock.seconds() if stages else {},
        overhead_seconds=clock.overhead_seconds() if stages else 0.0,
    )


def replayed(
    stopwatch: Stopwatch, pages: str, folder: Path, head_pages: int | None, shards: int | None
) -> dict[str, Any]:
    """Replay a file, or `-`, into a new index in `folder`, which must be empty; return the summary.

    `stopwatch` watches it.
    """
    with mock.patch.object(command, "progress_bar", stopwatch.watch):
        command.replay(
            [pages],
            verdicts=str(folder / "verdicts.jsonl"),
            index=folder / "index",
            summary=folder / "summary.json",
            head_pages=head_pages,
            shards=shards,
        )
    summary: dict[str, Any] = msgspec.json.decode((folder / "summary.json").read_bytes())
    return summary


def replay_options(description: str, step: int) -> argparse.ArgumentParser:
    """Return a parser of what each program that makes one replay is told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pages", help="a corpus, or - for standard input")
    parser.add_argument("result", type=Path, help="where the result goes, as JSON")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder to work in")
    parser.add_argument("--step", type=int, default=step, help="pages between two rates")
    parser.add_argument("--head-pages", type=int, help="as of streamer replay")
    return parser


def pin() -> None:
    """Keep this process on the cores that the targets are for."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def main() -> None:
    """Run one replay as the command line says; write the result as JSON."""
    parser = replay_options("Replay a corpus once and measure it.", STEP)
    parser.add_argument("--stages", action="store_true", help="wrap the stages to time them")
    arguments = parser.parse_args()
    pin()
    run = timed_replay(
        arguments.pages,
        arguments.folder,
        step=arguments.step,
        head_pages=arguments.head_pages,
        stages=arguments.stages,
    )
    arguments.result.write_bytes(msgspec.json.encode(run))


if __name__ == "__main__":
    main()
