"""What a campaign is: something done to the system many times over, and what it counts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import msgspec


class Outcome(msgspec.Struct):
    """What a campaign found.

    Attributes:
        rounds: how many were done.
        violations: one line each: what was broken, and how to repeat it (round and seed).
        worst_pause_seconds: the longest time without the progress that there should have been; None
            where there is nothing that could pause.
        figures: what else was measured, by a name that a reader understands.
    """

    rounds: int
    violations: list[str] = []
    worst_pause_seconds: float | None = None
    figures: dict[str, float | int | str] = {}


class Campaign(NamedTuple):
    """A campaign: `run(rounds, seed, folder)` does it in an empty folder and returns what it found.

    Attributes:
        what: what is done in a round and what must hold, in one sentence.
        rounds: how many `make campaign` does.
        rounds_in_short: how many `--short` does: all campaigns then take half an hour.
        rounds_in_ci: how many continuous integration does, in less than a minute.
    """

    name: str
    what: str
    rounds: int
    rounds_in_short: int
    rounds_in_ci: int
    run: Callable[[int, int, Path], Outcome]


# The campaigns, as modules of this folder: one that stands here and is missing is an error.
MODULES = (
    "damage",
    "hostile",
    "forgotten",
    "strangers",
    "disk_full",
    "network",
    "resets",
    "clock",
    "chaos",
    "forgery",
    "oracle",
    "crowd",
    "boilerplate",
    "encodings",
    "bombs",
    "fuzz",
    "kept",
    "simulator",
    "soak",
)

# Whose slice in continuous integration is another test: `rounds_in_ci` is 0, and this names it.
ELSEWHERE = {
    "simulator": "tests/simulation/test_simulation.py::"
    "test_the_promises_hold_under_any_interleaving",
    "kept": "tests/integration/test_replay_kills.py::"
    "test_killed_replays_end_with_the_verdicts_of_a_quiet_one",
    "chaos": "tests/integration/test_chaos.py::test_workers_keep_the_promises_under",
}


def campaigns() -> dict[str, Campaign]:
    """Return all campaigns by name, in the order in which they are run.

    Raises:
        ModuleNotFoundError: one that MODULES lists is not there.
    """
    modules = [import_module(f"tests.campaign.{name}") for name in MODULES]
    found: list[Campaign] = [module.CAMPAIGN for module in modules]
    named = {campaign.name: campaign for campaign in found}
    assert len(named) == len(found), [campaign.name for campaign in found]
    return named
