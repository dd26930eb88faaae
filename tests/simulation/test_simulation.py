"""The promises under every interleaving, kill and loss that a seed can think of.

`python -m tests.campaign FOLDER simulator` runs more seeds, from any one on.
"""

from __future__ import annotations

import pytest

from streamer.index.shard import Shard
from tests.simulation.broken_rules import RULES, WORLD_FLAWS
from tests.simulation.world import run_seed

SEEDS = 100
CHUNK = 25
MUTANT_SEEDS = 200
# The first seed that notices a rule, where it is not 0: tried before all others, for speed.
LATE = {
    "candidates-memtable-first": 1, "cap-at-flush": 1, "expired-in-buckets": 1, "no-forgotten": 1,
    "old-versions-answer": 1, "renews-in-the-memtable": 1, "renews-nothing": 1,
    "retires-in-the-memtable": 1, "retires-late": 1, "store-remembers": 1,
    "stored-versions-first": 1, "times-as-they-come": 1, "versions-lost": 1, "versions-retired": 1,
    "scope-in-store-only": 2, "scope-meets-itself": 2, "cap-per-store": 3, "dropped-early": 3,
    "no-generation": 3, "retires-edited": 3, "forgets-here": 5, "forgets-later-pages": 5,
    "horizon-of-settings": 5, "memtable-remembers": 5, "no-horizon": 5, "undecided-remembered": 5,
    "answers-at-once": 6, "arrival-not-passed-on": 6, "drop-forgets": 6, "held-arrive-again": 6,
    "held-arrive-late": 6, "held-forgotten": 6, "held-remembered": 6, "no-held": 6, "no-hold": 6,
    "no-retired": 6, "reaches-back": 6, "retired-held": 6, "retires-here": 6, "settles-at-once": 6,
    "waits-for-forgotten": 6, "copies-in-memory": 7, "reshard-before-rest": 7,
    "reshard-no-positions": 7, "text-not-passed-on": 9, "renewed-late": 22, "renewals-judged": 23,
    "near-is-undecided": 30,
    "scope-takes-no-place": 34, "reshard-content-only": 39, "held-text-lost": 41,
    "copies-remembered": 58, "named-copies-kept": 58, "copies-judged": 71,
    "container-is-undecided": 136, "prefers-here": 194, "reshard-no-watermark": 210,
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
