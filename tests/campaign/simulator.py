"""The simulator over many seeds: each is a world of its own, with all that goes wrong in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.campaign.campaign import Campaign, Outcome
from tests.simulation.world import run_seed


def broken(seed: int) -> str | None:
    """Run the world of a seed; return what is broken in it."""
    try:
        run_seed(seed)
    except Exception as error:  # noqa: BLE001 - whatever ends a world is a violation
        return f"seed {seed}: {type(error).__name__}: {error}"
    return None


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Run the worlds of `rounds` seeds from `seed` on, on all cores."""
    del folder
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        found = pool.map(broken, range(seed, seed + rounds), chunksize=10)
        return Outcome(rounds, list(_told(found, rounds)))


def _told(found: Iterator[str | None], rounds: int) -> Iterator[str]:
    """Yield what is broken, and print how far it is."""
    for number, violation in enumerate(found, 1):
        if violation:
            yield violation
        if number % 500 == 0:
            print(f"{number:,} of {rounds:,} seeds", flush=True)  # noqa: T201 - the campaign's log


CAMPAIGN = Campaign(
    "simulator",
    "A world of signers, shards, logs and disks under one seed: random interleavings of every step,"
    " kills, failed publishes, zombies, disks that are lost or go back, settings that change. Each"
    " page has one verdict, the one of a serial index, and every restored state is the fold of its"
    " log.",
    rounds=10_000,
    rounds_in_short=120,
    rounds_in_ci=0,
    run=run,
)
