"""The promises under every interleaving, kill and loss that a seed can think of.

`python -m tests.campaign build/campaign simulation` runs more seeds, from any one on.
"""

import pytest

from streamer.index.shard import Shard
from tests.simulation.broken_rules import RULES, WORLD_FLAWS
from tests.simulation.world import run_seed

SEEDS = 60
CHUNK = 20
MUTANT_SEEDS = 200
# The first seed that notices rules, where it is not 0: tried before all others, for speed.
LATE = {
    1: "mark-last settings-in-code stored-versions-first versions-lost",
    3: "expired-in-store expires-when-dropped hole-taken text-lost times-as-they-come",
    5: "cap-at-flush cap-per-store dates-believed expired-in-buckets forgets-later-pages "
    "memtable-remembers no-forgotten no-generation no-jumps old-versions-answer store-remembers "
    "versions-remembered",
    6: "horizon-of-settings no-horizon",
    7: "answers-at-once",
    8: "dropped-early",
    10: "newest-when-dropped",
    21: "last-of-equals",
}
FIRST_SEEDS = {rule: seed for seed, rules in LATE.items() for rule in rules.split()}

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
    for seed in (FIRST_SEEDS.get(rule, 0), *range(MUTANT_SEEDS)):
        try:
            run_seed(seed, machine, flaws)
        except Broken:
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not notice that the rule {rule} is broken")
