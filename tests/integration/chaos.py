"""What happens to workers in production, done to them on purpose while they judge; then verified.

The scenarios are rows of the campaign `chaos`. Pages come in all the time: a part of them is in the
topic before, the rest is fed meanwhile.
"""

import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamer.kafka.topics import Names
from tests.helpers.broker import broker
from tests.helpers.feeder import fed
from tests.helpers.fleet import Fleet, fleet, streamer

SESSION_SECONDS = 10.0
PAUSE_SECONDS_MAX = 120.0  # some 20 on a quiet machine


def make_crawl(folder: Path, pages: int, seed: int = 1) -> Path:
    """Return a sample crawl, bad records included; made once for a folder."""
    crawl = folder / f"crawl-{pages}-{seed}"
    if not crawl.exists():
        _streamer("sample", crawl, "--pages", pages, "--seed", seed)
    return crawl / "pages.jsonl"


def load(brokers: str, names: Names, file: Path, partitions: int = 4) -> None:
    """Fill the topic of pages."""
    _streamer(
        "produce", file, "--topic", names.pages, "--brokers", brokers, "--partitions", partitions
    )


def _streamer(*arguments: object) -> None:
    done = streamer(*arguments)
    assert done.returncode == 0, done.stderr


def start_owner(workers: Fleet, name: str = "index-0", *options: str) -> str:
    """Start an owner with an index of its own; return its name."""
    workers.start(name, "--role", "index", "--index", workers.folder / name, *options)
    return name


def start_all(workers: Fleet, signers: int = 2) -> None:
    """Start signers, every second one with a lasting name, and the owner, which freezes keys."""
    for number in range(signers):
        static = ("--instance-id", f"sign-{number}") if number % 2 else ()
        workers.start(f"sign-{number}", "--role", "sign", *static)
    small = "--index-memory", "1", "--head-pages", "128"
    start_owner(workers, "index-0", "--instance-id", "index-0", *small)


def kills(workers: Fleet, rounds: int, draw: random.Random) -> None:
    """Kill a random worker at a random moment and start it again; `rounds` times."""
    for _ in range(rounds):
        time.sleep(draw.random() * 3)
        workers.restart_dead()
        name = draw.choice(sorted(workers.running))
        workers.kill(name)
        workers.start(name)


def rebalances(
    workers: Fleet, rounds: int, draw: random.Random, event: str = "worker_started"
) -> None:
    """Let one more signer join, and after an event of its log leave in order or not."""
    for number in range(rounds):
        workers.start("sign-more", "--role", "sign")
        workers.wait_for_log("sign-more", event)
        time.sleep(draw.random() * 2)
        workers.kill("sign-more", signal.SIGKILL if number % 3 == 2 else signal.SIGTERM)


def takeovers(workers: Fleet, rounds: int, draw: random.Random) -> None:
    """Kill the owner for good while a standby waits, which has no index yet."""
    del draw
    owner = "index-0"
    for number in range(rounds):
        standby = start_owner(workers, f"standby-{number}")
        workers.wait_for_log(standby, "worker_started")
        workers.kill(owner)
        workers.wait_for_log(standby, "shard_assigned", PAUSE_SECONDS_MAX)
        owner = standby


def zombies(workers: Fleet, rounds: int, draw: random.Random, names: str = "") -> None:
    """Halt a random worker for longer than its session, so that others take over; let it go on.

    Its name begins with `names`.
    """
    for _ in range(rounds):
        name = draw.choice(sorted(each for each in workers.running if each.startswith(names)))
        workers.running[name].send_signal(signal.SIGSTOP)
        time.sleep(SESSION_SECONDS * 1.3)
        workers.running[name].send_signal(signal.SIGCONT)
        time.sleep(1)
        workers.restart_dead()


def lost_indexes(workers: Fleet, rounds: int, draw: random.Random) -> None:
    """Kill the owner and delete its index."""
    for _ in range(rounds):
        time.sleep(draw.random() * 3)
        workers.restart_dead()
        workers.kill("index-0")
        shutil.rmtree(workers.folder / "index-0", ignore_errors=True)
        workers.start("index-0")


SCENARIOS: dict[str, Callable[[Fleet, int, random.Random], None]] = {
    "kills": kills, "rebalances": rebalances, "takeovers": takeovers, "zombies": zombies,
    "lost-indexes": lost_indexes,
}  # fmt: skip


def broker_kills(workers: Fleet, rounds: int, folder: Path, port: int) -> None:
    """Kill the broker and start it again; workers go on, or end and are restarted."""
    for _ in range(rounds):
        time.sleep(3)
        broker("kill", folder)
        time.sleep(2)
        broker("start", folder, port)
        before, began = workers.left(), time.monotonic()
        while (left := workers.left()) >= before and left:
            workers.restart_dead()
            assert time.monotonic() - began < PAUSE_SECONDS_MAX, (left, before, workers.tails())
            time.sleep(0.5)


@contextmanager
def judging(
    folder: Path, brokers: str, names: Names, signers: int = 2, seconds: float = 120
) -> Iterator[Fleet]:
    """Provide workers that judge; at the end wait until all is judged, and verify it."""
    with fleet(folder, brokers, names) as workers:
        start_all(workers, signers)
        yield workers
        workers.wait_until_settled(seconds)
        workers.see_that_all_holds()


@dataclass(frozen=True)
class Run:
    """Scenarios, with + between, as they are to be run one after the other.

    A round takes about `round_seconds`: pages are fed as long.
    """

    scenario: str
    rounds: int
    pages: int
    round_seconds: float = 1.8


def disturb(run: Run, folder: Path, brokers: str, names: Names, crawl: Path, seed: int = 1) -> None:
    """Disturb workers under load.

    Raises:
        AssertionError: a promise is broken, or a pause was too long.
    """
    load(brokers, names, crawl)
    lines = crawl.read_bytes().count(b"\n")
    seconds = run.rounds * run.round_seconds
    port = int(brokers.rpartition(":")[2])
    with (
        judging(folder / names.index, brokers, names, seconds=300) as workers,
        fed(brokers, names.pages, crawl, max(1000, run.pages - lines), seconds),
    ):
        workers.wait_for_log("sign-0", "worker_started")
        for scenario in run.scenario.split("+"):
            if scenario == "broker-kills":
                broker_kills(workers, run.rounds, folder / "broker", port)
            else:
                SCENARIOS[scenario](workers, run.rounds, random.Random(f"{seed} {run.rounds}"))
