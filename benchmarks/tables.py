"""The results as tables: figures beside budgets and targets, and no judgement.

One form serves a terminal and the report. Nothing is computed here but the rounding. A target that
is missed shows by its figure; the exit code of a benchmark never depends on speed.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, empty_table, figures_table, mebibytes
from benchmarks.throughput import STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.table import Table

    from benchmarks.lsh import Lsh
    from benchmarks.machine import Machine
    from benchmarks.peers.peer import Absent
    from benchmarks.quality import Quality
    from benchmarks.signing import Signing
    from benchmarks.throughput import Throughput

    Shown = Iterator[Table | str]  # tables, and sentences where there is nothing to tabulate


def machine_line(machine: Machine) -> str:
    """Return what the figures were measured on, without the load."""
    packages = ", ".join(
        f"{name} {version or 'absent'}" for name, version in machine.packages.items()
    )
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB;"
        f" {machine.system}; Python {machine.python}; {packages};"
        f" commit {machine.commit or 'unknown'}"
    )


def throughput_tables(result: Throughput) -> Shown:
    """Yield rate, memory and index, then the stages beside their budgets."""
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


def signing_tables(result: Signing) -> Shown:
    """Yield the peers' times a page, and how many times ours each is."""
    table = empty_table(
        f"raw text to signature: {result.pages:,} pages of {result.mean_bytes:,.0f} bytes,"
        f" {result.rounds} rounds, one thread",
        "signer", "median us", "fastest us", "times ours", "target",
    )  # fmt: skip
    for peer in result.peers:
        table.add_row(
            peer.name,
            f"{peer.median_us:.1f}",
            f"{peer.fastest_us:.1f}",
            f"{peer.ratio:.1f}",
            f"{result.target:g}" if peer.name == result.fastest else "",
        )
    yield table
    yield from _absent(result.absent)


def lsh_tables(result: Lsh) -> Shown:
    """Yield the systems' times a document for query and insert."""
    table = empty_table(
        f"query and insert, the last of {result.documents:,} documents, {result.target:g} or more"
        " times ours is the target",
        "index", "rounds", "us", "CPU us", "times ours", "documents before", "duplicates",
        "peak memory",
    )  # fmt: skip
    for one in result.systems:
        table.add_row(
            one.name,
            str(one.rounds),
            f"{one.us:.1f}",
            f"{one.cpu_us:.1f}",
            f"{one.ratio:.2f} ({one.ratio_least:.2f} to {one.ratio_greatest:.2f})",
            f"{one.indexed:,}",
            f"{one.duplicates:,} of {one.timed:,}",
            mebibytes(one.peak_rss_bytes),
        )
    yield table
    for one in result.systems:
        if one.sentence:
            yield f"{one.name} was given {one.indexed:,} documents only: {one.sentence}."
    yield from _absent(result.absent)


def _absent(peers: Iterable[Absent]) -> Iterator[str]:
    for peer in peers:
        yield f"{peer.name} is not compared: {peer.reason}."


def quality_tables(results: Sequence[Quality]) -> Shown:
    """Yield a table for each collection, a line for each detector."""
    for collection, group in groupby(results, lambda one: one.collection):
        judged = list(group)
        table = empty_table(
            f"{collection}, target {judged[0].target}; least and median over the keys",
            "detector", "precision", "recall", "F1", "right", "wrong", "missed", "s",
        )  # fmt: skip
        for result in judged:
            if result.trials:
                table.add_row(result.detector, *_quality_cells(result))
        if table.row_count:
            yield table
        yield from (result.sentence for result in judged if result.sentence)


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
