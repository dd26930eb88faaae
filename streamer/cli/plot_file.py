"""A picture's file: which kinds there are, whether one can be made, and how it is written.

matplotlib is an extra of the package; it is imported only where a picture is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamer.errors import InputError, SettingsError
from streamer.stream.outputs import check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")


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


def save_figure(figure: Figure, path: Path) -> None:
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
