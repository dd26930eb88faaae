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
# The first seed that notices a rule, where it is not 0: tried before all others, for speed.
LATE = {
    "mark-last": 1,
    "settings-in-code": 1,
    "stored-versions-first": 1,
    "versions-lost": 1,
    "expired-in-store": 3,
    "expires-when-dropped": 3,
    "hole-taken": 3,
    "text-lost": 3,
    "times-as-they-come": 3,
    "cap-at-flush": 5,
    "dates-believed": 5,
    "no-jumps": 5,
    "cap-per-store": 5,
    "expired-in-buckets": 5,
    "forgets-later-pages": 5,
    "memtable-remembers": 5,
    "no-forgotten": 5,
    "no-generation": 5,
    "old-versions-answer": 5,
    "store-remembers": 5,
    "versions-remembered": 5,
    "horizon-of-settings": 6,
    "no-horizon": 6,
    "answers-at-once": 7,
    "dropped-early": 8,
    "newest-when-dropped": 10,
    "last-of-equals": 21,
}

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
