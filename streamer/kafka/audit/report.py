"""What an audit has found: for each promise how much was looked at, and how often it is broken.

Counts that break nothing, as repeats after a crash or pages that are still on their way, stand
beside the checks. Only checks make an audit fail.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

EXAMPLES_MAX = 5


@dataclass(slots=True)
class Check:
    """One promise: what it says, how much was looked at, and what breaks it."""

    promise: str
    looked_at: int = 0
    violations: int = 0
    examples: list[str] = field(default_factory=list)

    def violate(self, example: str, count: int = 1) -> None:
        """Count violations; the first few examples are kept."""
        self.violations += count
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(example)


class Report:
    """The checks by name, and other counts; `settled` is there only if it is asked for."""

    def __init__(self, *, settled: bool = False) -> None:
        self.outcomes = Check("each record has a verdict, or a dead letter, or is skipped")
        self.existing = Check("each verdict and dead letter is of a record that exists")
        self.repeats = Check("repeats of a verdict are byte-identical")
        self.places = Check("each verdict is in the partition of its page")
        self.representatives = Check("representatives are kept, indexed earlier, similar enough")
        self.kept_pairs = Check("no two kept pages match")
        self.verdict_bytes = Check("verdicts are those that a fresh fold of the logs gives")
        self.numbers = Check("the verdicts of each shard are numbered without gaps")
        self.log_items = Check("what shards told each other is what a fresh fold gives")
        self.holes = Check("each log covers its sources without holes")
        self.settled = Check("no page is open") if settled else None
        self.counts: Counter[str] = Counter()

    @property
    def checks(self) -> dict[str, Check]:
        """Return all checks by name, in the order in which they are shown."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Check)}

    @property
    def broken(self) -> list[str]:
        """Return the names of the checks with violations."""
        return [name for name, check in self.checks.items() if check.violations]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        checks = {
            name: {
                "promise": check.promise,
                "looked_at": check.looked_at,
                "violations": check.violations,
                "examples": check.examples,
            }
            for name, check in self.checks.items()
        }
        return {"clean": not self.broken, "checks": checks, "counts": dict(self.counts)}
