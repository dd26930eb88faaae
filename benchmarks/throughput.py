"""Throughput: pages a second from JSON lines to verdicts, index on disk, and each stage's share.

Two replays of the same corpus, each in a process of its own: the first is left alone and gives rate
and memory; in the second the stages are wrapped and give their CPU time. The second has all pages
too, because costs grow with the index. Before both, a small replay compiles the kernels. The corpus
is made or found first; the time for that is reported apart.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.corpus_file import CorpusFile, DiskTooSmall, obtain
from benchmarks.machine import ROOT
from benchmarks.stage_clock import STAGES
from benchmarks.timed_replay import Run, Span

PAGES = 1_000_000
STEP = 100_000
RATE_TARGET = 25_000  # pages/s
WARM_PAGES = 2_000
WARM_HEAD_PAGES = 64  # a small head flushes, so that every kernel is called


class StageTime(msgspec.Struct, frozen=True):
    """CPU time of a stage in microseconds a page, beside its budget."""

    name: str
    budget_us: float | None
    cpu_us: float


class Throughput(msgspec.Struct, frozen=True):
    """The measurement; or, with a `sentence`, why there is none.

    `stages` ends with what no stage accounts for: the rest of the process, with its start and the
    store's own threads. `overhead_us` is what the wrapping of the stages cost a page, in that run.
    """

    sentence: str | None = None
    corpus: CorpusFile | None = None
    run: Run | None = None
    rate: float = 0.0
    rates: list[float] = []
    target: float = RATE_TARGET
    ratio: float = 0.0
    flatness: float = 0.0
    index_bytes_a_page: float = 0.0
    cpu_us: float = 0.0
    stages: list[StageTime] = []
    overhead_us: float = 0.0


def measure(
    folder: Path, pages: int = PAGES, *, step: int = STEP, head_pages: int | None = None
) -> Throughput:
    """Measure the replay of `pages` pages, working in `folder`.

    Raises:
        subprocess.CalledProcessError: a replay failed; it has said why on standard error.
    """
    try:
        corpus = obtain(folder, pages)
        small = obtain(folder, WARM_PAGES)
    except DiskTooSmall as error:
        return Throughput(sentence=f"Throughput is not measured: {error}")
    replay(folder, small.path, step=step, head_pages=WARM_HEAD_PAGES, stages=False)
    alone = replay(folder, corpus.path, step=step, head_pages=head_pages, stages=False)
    wrapped = replay(folder, corpus.path, step=step, head_pages=head_pages, stages=True)
    return summarise(corpus, alone, wrapped)


def replay(folder: Path, pages: Path, *, step: int, head_pages: int | None, stages: bool) -> Run:
    """Run one replay in a fresh process; what it writes is removed when it is done."""
    with tempfile.TemporaryDirectory(prefix="replay-", dir=folder.absolute()) as scratch:
        result, work = Path(scratch) / "result.json", Path(scratch) / "work"
        work.mkdir()
        options = ["--folder", str(work), "--step", str(step)]
        options += ["--head-pages", str(head_pages)] if head_pages else []
        options += ["--stages"] if stages else []
        subprocess.run(
            [sys.executable, "-m", "benchmarks.timed_replay", pages.absolute(), result, *options],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return msgspec.json.decode(result.read_bytes(), type=Run)


def summarise(corpus: CorpusFile, alone: Run, wrapped: Run) -> Throughput:
    """Return rate and memory of the run left alone, and the stages of the wrapped one."""
    rate = alone.pages / alone.seconds
    rates = [span.pages / span.seconds for span in _whole(alone.spans)]
    return Throughput(
        corpus=corpus,
        run=alone,
        rate=rate,
        rates=rates,
        ratio=rate / RATE_TARGET,
        flatness=min(rates) / max(rates) if rates else 0.0,
        index_bytes_a_page=alone.index_bytes / max(1, alone.index_pages),
        cpu_us=1e6 * alone.cpu_seconds / alone.pages,
        stages=_stage_times(wrapped),
        overhead_us=1e6 * wrapped.overhead_seconds / wrapped.pages,
    )


def _whole(spans: list[Span]) -> list[Span]:
    """Return the spans without a last one that is too short to compare."""
    return spans[:-1] if len(spans) > 1 and spans[-1].pages < spans[0].pages / 2 else spans


def _stage_times(run: Run) -> list[StageTime]:
    times = [
        StageTime(stage.name, stage.budget_us, 1e6 * run.stages[stage.name] / run.pages)
        for stage in STAGES
    ]
    rest = 1e6 * run.cpu_seconds / run.pages - sum(time.cpu_us for time in times)
    return [*times, StageTime("not in a stage", None, rest)]
