"""A clock that is set forth and back by an hour and a day, while a worker and replays run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.kafka.topics import Names
from streamer.run.warm import warm_kernels
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.broker import free_port, messages_of, running_broker
from tests.helpers.feeder import Feeder
from tests.helpers.fleet import KEY, ROOT, Fleet, fleet
from tests.integration.chaos import load, make_crawl

PAGES = 2_000
PAGES_A_SECOND = 200
MOST_PAGES = 1_000_000  # never reached: the feeder is told when to end
HEAD_PAGES = 256  # so that there are some flushes to count
PAUSE_SECONDS_MAX = 30.0
JUMPS = ("+3600", "-3600", "+86400", "-86400", "+0", "-86400", "+0", "+3600", "+0", "-3600")


def faketime() -> Path | None:
    """Return the library that sets a program's clock, if it is installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class FakeClock:
    """A clock that programs started with `prefix` see; waits and intervals are not touched.

    Raises:
        FileNotFoundError: there is no libfaketime.
    """

    def __init__(self, folder: Path) -> None:
        library = faketime()
        if library is None:
            raise FileNotFoundError("libfaketime is missing. Install it: .ci/tools campaign")
        self._file = folder / "clock"
        self.prefix = (
            "env", f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
        )  # fmt: skip
        self.set("+0")

    def set(self, seconds: str) -> None:
        """Set the clock this far from the right time."""
        new = self._file.with_suffix(".new")
        new.write_text(seconds)
        new.replace(self._file)


@dataclass(eq=False)  # a thread is told from others by itself
class Replays(threading.Thread):
    """Replays one after the other under a clock; each must be what one under a right clock is."""

    folder: Path
    crawl: Path
    prefix: tuple[str, ...]
    done: int = 0
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.folder.mkdir()
        (self.folder / "key").write_text(KEY)
        self._ended = threading.Event()
        self._wanted = self._replay("right", ())

    def run(self) -> None:
        """Replay until it is enough."""
        while not self._ended.is_set():
            found = self._replay(f"faked-{self.done}", self.prefix)
            for name, wanted, one in zip(("code", "verdicts", "dead letters", "flushes"),
                                         self._wanted, found, strict=True):  # fmt: skip
                if one != wanted:
                    shown = f": {one!r} for {wanted!r}" if name in {"code", "flushes"} else ""
                    self.violations.append(f"replay {self.done}: other {name}{shown}")
            self.done += 1

    def end(self) -> None:
        """Wait for the end of the one that runs."""
        self._ended.set()
        self.join()

    def _replay(self, name: str, prefix: tuple[str, ...]) -> tuple[str, bytes, bytes, int]:
        """Return how it ended, what it has written, and how often it flushed."""
        verdicts, index = self.folder / f"{name}.jsonl", self.folder / name
        command = [
            *prefix, sys.executable, "-m", "streamer", "replay", str(self.crawl), "--index",
            str(index), "--verdicts", str(verdicts), "--key-file", str(self.folder / "key"),
            "--head-pages", str(HEAD_PAGES),
        ]  # fmt: skip
        try:
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=120)
        except subprocess.TimeoutExpired:
            return "it hangs", b"", b"", 0
        code = f"{ended.returncode} {ended.stderr.decode() if ended.returncode else ''}"
        letters = Path(f"{verdicts}.dead.jsonl")
        written = [file.read_bytes() if file.exists() else b"" for file in (verdicts, letters)]
        return code, written[0], written[1], flushes(index)


def flushes(index: Path) -> int:
    """Return how often an index was flushed."""
    return int(told(index).get("flushes", 0))


def told(index: Path) -> dict[str, Any]:
    """Return what `streamer inspect` says of an index; nothing of one that has no flush."""
    command = [sys.executable, "-m", "streamer", "inspect", "--json", str(index)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Set the clock `rounds` times; compare with what is done under a right one."""
    clock = FakeClock(folder)
    warm_kernels()
    crawl, draw = make_crawl(folder, PAGES, seed), random.Random(seed)
    names = Names("clock-index", "clock-pages")
    outcome = Outcome(rounds, [], 0.0, {})
    with running_broker(folder / "broker", free_port()) as brokers:
        load(brokers, names, crawl)
        with fleet(folder / "workers", brokers, names) as workers:
            workers.prefix = clock.prefix
            workers.start("all", "--index", folder / "index", "--head-pages", HEAD_PAGES)
            workers.wait_for_log("all", "worker_started")
            with _fed(workers, crawl) as feeder, _replaying(folder, crawl, clock, outcome):
                for number in range(rounds):
                    time.sleep(draw.uniform(0.5, 2))
                    jump = JUMPS[number % len(JUMPS)]
                    clock.set(jump)
                    _note_pause(workers, f"round {number} ({jump} s)", outcome)
            outcome.figures["pages"] = PAGES + feeder.sent
            _conclude(workers, folder, outcome)
    return outcome


@contextmanager
def _fed(workers: Fleet, crawl: Path) -> Iterator[Feeder]:
    seconds = MOST_PAGES / PAGES_A_SECOND
    feeder = Feeder(workers.brokers, workers.names.pages, crawl, MOST_PAGES, seconds)
    feeder.start()
    try:
        yield feeder
    finally:
        feeder.end()


@contextmanager
def _replaying(folder: Path, crawl: Path, clock: FakeClock, outcome: Outcome) -> Iterator[None]:
    replays = Replays(folder / "replays", crawl, clock.prefix)
    replays.start()
    try:
        yield
    finally:
        replays.end()
        outcome.violations += replays.violations
        outcome.figures["replays"] = replays.done


def _note_pause(workers: Fleet, what: str, outcome: Outcome) -> None:
    """See that verdicts go on."""
    began, before = time.monotonic(), _verdicts(workers)
    while _verdicts(workers) == before:
        process = workers.running["all"]
        if process.poll() is not None:
            outcome.violations.append(f"{what}: the worker has ended: {workers.tails()}")
            workers.start("all")
        if time.monotonic() - began > PAUSE_SECONDS_MAX:
            outcome.violations.append(f"{what}: no verdict for {PAUSE_SECONDS_MAX:.0f} s")
            break
    pause = round(time.monotonic() - began, 1)
    outcome.worst_pause_seconds = max(outcome.worst_pause_seconds or 0.0, pause)


def _verdicts(workers: Fleet) -> int:
    found = messages_of(workers.brokers, workers.names.verdicts)
    return sum(map(len, found.values()))


def _conclude(workers: Fleet, folder: Path, outcome: Outcome) -> None:
    """Compare all with a replay under a right clock; count the worker's flushes."""
    try:
        workers.wait_until_settled()
    except AssertionError as error:
        outcome.violations.append(f"not all was judged: {error}")
        return
    checked = workers.verify("--settled")
    if checked.returncode:
        outcome.violations.append(f"verify: {checked.stderr}{checked.stdout}")
    if code := workers.kill("all", signal.SIGTERM):
        outcome.violations.append(f"the worker ended with {code}: {workers.tails()}")
    found = messages_of(workers.brokers, workers.names.verdicts)
    if sorted(m.value for held in found.values() for m in held) != sorted(workers.replayed()):
        outcome.violations.append("the worker's verdicts are not those of a replay")
    index = told(folder / "index" / "shard-0")
    done, kept = index["flushes"], sum(shard["pages_kept"] for shard in index["shards"])
    outcome.figures |= {"flushes": done, "pages kept": kept}
    if done > kept / HEAD_PAGES + 2:  # a full head each, one at the end, one for what was begun
        outcome.violations.append(f"{done} flushes for {kept} pages, {HEAD_PAGES} a flush")


CAMPAIGN = Campaign(
    "clock",
    "The clock of a worker and of replays is set forth and back by an hour and by a day while they"
    " run. Verdicts and dead letters have the bytes of a run under a right clock; nothing pauses,"
    " and no more is flushed.",
    rounds=40,
    rounds_in_short=8,
    rounds_in_ci=4,
    run=run,
)
