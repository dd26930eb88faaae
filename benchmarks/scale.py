"""Ten million pages in one process: does the rate hold, and what do disk and memory come to?

The pages come from a source process through a pipe, since as a file they would fill the disk; on a
machine of two cores the source takes its share from the run, so what it costs is next to the
figures. All that the run writes is in one folder, which is removed before and after it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from benchmarks import memory, start_time
from benchmarks.corpus_file import REPLAY_BYTES, CorpusFile, DiskTooSmall, obtain
from benchmarks.figures import Figure, figures_table, mebibytes
from benchmarks.machine import ROOT
from benchmarks.salted_source import SourceCost
from benchmarks.timed_replay import Run, replay_in, warm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.table import Table

PAGES = 10_000_000
BASE_PAGES = 1_000_000
SOURCE_MODULE = "benchmarks.salted_source"
STEP = 1_000_000


class Scale(msgspec.Struct, frozen=True):
    """The measurement; or, with a `sentence`, why there is none.

    Attributes:
        source_alone: what the source costs where nobody reads it.
        source: what it cost in the run, with the pipe.
        rate: pages a second of the whole run, its last flush included; `rate_target` also.
        last_to_first: the rate of the last million next to that of the first.
        cpu_us: microseconds of CPU a page, without the source.
        index_bytes_a_page: of the index's files, a kept page.
        start: of a start over the index that the run has left.
    """

    sentence: str | None = None
    source_alone: SourceCost | None = None
    source: SourceCost | None = None
    run: Run | None = None
    start: start_time.StartTime | None = None
    rate: float = 0.0
    rate_target: float = 41_667
    rates: list[float] = []
    last_to_first: float = 0.0
    last_to_first_target: float = 0.85
    cpu_us: float = 0.0
    index_bytes_a_page: float = 0.0
    index_bytes_a_page_target: float = 600
    peak_bytes: int = 0
    peak_bytes_target: int = memory.PEAK_TARGET_BYTES


def measure(
    folder: Path,
    pages: int = PAGES,
    *,
    base_pages: int = BASE_PAGES,
    step: int = STEP,
    head_pages: int | None = None,
    start_rounds: int = start_time.ROUNDS,
    killed_pages: int = start_time.KILLED_PAGES,
) -> Scale:
    """Measure the replay of `pages` pages made of `base_pages`, working in `folder`/scale.

    Then starts over the index that is left, with so many rounds; with none they are not measured.

    Raises:
        subprocess.CalledProcessError: a process failed; it has said why on standard error.
    """
    with scratch(folder / "scale") as work:
        try:
            base = obtain(folder, base_pages)
            obtain(folder, killed_pages, start_time.SEED)  # what is needed last must fit, too
            _check_disk(work, pages)
            warm(folder)
        except DiskTooSmall as error:
            return Scale(sentence=f"Scale is not measured: {error}")
        alone = source_cost(base, work)
        source, run = _piped(base, work, pages, step=step, head_pages=head_pages)
        start = None
        if start_rounds:
            index = work / "replay" / "index"
            start = start_time.measure(
                folder, index, rounds=start_rounds, killed_pages=killed_pages
            )
    return summarise(alone, source, run, start)


@contextmanager
def scratch(work: Path) -> Iterator[Path]:
    """Make a folder that is empty before, and gone after."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield work.absolute()
    finally:
        shutil.rmtree(work)


def _check_disk(folder: Path, pages: int) -> None:
    free_bytes, needed_bytes = shutil.disk_usage(folder).free, pages * REPLAY_BYTES
    if free_bytes < needed_bytes:
        raise DiskTooSmall(
            f"{folder} has {free_bytes / 1e9:.1f} GB free, {pages:,} pages need"
            f" {needed_bytes / 1e9:.1f} GB. Free some, or give fewer pages."
        )


def source_cost(base: CorpusFile, work: Path) -> SourceCost:
    """Return what one pass of the source costs, into nothing."""
    report = work / "source-alone.json"
    subprocess.run(
        [*source_command(base.path, base.pages, base.pages), "--report", str(report)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return msgspec.json.decode(report.read_bytes(), type=SourceCost)


def source_command(base: Path, base_pages: int, pages: int) -> list[str]:
    """Return the command that writes so many pages, made of a corpus of `base_pages`."""
    return [
        sys.executable, "-m", SOURCE_MODULE, str(base.absolute()),
        "--base-pages", str(base_pages), "--pages", str(pages),
    ]  # fmt: skip


def _piped(
    base: CorpusFile, work: Path, pages: int, *, step: int, head_pages: int | None
) -> tuple[SourceCost, Run]:
    """Run source and replay with a pipe between them; both have ended when this returns."""
    report = work / "source.json"
    command = [*source_command(base.path, base.pages, pages), "--report", str(report)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as source:
        try:
            run = replay_in(
                work / "replay", "-", source.stdout, step=step, head_pages=head_pages, memory=True
            )
        except subprocess.CalledProcessError:
            source.kill()  # it waits for the reader
            raise
        if source.wait():  # what it has not written, the replay does not miss
            raise subprocess.CalledProcessError(source.returncode, source.args)
    return msgspec.json.decode(report.read_bytes(), type=SourceCost), run


def summarise(
    alone: SourceCost, source: SourceCost, run: Run, start: start_time.StartTime | None
) -> Scale:
    """Return the figures next to their targets."""
    rates = run.rates
    return Scale(
        source_alone=alone,
        source=source,
        run=run,
        start=start,
        rate=run.rate,
        rates=rates,
        last_to_first=rates[-1] / rates[0] if rates else 0.0,
        cpu_us=run.cpu_us,
        index_bytes_a_page=run.index_bytes_a_page,
        peak_bytes=run.peak_bytes,
    )


def tables(result: Scale) -> Iterator[Table | str]:
    """Yield rate and sizes, what the memory is made of, the starts; or why there is nothing."""
    if result.run is None:
        yield result.sentence or "Scale is not measured."
        return
    yield table(result)
    if result.run.memory is not None:
        yield memory.table(result.run.memory)
    if result.start is not None:
        yield start_time.table(result.start)


def table(result: Scale) -> Table:
    """Return rate and sizes next to their targets."""
    return figures_table(
        "scale: pages from a pipe to verdicts, index on disk, two cores", _figures(result)
    )


def _figures(result: Scale) -> list[Figure]:
    run, source, alone = result.run, result.source, result.source_alone
    assert run is not None, result
    assert source is not None, result
    assert alone is not None, result
    return [
        Figure("pages", f"{run.pages:,}"),
        Figure(
            "source, CPU us a page", f"{alone.cpu_us:.1f} alone, {source.cpu_us:.1f} in the run"
        ),
        Figure("pages/s", f"{result.rate:,.0f}", f"{result.rate_target:,.0f}"),
        Figure("  of each part", " ".join(f"{rate:,.0f}" for rate in result.rates)),
        Figure("  last / first", f"{result.last_to_first:.2f}", f"{result.last_to_first_target}"),
        Figure("CPU us a page", f"{result.cpu_us:.1f}"),
        Figure("peak memory", mebibytes(result.peak_bytes), mebibytes(result.peak_bytes_target)),
        Figure("  at the end of each part", _samples(run, anonymous=False)),
        Figure("  of it anonymous", _samples(run, anonymous=True)),
        Figure(
            "index bytes a kept page",
            f"{result.index_bytes_a_page:.0f}",
            f"{result.index_bytes_a_page_target:.0f}",
        ),
        Figure("kept pages", f"{run.unique:,}"),
        Figure("duplicates", f"{run.duplicates:,}, {run.duplicates / run.pages:.1%}"),
    ]


def _samples(run: Run, *, anonymous: bool) -> str:
    sizes = [one.anonymous_bytes if anonymous else one.rss_bytes for one in run.samples]
    return " ".join(mebibytes(size).removesuffix(" MiB") for size in sizes) + " MiB"
