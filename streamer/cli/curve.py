"""The S-curve of bandings as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamer.cli.plot_file import check_plot, save_figure
from streamer.sketch.tuning import Banding, detection_probability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 401
SIZE_INCHES = (7.0, 4.2)


def draw_curves(bandings: Sequence[Banding], threshold: float, path: Path) -> None:
    """Write the S-curves of bandings to a PNG or SVG file; the first one's errors are shaded.

    Raises:
        SettingsError: as `check_plot`.
        InputError: the file cannot be written.
    """
    check_plot(path)
    save_figure(_figure(bandings, threshold), path)


def _figure(bandings: Sequence[Banding], threshold: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, needed here alone

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    places = [i / (POINTS - 1) for i in range(POINTS)]
    for number, banding in enumerate(bandings):
        curve = [detection_probability(s, banding.bands, banding.rows) for s in places]
        label = f"{banding.bands} x {banding.rows}"
        axes.plot(places, curve, label=label, linewidth=2 if number == 0 else 1)
        if number == 0:
            below = [s <= threshold for s in places]
            above = [s >= threshold for s in places]
            axes.fill_between(places, curve, where=below, alpha=0.25, label="false positives")
            axes.fill_between(places, curve, 1, where=above, alpha=0.25, label="false negatives")
    axes.axvline(threshold, linestyle="--", linewidth=1, color="black")
    axes.set(
        xlabel="resemblance", ylabel="probability of a shared band key", xlim=(0, 1), ylim=(0, 1.01)
    )
    axes.legend(title="bands x rows", frameon=False)
    return figure
