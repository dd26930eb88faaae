"""Damage to an index: a byte flipped, a file cut short or removed, and then used as ever.

The indexes and what must hold are those of tests/property/test_index_damage.py.
"""

from pathlib import Path
from random import Random

from tests.helpers.damage import some_damage
from tests.property.test_index_damage import is_refused, make_indexes


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Damage an index and use it, so many times."""
    indexes, violations = make_indexes(folder), list[str]()
    for number in range(rounds):
        index = indexes[number % len(indexes)]
        damage = some_damage(index.folder, Random(f"{seed}/{number}"))
        try:
            is_refused(index, damage)
        except AssertionError as error:
            violations.append(f"round {number}, seed {seed}: {index.kind}, {damage}: {error}")
    return violations
