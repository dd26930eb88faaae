"""Worlds of signers, owners, logs and disks, each with all that goes wrong under its seed."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.campaign.campaign import Row
from tests.simulation.world import run_seed


def broken(seed: int) -> str | None:
    """Run the world of a seed; return what is broken in it."""
    try:
        run_seed(seed)
    except Exception as error:  # noqa: BLE001 - whatever ends a world is a violation
        return f"seed {seed}: {type(error).__name__}: {error}"
    return None


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Run the worlds of `rounds` seeds from `seed` on, on all cores."""
    del folder
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        found = pool.map(broken, range(seed, seed + rounds), chunksize=10)
        return [violation for violation in found if violation]


ROWS = (
    Row(
        "worlds",
        "random interleavings of every step, kills, failed publishes, zombies, disks that are lost"
        " or go back, settings that change; each page has the verdict of a serial index, and every"
        " restored state is the fold of its log",
        rounds=10_000,
        short=10,
        run=run,
    ),
)
