"""A worker that is cut off from its broker, in one direction or both, in the middle of its work."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streamer.errors import StreamerError
from streamer.kafka.reader import Reader, open_reader
from streamer.kafka.topic_input import WaitingLoop
from streamer.kafka.topics import Names
from streamer.run.warm import warm_kernels
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.broker import free_port, listens, running_broker
from tests.helpers.cable import Cable, cable
from tests.helpers.feeder import Feeder
from tests.helpers.fleet import Fleet, fleet
from tests.helpers.wait import wait_until
from tests.integration.chaos import load, make_crawl

PAGES = 1_000
PAGES_A_SECOND = 100
BURST_PAGES = 20_000  # before a cut in a publish: one comes after the other then
MOST_PAGES = 2_000_000  # never reached: the feeder is told when to end
SHORT_SECONDS = 6.0
CUT_SECONDS = (5.0, 60.0)
PAUSE_SECONDS_MAX = 60.0
MOMENT_SECONDS_MAX = 20.0
WORKER_ENDS_WITH = {1}  # what it cannot publish ends it, and what cannot be reached: README

# Each is hit at least once in four rounds: the direction, and what is under way.
PLAN = (
    ("from the broker", "publishing and committing"),
    ("both ways", "a rebalance"),
    ("to the broker", "publishing and committing"),
    ("the link itself", "publishing and committing"),
)


@dataclass(frozen=True)
class Seen:
    """What the brokers have at a moment: verdicts, the log's end, what the groups committed."""

    verdicts: int
    log: int
    committed: int
    rebalancing: bool


@dataclass
class Cutting:
    """A worker behind a line, and what was seen of it."""

    workers: Fleet
    line: Cable
    loop: WaitingLoop
    reader: Reader
    feeder: Feeder
    figures: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    worst_pause: float = 0.0

    def look(self) -> Seen:
        """Ask the brokers, which this process always reaches."""
        return self.loop.run(_look(self.reader, self.workers.names))

    def supervise(self) -> None:
        """Start again who has ended by itself, as whoever runs workers does; see how it ended."""
        for name, process in list(self.workers.running.items()):
            if (code := process.poll()) is None:
                continue
            self.figures["workers that ended and were started again"] += 1
            if code not in WORKER_ENDS_WITH:
                tail = self.workers.tails()[name]
                self.violations.append(f"{name} ended with exit code {code}: {tail}")
            self.workers.start(name)

    def wait(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait until `true` says so; tell whether it did in time."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                return False
            self.supervise()
            time.sleep(0.05)
        return True

    def round(self, number: int, direction: str, moment: str, seconds: float) -> None:
        """Cut the line at a moment for some seconds; then see that the worker goes on."""
        before = self.look()
        if moment == "a rebalance":
            if "sign-more" not in self.workers.running:
                self.workers.start("sign-more")
                self.workers.wait_for_log("sign-more", "worker_started")
            self.workers.running.pop("sign-more").terminate()  # it leaves its group at once
            hit = self.wait(lambda: self.look().rebalancing, MOMENT_SECONDS_MAX)
        else:
            if direction == "from the broker":
                self.feeder.burst(BURST_PAGES)
                self.wait(lambda: self.look().log > before.log, MOMENT_SECONDS_MAX)
            hit = self.wait(lambda: self.look().verdicts > before.verdicts, MOMENT_SECONDS_MAX)
        self.line.cut(direction)
        self.figures[f"cuts: {direction}"] += 1
        cut = self.look()
        self.figures["cuts in a rebalance"] += hit and cut.rebalancing
        try:
            time.sleep(seconds)
            after = self.look()
        finally:
            self.line.mend()
        if direction == "from the broker" and moment != "a rebalance":
            # What has arrived since is what the worker was not told of.
            self.figures["cuts in a publish"] += (after.log, after.verdicts) > (
                cut.log,
                cut.verdicts,
            )
            self.figures["cuts in a commit"] += after.committed > cut.committed
        mended = time.monotonic()
        if not self.wait(lambda: self.look().verdicts > after.verdicts, PAUSE_SECONDS_MAX):
            self.violations.append(
                f"round {number} ({direction} cut for {seconds:.0f} s in {moment}): no verdict "
                f"within {PAUSE_SECONDS_MAX:.0f} s after it; {self.workers.tails()}"
            )
        self.worst_pause = max(self.worst_pause, time.monotonic() - mended)


@contextmanager
def _reading(loop: WaitingLoop, brokers: str) -> Iterator[Reader]:
    """Provide a reader that stays connected; use it in `loop` alone."""
    opening = open_reader({"bootstrap_servers": brokers})
    yield loop.run(opening.__aenter__())
    loop.run(opening.__aexit__(None, None, None))


async def _look(reader: Reader, names: Names) -> Seen:
    groups = await reader.admin.describe_consumer_groups([names.sign_group])
    states = {group[2] for answer in groups for group in answer.groups}
    verdicts = await _end(reader, names.verdicts)
    log = await _end(reader, names.log(0))
    committed = await reader.committed(names.sign_group, names.pages)
    applied = await reader.committed(names.shard_group(0), names.log(0))
    moving = bool(states & {"PreparingRebalance", "CompletingRebalance"})
    return Seen(verdicts, log, sum(committed.values()) + sum(applied.values()), moving)


async def _end(reader: Reader, topic: str) -> int:
    places = [TopicPartition(topic, number) for number in await reader.partitions(topic)]
    return sum((await reader.consumer.end_offsets(places)).values())


@contextmanager
def _broker_behind(line: Cable, folder: Path) -> Iterator[str]:
    """Start a broker that listens at the line, and for us beside it."""
    port = free_port()
    here = f"127.0.0.1:{port}"
    extra = folder / "extra.properties"
    extra.write_text(
        f"listeners=PLAINTEXT://{here},LINE://{line.listener},CONTROLLER://127.0.0.1:{port + 1}\n"
        f"advertised.listeners=PLAINTEXT://{here},LINE://{line.address}\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LINE:PLAINTEXT\n"
        "inter.broker.listener.name=PLAINTEXT\n"
    )
    with (
        patch.dict(os.environ, {"BROKER_EXTRA": str(extra)}),
        running_broker(folder / "broker", port) as brokers,
    ):
        host, _, number = line.listener.rpartition(":")
        wait_until(lambda: listens(int(number), host))
        yield brokers


def _rounds(rounds: int, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield direction, moment and seconds of each round: the first two are short."""
    draw = random.Random(seed)
    for number in range(rounds):
        direction, moment = PLAN[number] if number < len(PLAN) else draw.choice(PLAN)
        seconds = draw.uniform(*CUT_SECONDS) if number >= 2 else SHORT_SECONDS
        yield direction, moment, CUT_SECONDS[1] if number == 3 else seconds


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Cut a worker off `rounds` times while pages come in; verify what it has done."""
    warm_kernels()
    names = Names("network-index", "network-pages")
    crawl = make_crawl(folder, PAGES, seed)
    with (
        cable() as line,
        _broker_behind(line, folder) as brokers,
        fleet(folder / "workers", brokers, names) as workers,
        WaitingLoop() as loop,
        _reading(loop, brokers) as reader,
    ):
        load(brokers, names, crawl)
        workers.prefix, workers.options = line.prefix, ("--brokers", line.address)
        feeder = Feeder(brokers, names.pages, crawl, MOST_PAGES, MOST_PAGES / PAGES_A_SECOND)
        cutting = Cutting(workers, line, loop, reader, feeder)
        workers.start("all", "--index", folder / "index")
        workers.start("sign-more", "--role", "sign")
        for name in workers.running:
            workers.wait_for_log(name, "worker_started")
        feeder.start()
        for number, (direction, moment, seconds) in enumerate(_rounds(rounds, seed)):
            cutting.round(number, direction, moment, seconds)
        feeder.end()
        _conclude(cutting)
    shutil.rmtree(folder / "broker", ignore_errors=True)
    figures: dict[str, float | int | str] = {"the line": line.kind, **cutting.figures}
    return Outcome(rounds, cutting.violations, round(cutting.worst_pause, 1), figures)


def _conclude(cutting: Cutting) -> None:
    """Wait until all is judged; see that nothing is lost or judged twice with other bytes."""
    workers = cutting.workers
    cutting.figures["pages"] = PAGES + cutting.feeder.sent
    if not cutting.wait(lambda: _settled(workers), 2 * PAUSE_SECONDS_MAX):
        cutting.violations.append(f"not all was judged: {workers.left()} left; {workers.tails()}")
    checked: subprocess.CompletedProcess[str] = workers.verify("--settled")
    if checked.returncode:
        cutting.violations.append(f"verify: {checked.stderr}{checked.stdout}")


def _settled(workers: Fleet) -> bool:
    try:
        return workers.left() == 0
    except (StreamerError, KafkaError):
        return False


CAMPAIGN = Campaign(
    "network",
    "A worker is cut off from its broker for 5 to 60 s, one way or both, in the middle of a"
    " publish, a commit, a rebalance. It goes on within a minute, or ends and is started again;"
    " no page is lost, none is judged twice with other bytes.",
    rounds=20,
    rounds_in_short=4,
    rounds_in_ci=2,
    run=run,
)
