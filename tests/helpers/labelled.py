"""Labelled sets of pages, which are no part of the project: they are read from ../shared/data."""

from pathlib import Path

import pytest

from benchmarks.quality import unpacked

DATA = Path(__file__).parents[2] / "../shared/data"


def labelled_set(name: str, folder: Path) -> Path:
    """Return the folder of a set, unpacked into `folder`; leave the test out without it."""
    if pages := unpacked(folder, DATA, name):
        return pages.parent
    # The sets are no part of the project: whoever has only a checkout goes without.
    pytest.skip(f"{name}.tar.xz: put it into ../shared/data, next to this checkout")
