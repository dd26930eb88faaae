"""Workers and brokers that are killed, halted, joined and deprived of their indexes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from streamer.kafka.topics import Names
from streamer.run.warm import warm_kernels
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.broker import free_port, running_broker
from tests.integration.chaos import Run, disturb, make_crawl

CRAWL_PAGES = 20_000
RUNS = (
    Run("kills", 1, 500, 200_000),
    Run("kills", 3, 500, 200_000),
    Run("rebalances", 1, 20, 60_000, 8),
    Run("takeovers", 1, 5, 60_000, 15),
    Run("takeovers", 3, 5, 60_000, 15),
    Run("zombies", 1, 10, 60_000, 15),
    Run("zombies", 3, 10, 60_000, 15),
    Run("broker-kills", 1, 5, 60_000, 20),
    Run("broker-kills", 3, 5, 60_000, 20),
    Run("lost-indexes", 1, 5, 60_000, 5),
)
ROUNDS = sum(run.rounds for run in RUNS)


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Do each scenario, with its part of the rounds; each over a new broker and index."""
    warm_kernels()
    crawl = make_crawl(folder, CRAWL_PAGES, seed)
    outcome = Outcome(0, [], 0.0, {})
    for number, whole in enumerate(RUNS):
        share = rounds / ROUNDS
        part = replace(
            whole, rounds=max(1, round(whole.rounds * share)), pages=round(whole.pages * share)
        )
        work = folder / f"{number}-{part.scenario}-{part.shards}"
        names = Names(f"index-{number}", f"pages-{number}")
        with running_broker(work / "broker", free_port()) as brokers:
            try:
                pause = disturb(part, work, brokers, names, crawl, seed).worst_pause
                outcome.worst_pause_seconds = max(outcome.worst_pause_seconds or 0.0, pause)
            except AssertionError as error:
                outcome.violations.append(f"{part}, seed {seed}: {error}")
        shutil.rmtree(work / "broker", ignore_errors=True)
        outcome.figures[f"{part.scenario}, shards: {part.shards}"] = part.rounds
        outcome.rounds += part.rounds
        print(f"{part}: {len(outcome.violations)} violations so far", flush=True)  # noqa: T201 - the campaign's log
    outcome.rounds = max(outcome.rounds, rounds)  # the parts are rounded
    return outcome


CAMPAIGN = Campaign(
    "chaos",
    "A worker or the broker is killed, halted for longer than its session, joined by another, or"
    " deprived of its index while pages come in. Others take over within half a minute; each page"
    " has its one verdict, and repeats have the same bytes.",
    rounds=ROUNDS,
    rounds_in_short=30,
    rounds_in_ci=0,
    run=run,
)
