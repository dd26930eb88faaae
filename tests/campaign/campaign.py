"""The three campaigns: chaos, damage and simulation. Each is a matrix of rows that run many times.

A row does one kind of harm to the system, so many rounds of it, and returns what was broken, a line
each. Equal seeds do the same. Continuous integration runs the short rounds of each row
(tests/integration/test_campaign.py), `make campaign` the long ones.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

CAMPAIGNS = ("chaos", "damage", "simulation")  # modules of this folder; each has ROWS


class Row(NamedTuple):
    """One kind of harm: `run(rounds, seed, folder)` works in an empty folder.

    Attributes:
        what: what is done in a round, and what must hold.
        rounds: how many `make campaign` does.
        short: how many continuous integration does, in a minute or less.
        needs: what this machine must have: "broker", "root" or nothing.
    """

    name: str
    what: str
    rounds: int
    short: int
    run: Callable[[int, int, Path], list[str]]
    needs: str = ""


def rows_of(campaign: str) -> tuple[Row, ...]:
    """Return the rows of a campaign."""
    rows: tuple[Row, ...] = import_module(f"tests.campaign.{campaign}").ROWS
    return rows
