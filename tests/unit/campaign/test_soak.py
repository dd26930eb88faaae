"""What a soak takes for a broken promise: made-up samples, each with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.campaign import soak
from tests.campaign.campaign import Outcome

RATE = 1_000.0


def _sample(number: int, **other: object) -> soak.Sample:
    """Return one of level samples, five seconds apart, with something else in it."""
    workers = [("sign-1", 1), ("index-0", 2)]
    level: dict[str, object] = {
        "at": 5.0 * number,
        "verdicts": 5_000 * number,
        "lag": 10 + number % 3,
        "metadata_bytes": (100 << 10) + (4 << 10) * number,
        "files": 20,
        "memory": dict.fromkeys(workers, 300 << 20),
        "descriptors": dict.fromkeys(workers, 40),
    }
    return soak.Sample(**{**level, **other})  # type: ignore[arg-type]


SAMPLES = 360
WRONG: dict[str, Callable[[int], dict[str, object]]] = {
    "memory": lambda i: {"memory": {("sign-1", 1): (300 + i // 2) << 20, ("index-0", 2): 1 << 28}},
    "descriptors": lambda i: {"descriptors": {("sign-1", 1): 40, ("index-0", 2): 40 + i // 10}},
    "metadata": lambda i: {"metadata_bytes": 256 * i * i},
    "lag": lambda i: {"lag": 100 * i},
    "started again": lambda i: {
        "memory": {("sign-1", 1 + i // 250): 1 << 28, ("index-0", 2): 1 << 28},
        "descriptors": {("sign-1", 1 + i // 250): 40, ("index-0", 2): 40},
    },
}


def _violations(seen: soak.Seen) -> list[str]:
    outcome = Outcome(30)
    soak._judge(seen, RATE, outcome, long=True)  # noqa: SLF001 - the rule under test
    return outcome.violations


def test_a_level_soak_has_no_violation() -> None:
    samples = [*map(_sample, range(SAMPLES)), _sample(SAMPLES, lag=0)]
    assert _violations(soak.Seen(samples, worst_pause=12.0)) == []


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_level_in_a_soak_is_a_violation(wrong: str) -> None:
    samples = [_sample(number, **WRONG[wrong](number)) for number in range(SAMPLES)]
    samples.append(_sample(SAMPLES, **{**WRONG[wrong](SAMPLES), "lag": 0}))
    found = _violations(soak.Seen(samples))
    assert [wrong in line for line in found] == [True]


def test_what_a_process_takes_at_the_start_of_its_life_is_no_growth() -> None:
    def young(number: int) -> soak.Sample:
        at, since = {("sign-1", 1): 300 << 20, ("index-0", 2): 300 << 20}, number - SAMPLES // 2
        if since >= 0:
            at = {("sign-1", 3): min(350, 200 + 7 * since) << 20, ("index-0", 2): 300 << 20}
        return _sample(number, memory=at, descriptors=dict.fromkeys(at, 40))

    samples = [*map(young, range(SAMPLES)), young(SAMPLES)._replace(lag=0)]
    assert _violations(soak.Seen(samples)) == []


def test_a_long_pause_and_what_is_left_are_violations_of_a_soak() -> None:
    found = _violations(soak.Seen([*map(_sample, range(SAMPLES))], worst_pause=31.0))
    assert len(found) == 2
