"""Throughput: pages a second from JSON lines to verdicts, index on disk, and each stage's share.

Two replays of the same corpus, each in a process of its own: the first is left alone and gives rate
and memory; in the second the stages are wrapped and give their CPU time. The second has all pages
too, because costs grow with the index. Before both, a small replay compiles the kernels. The corpus
is made or found first; the time for that is reported apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.corpus_file import CorpusFile, DiskTooSmall, obtain
from benchmarks.figures import Figure, empty_table, figures_table, mebibytes
from benchmarks.stage_clock import STAGES
from benchmarks.timed_replay import STEP, Run, replay, warm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

PAGES = 1_000_000
RATE_TARGET = 25_000  # pages/s


class StageTime(msgspec.Struct, frozen=True):
    """CPU time of a stage in microseconds a page, next to its budget."""

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
        warm(folder)
    except DiskTooSmall as error:
        return Throughput(sentence=f"Throughput is not measured: {error}")
    alone = replay(folder, corpus.path, step=step, head_pages=head_pages)
    wrapped = replay(folder, corpus.path, step=step, head_pages=head_pages, stages=True)
    return summarise(corpus, alone, wrapped)


def summarise(corpus: CorpusFile, alone: Run, wrapped: Run) -> Throughput:
    """Return rate and memory of the run left alone, and the stages of the wrapped one."""
    rate, rates = alone.rate, alone.rates
    return Throughput(
        corpus=msgspec.structs.replace(corpus, path=Path(corpus.path.name)),  # no machine's path
        run=alone,
        rate=rate,
        rates=rates,
        ratio=rate / RATE_TARGET,
        flatness=min(rates) / max(rates) if rates else 0.0,
        index_bytes_a_page=alone.index_bytes_a_page,
        cpu_us=alone.cpu_us,
        stages=_stage_times(wrapped),
        overhead_us=1e6 * wrapped.overhead_seconds / wrapped.pages,
    )


def _stage_times(run: Run) -> list[StageTime]:
    times = [
        StageTime(stage.name, stage.budget_us, 1e6 * run.stages[stage.name] / run.pages)
        for stage in STAGES
    ]
    rest = run.cpu_us - sum(time.cpu_us for time in times)
    return [*times, StageTime("not in a stage", None, rest)]


def tables(result: Throughput) -> Iterator[Table | str]:
    """Yield rate, memory and index, then the stages next to their budgets."""
    if result.corpus is None or result.run is None:
        yield result.sentence or "Throughput is not measured."
        return
    yield figures_table(
        "throughput: JSON lines to verdicts, index on disk, two cores", _throughput_lines(result)
    )
    stages = [
        Figure(
            stage.name,
            f"{stage.cpu_us:.2f}",
            "" if stage.budget_us is None else f"{stage.budget_us:g}",
        )
        for stage in result.stages
    ]
    overhead = Figure("of these the wrapping itself, about", f"{result.overhead_us:.3f}")
    table = empty_table(
        "CPU a page, from a second run with the stages wrapped", "stage", "us", "budget us"
    )
    for stage in (*stages, overhead):
        table.add_row(*stage)
    yield table


def _throughput_lines(result: Throughput) -> Iterator[Figure]:
    corpus, run = result.corpus, result.run
    assert corpus is not None, result
    assert run is not None, result
    made = "was there" if corpus.seconds is None else f"made in {corpus.seconds:.1f} s"
    size = f"{corpus.pages:,} pages, {corpus.size_bytes / 1e9:.2f} GB, {made}"
    yield Figure("corpus", size)
    yield Figure("pages/s", f"{result.rate:,.0f}", f"{result.target:,.0f}")
    yield Figure("  times the target", f"{result.ratio:.2f}")
    yield Figure(f"  each {STEP:,}", " ".join(f"{rate:,.0f}" for rate in result.rates))
    yield Figure("  slowest / fastest of these", f"{result.flatness:.2f}")
    yield Figure("CPU us a page, whole process", f"{result.cpu_us:.1f}")
    yield Figure("peak memory", mebibytes(run.peak_rss_bytes))
    yield Figure("kept pages", f"{run.unique:,}")
    yield Figure("index bytes a kept page", f"{result.index_bytes_a_page:.0f}")
    yield Figure("duplicates", f"{run.duplicates:,}")
    yield Figure("  verified on a page that was flushed", f"{run.duplicates_of_flushed:,}")
