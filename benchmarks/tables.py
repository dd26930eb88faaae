"""The results as tables for a terminal: figures beside budgets and targets, and no judgement.

Nothing is computed here but the rounding. A target that is missed shows by its figure; the exit
code of a benchmark never depends on speed.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.throughput import STEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from benchmarks.machine import Machine
    from benchmarks.quality import Quality
    from benchmarks.signing import Signing
    from benchmarks.throughput import Throughput


def print_machine(console: Console, machine: Machine) -> None:
    """Print what the figures were measured on."""
    packages = ", ".join(
        f"{name} {version or 'absent'}" for name, version in machine.packages.items()
    )
    console.print(
        f"{machine.processor}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB,"
        f" load {machine.load}; {machine.system}; Python {machine.python}; {packages};"
        f" commit {machine.commit or 'unknown'}",
        highlight=False,
    )
    if machine.is_busy:
        console.print("The machine is busy: these figures are not to be quoted.")


def print_throughput(console: Console, result: Throughput) -> None:
    """Print rate, memory and index, then the stages beside their budgets."""
    if result.corpus is None or result.run is None:
        console.print(result.sentence)
        return
    table = _table("throughput: JSON lines to verdicts, index on disk, two cores", "", "")
    for name, value in _throughput_lines(result):
        table.add_row(name, value)
    console.print(table)
    stages = _table(
        "CPU a page, from a second run with the stages wrapped", "stage", "us", "budget us"
    )
    for stage in result.stages:
        budget = "" if stage.budget_us is None else f"{stage.budget_us:g}"
        stages.add_row(stage.name, f"{stage.cpu_us:.2f}", budget)
    stages.add_row("of these the wrapping itself, about", f"{result.overhead_us:.3f}", "")
    console.print(stages)


def _throughput_lines(result: Throughput) -> Iterator[tuple[str, str]]:
    corpus, run = result.corpus, result.run
    assert corpus is not None, result
    assert run is not None, result
    made = "was there" if corpus.seconds is None else f"made in {corpus.seconds:.1f} s"
    yield "corpus", f"{corpus.pages:,} pages, {corpus.size_bytes / 1e9:.2f} GB, {made}"
    yield "pages/s", f"{result.rate:,.0f}"
    yield "  target, ratio", f"{result.target:,.0f}, {result.ratio:.2f}"
    yield f"  each {STEP:,}", " ".join(f"{rate:,.0f}" for rate in result.rates)
    yield "  slowest / fastest of these", f"{result.flatness:.2f}"
    yield "CPU us a page, whole process", f"{result.cpu_us:.1f}"
    yield "peak memory", f"{run.peak_rss_bytes / 2**20:,.0f} MiB"
    yield "kept pages", f"{run.unique:,}"
    yield "index bytes a kept page", f"{result.index_bytes_a_page:.0f}"
    yield "duplicates", f"{run.duplicates:,}"
    yield "  verified on a page in the runs", f"{run.duplicates_of_runs:,}"


def print_signing(console: Console, result: Signing) -> None:
    """Print the peers' times a page, and how many times ours each is."""
    table = _table(
        f"raw text to signature: {result.pages:,} pages of {result.mean_bytes:,.0f} bytes,"
        f" {result.rounds} rounds, one thread",
        "", "median us", "fastest us", "times ours", "target",
    )  # fmt: skip
    for peer in result.peers:
        target = "" if peer.target is None else f"{peer.target:g}"
        table.add_row(
            peer.name,
            f"{peer.median_us:.1f}",
            f"{peer.fastest_us:.1f}",
            f"{peer.ratio:.1f}",
            target,
        )
    console.print(table)
    for name in result.absent:
        console.print(f"{name} is not compared: it is not installed.")


def print_quality(console: Console, results: Sequence[Quality]) -> None:
    """Print a table for each collection, a line for each detector."""
    for collection, group in groupby(results, lambda one: one.collection):
        judged = list(group)
        table = _table(
            f"{collection}, target {judged[0].target}; least and median over the keys",
            "", "precision", "recall", "F1", "right", "wrong", "missed", "s",
        )  # fmt: skip
        for result in judged:
            if result.trials:
                table.add_row(result.detector, *_quality_cells(result))
        if table.row_count:
            console.print(table)
        for result in judged:
            if result.sentence:
                console.print(result.sentence)


def _quality_cells(result: Quality) -> Iterator[str]:
    """Yield the cells of a detector's line; of counts the least and the greatest."""
    for figure in ("precision", "recall", "f1"):
        yield f"{result.values(figure)[0]:.4f} {result.median(figure):.4f}"
    for figure in ("right", "wrong", "missed"):
        yield _range(result.values(figure))
    yield f"{result.median('seconds'):.2f}"


def _range(values: Sequence[float]) -> str:
    """Return the least and the greatest of ascending counts."""
    first, last = round(values[0]), round(values[-1])
    return f"{first}" if first == last else f"{first}-{last}"


def _table(title: str, *columns: str) -> Table:
    """Return a table whose first column is text and whose others are figures."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.show_header = any(columns)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    return table
