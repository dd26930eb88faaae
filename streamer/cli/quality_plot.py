"""Quality against speed as a picture: a point a method, a panel a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from streamer.cli.plot_file import check_plot, save_figure
from streamer.evaluation.trial import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_INCHES, PANEL_INCHES = 8.0, 4.5


def draw_quality(trials: Sequence[Trial], path: Path) -> None:
    """Write F1 over pages a second to a PNG or SVG file.

    Raises:
        SettingsError: as `check_plot`.
        InputError: the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, needed here alone

    groups = [list(group) for _, group in groupby(trials, key=lambda trial: trial.dataset)]
    figure = Figure(figsize=(WIDTH_INCHES, PANEL_INCHES * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), squeeze=False)
    for axes, group in zip(panels[:, 0], groups, strict=True):
        _panel(axes, group)
    save_figure(figure, path)


def _panel(axes: Axes, trials: Sequence[Trial]) -> None:
    rates = [trial.pages_per_second for trial in trials]
    axes.scatter(rates, [trial.pages.f1 or 0.0 for trial in trials], s=16)
    for trial in trials:
        place = (trial.pages_per_second, trial.pages.f1 or 0.0)
        axes.annotate(trial.method, place, (3, 3), textcoords="offset points", fontsize=7)
    axes.set(
        title=trials[0].dataset,
        xlabel="pages a second of CPU time",
        ylabel="F1 of pages",
        xscale="log",
        ylim=(-0.05, 1.05),
    )
