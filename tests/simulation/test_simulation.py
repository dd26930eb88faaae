"""The promises under every interleaving, kill and loss that a seed can think of.

SIMULATION_SEEDS sets how many seeds run (100 by default); SIMULATION_FIRST the first one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamer.index.shard import Shard
from tests.simulation.broken_rules import RULES, WORLD_FLAWS
from tests.simulation.world import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "100"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
CHUNK = 25
MUTANT_SEEDS = 200

Broken = (AssertionError, KeyError, IndexError)


def _run(
    seed: int, folder: Path, machine: type[Shard] = Shard, flaws: tuple[str, ...] = ()
) -> None:
    target = folder / str(seed)
    target.mkdir()
    World(seed, target, machine, frozenset(flaws)).run()


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_the_promises_hold_under_any_interleaving(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + SEEDS)):
        try:
            _run(seed, tmp_path)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("rule", [*RULES, *WORLD_FLAWS])
def test_a_broken_rule_is_noticed(rule: str, tmp_path: Path) -> None:
    machine = RULES[rule]() if rule in RULES else Shard
    flaws = (rule,) if rule in WORLD_FLAWS else ()
    for seed in range(MUTANT_SEEDS):
        try:
            _run(seed, tmp_path, machine, flaws)
        except Broken:
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not notice that the rule {rule} is broken")
