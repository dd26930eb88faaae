"""The report's plots, as SVG files that come out the same for the same results.

Names in the files are hashed with a fixed salt, and they carry no date, so that a plot changes in
the repository only when its figures do. Targets and budgets are drawn as lines or hollow bars; a
plot judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.growth import DISK_TARGET, MEMORY_TARGET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.growth import Growth
    from benchmarks.kafka_latency import KafkaLatency
    from benchmarks.lsh import Lsh
    from benchmarks.scale import Scale
    from benchmarks.signing import Signing
    from benchmarks.throughput import Throughput
    from benchmarks.timed_replay import Span

STYLE: dict[Any, str] = {
    "svg.hashsalt": "streamer",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
}
NO_METADATA = {"Date": None, "Creator": None}
OURS, OTHERS, TARGET = "#1f5fa8", "#9aa5b1", "#b3261e"
WIDTH = 7.0  # inches
BAR = 0.35  # inches of height a bar

Draw = Callable[[Any], Figure | None]


def save(figure: Figure, path: Path) -> None:
    """Write a plot as SVG."""
    with mpl.rc_context(STYLE):
        figure.savefig(path, format="svg", metadata=NO_METADATA)


def rate(result: Throughput) -> Figure | None:
    """Draw pages a second over the pages judged before, next to the target."""
    if result.run is None or not result.run.spans:
        return None
    figure, axes = _axes(3.2)
    _rates(axes, result.run.spans, result.target)
    return figure


def stages(result: Throughput) -> Figure | None:
    """Draw each stage's CPU time next to its budget."""
    if not result.stages:
        return None
    listed = result.stages[::-1]  # the first stage on top
    figure, axes = _axes(BAR * len(listed) + 1)
    names = [stage.name for stage in listed]
    budgets = [stage.budget_us or 0.0 for stage in listed]
    axes.barh(names, budgets, fill=False, edgecolor=TARGET, label="budget")
    axes.barh(names, [stage.cpu_us for stage in listed], height=0.5, color=OURS, label="measured")
    axes.set(xlabel="CPU µs a page")
    _legend(axes)
    return figure


def signers(result: Signing) -> Figure:
    """Draw the signers' times a page on a logarithmic scale."""
    return _bars([(one.name, one.median_us) for one in result.peers], "CPU µs a page")


def indexes(result: Lsh) -> Figure:
    """Draw the indexes' times a document on a logarithmic scale."""
    return _bars([(one.name, one.us) for one in result.systems], "µs a document")


def latency(result: KafkaLatency) -> Figure:
    """Draw the quantiles of the verdicts' latency, next to the target of the 99th."""
    names = ["p50", "p99", "p99.9"]
    figure, axes = _axes(BAR * len(names) + 1)
    axes.barh(names[::-1], [result.p999, result.p99, result.p50], height=0.5, color=OURS)
    axes.axvline(result.target_p99, color=TARGET, linestyle="--", label="target of p99")
    axes.set(xlabel=f"ms at {result.rate:,.0f} pages/s")
    _legend(axes)
    return figure


def scale(result: Scale) -> Figure | None:
    """Draw rate and memory over the pages judged before, one above the other."""
    if result.run is None or not result.run.spans:
        return None
    figure = Figure(figsize=(WIDTH, 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    spans, samples = result.run.spans, result.run.samples
    _rates(above, spans, result.rate_target)
    at = [sample.pages / 1e6 for sample in samples]
    for name, sizes, color in (
        ("all", [sample.rss_bytes for sample in samples], OURS),
        ("anonymous", [sample.anonymous_bytes for sample in samples], OTHERS),
    ):
        below.plot(at, [size / 2**20 for size in sizes], marker=".", color=color, label=name)
    limit = result.peak_bytes_target / 2**20
    below.axhline(limit, color=TARGET, linestyle="--", label="target of the peak")
    below.set(xlabel="million pages judged", ylabel="MiB in memory", ylim=(0, None))
    _legend(below)
    return figure


def growth(result: Growth) -> Figure:
    """Draw memory, disk and time a page over the pages that are kept, with the targets."""
    kept = [sample.kept / 1e6 for sample in result.samples]
    columns: tuple[tuple[str, list[float], float | None], ...] = (
        ("bytes of memory\na kept page", [s.memory_bytes for s in result.samples], MEMORY_TARGET),
        ("bytes of disk\na kept page", [s.disk_bytes for s in result.samples], DISK_TARGET),
        ("µs a page", [s.wall_us for s in result.samples], None),
    )
    figure = Figure(figsize=(WIDTH, 1.7 * len(columns)), layout="constrained")
    for axes, (name, values, target) in zip(
        figure.subplots(len(columns), sharex=True), columns, strict=True
    ):
        axes.plot(kept, values, marker=".", color=OURS)
        if target is not None:
            axes.axhline(target, color=TARGET, linestyle="--", label="target")
            _legend(axes)
        axes.set(ylabel=name, ylim=(0, None), xlim=(0, None))
    axes.set(xlabel="million pages kept")
    return figure


def _rates(axes: Axes, spans: Sequence[Span], target: float) -> None:
    """Draw each span's rate over the pages before, next to the target."""
    ends = [pages / 1e6 for pages in accumulate(span.pages for span in spans)]
    rates = [span.pages / span.seconds for span in spans]
    axes.stairs(rates, [0.0, *ends], color=OURS, baseline=None)
    axes.axhline(target, color=TARGET, linestyle="--", label="target")
    axes.set(xlabel="million pages judged", ylabel="pages/s", ylim=(0, 1.1 * max(*rates, target)))
    _legend(axes)


def _bars(values: list[tuple[str, float]], unit: str) -> Figure:
    """Draw bars from top to bottom, the first of them ours, each with its value."""
    figure, axes = _axes(BAR * len(values) + 1)
    names, lengths = zip(*reversed(values), strict=True)
    colors = [OTHERS] * (len(values) - 1) + [OURS]
    drawn = axes.barh(names, lengths, height=0.6, color=colors)
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    axes.set(xlabel=unit, xscale="log", xlim=(1, 2 * max(lengths)))
    return figure


def _axes(height: float) -> tuple[Figure, Axes]:
    """Return a figure so many inches high, with its axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(axes: Axes) -> None:
    """Show the legend above the plot, where it hides nothing."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
