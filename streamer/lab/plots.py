"""Pictures of the command line: S-curves of bandings, and quality against speed of methods.

matplotlib is an extra of the package; it is imported only where a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from streamer.errors import InputError, SettingsError
from streamer.lab.tuning import Banding, detection_probability
from streamer.run.outputs import check_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from streamer.lab.trial import Trial


SUFFIXES = (".png", ".svg")
CURVE_POINTS = 401
CURVE_INCHES = (7.0, 4.2)
PANEL_INCHES = (8.0, 4.5)


def check_plot(path: Path) -> None:
    """Raise what stands against a picture in this file, before any work is done.

    Raises:
        SettingsError: the file's ending is none that is known, it cannot be written, or matplotlib
            is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise SettingsError(f"--plot {path} must end in {' or '.join(SUFFIXES)}.")
    try:
        import matplotlib as _  # noqa: F401, ICN001, PLC0415 - an extra, needed here alone
    except ModuleNotFoundError as error:
        raise SettingsError(
            "--plot needs matplotlib; install it with `pip install 'streamer[plot]'`."
        ) from error
    check_writable(path)


def _save(figure: Figure, path: Path) -> None:
    """Write a figure to a PNG or SVG file that `check_plot` has let pass.

    Raises:
        InputError: the file cannot be written.
    """
    import matplotlib as mpl  # noqa: PLC0415 - as in check_plot

    kind = path.suffix.lower()[1:]
    try:
        # Without a date and with fixed names, an SVG file is the same whenever it is drawn.
        with mpl.rc_context({"svg.hashsalt": "streamer"}):
            figure.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else None)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; choose another file") from error


def draw_curves(bandings: Sequence[Banding], threshold: float, path: Path) -> None:
    """Write the S-curves of bandings to a PNG or SVG file; the first one's errors are shaded.

    Raises:
        SettingsError: as `check_plot`.
        InputError: the file cannot be written.
    """
    check_plot(path)
    _save(_curves(bandings, threshold), path)


def _curves(bandings: Sequence[Banding], threshold: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, needed here alone

    figure = Figure(figsize=CURVE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    places = [i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
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


def draw_quality(trials: Sequence[Trial], path: Path) -> None:
    """Write F1 over pages a second to a PNG or SVG file.

    Raises:
        SettingsError: as `check_plot`.
        InputError: the file cannot be written.
    """
    check_plot(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, needed here alone

    groups = [list(group) for _, group in groupby(trials, key=lambda trial: trial.dataset)]
    width, height = PANEL_INCHES
    figure = Figure(figsize=(width, height * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), squeeze=False)
    for axes, group in zip(panels[:, 0], groups, strict=True):
        _panel(axes, group)
    _save(figure, path)


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
