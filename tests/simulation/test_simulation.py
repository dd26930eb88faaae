"""The promises under every interleaving, kill and loss that a seed can think of.

`python -m tests.campaign FOLDER simulator` runs more seeds, from any one on.
"""

from __future__ import annotations

import pytest

from streamer.index.shard import Shard
from tests.simulation.broken_rules import RULES, WORLD_FLAWS
from tests.simulation.world import run_seed

SEEDS = 300
CHUNK = 25
MUTANT_SEEDS = 200
# The first seeds that notice a rule, where they are late: tried before all others, for speed.
LATE = {
    "near-is-undecided": 30, "container-is-undecided": 136, "reshard-content-only": 39,
    "reshard-no-watermark": 210, "text-not-passed-on": 9, "held-text-lost": 41,
    "scope-takes-no-place": 34, "renewed-late": 22, "renewals-judged": 23,
}  # fmt: skip

Broken = (AssertionError, KeyError, IndexError, AttributeError)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_promises_hold_under_any_interleaving(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            run_seed(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("rule", [*RULES, *WORLD_FLAWS])
def test_a_broken_rule_is_noticed(rule: str) -> None:
    machine = RULES[rule]() if rule in RULES else Shard
    flaws = frozenset({rule} if rule in WORLD_FLAWS else ())
    for seed in (LATE.get(rule, 0), *range(MUTANT_SEEDS)):
        try:
            run_seed(seed, machine, flaws)
        except Broken:
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not notice that the rule {rule} is broken")
