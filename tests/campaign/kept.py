"""Replays that are killed at random moments while they keep pages, and go on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.campaign.campaign import Campaign, Outcome
from tests.integration import killed_replays

FORMS = ("lines", "tables", "arrow")
SCRIPT = Path(killed_replays.__file__)


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Kill replays of each form of pages, `rounds` kills together."""
    outcome = Outcome(0)
    kills = -(-rounds // len(FORMS))
    for form in FORMS:
        work = folder / form
        work.mkdir()
        command = [sys.executable, SCRIPT, work, form, "--kills", kills, "--seed", seed]
        began = time.monotonic()
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join(done.stderr.split())[-500:]
            outcome.violations.append(f"{form}, seed {seed}: {said}")
        outcome.figures[f"{form}: seconds"] = round(time.monotonic() - began)
        outcome.rounds += kills
    return outcome


CAMPAIGN = Campaign(
    "kept",
    "A replay with --kept, --duplicates and --near-misses, of JSON lines, Parquet or Arrow, is "
    "killed at a random moment and run again until it ends. Verdicts, kept pages and the others "
    "have the bytes of an undisturbed run with one thread, and each page is in one file, once.",
    rounds=600,
    rounds_in_short=24,
    rounds_in_ci=0,
    run=run,
)
