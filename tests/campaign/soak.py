"""Workers that run for long: killed, joined, idle for minutes; what they hold has to stay level.

A round is a minute. Pages come at half of the rate that the same workers, broker and crawler reach
on this machine, but for idle times; meanwhile a signer is killed, or one more joins and leaves. In
the first half the index's owner and the other signer are killed as well; in the second half these
two live on, and it is they whose memory and descriptors are fitted by a line, from the third minute
of their lives on: before that they take what they need. The owner may be killed again before it has
caught up: a pause counts from the last time.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.corpus import SYLLABLES
from benchmarks.resident import resident
from streamer.analysis.audit.verify import left
from streamer.kafka.reader import Reader, open_reader
from streamer.kafka.topics import Names
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.broker import free_port, running_broker
from tests.helpers.feeder import fed
from tests.helpers.fleet import Fleet, fleet
from tests.integration.chaos import load, start_all

# Shorter runs have short minutes, are fed slowly, are never idle for long, and no line is fitted.
LONG_MINUTES = 10
MINUTE_SECONDS, SHORT_MINUTE_SECONDS = 60.0, 40.0
CYCLE_SECONDS, IDLE_SECONDS = 360.0, 120.0  # an idle time ends each cycle
SHORT_IDLE_SECONDS = 5.0
START_SECONDS = 180.0  # on a busy machine
SHORT_RATE = 200.0  # pages a second
MEASURED_PAGES = 60_000  # for the full rate
NEW_PAGES = 20_000  # a cycle; then they come again, as duplicates
WORDS = 120  # a page, about 1 kB
COPY_SHARE, BAD_SHARE = 0.2, 0.002
DISK_SHARE = 0.4  # of what is free, that topics may take
MESSAGE_BYTES = 2_800  # a page with its record of the log and its verdict

PAUSE_SECONDS_MAX = 30.0
LEVEL_BYTES = 32 << 20  # growth of memory that is level still
KEPT_BYTES = 175
DESCRIPTORS = 8
WARM_SECONDS = 120.0  # of a process's life
LAG_SECONDS = 10.0  # of pages by which the lag may rise from the one half of the time to the other
METADATA_RATIO = 1.6  # of its growth a page in the last quarter to that in the second
METADATA_FLOOR_BYTES = 256 << 10  # a log file that is begun anew, and the like
OWNER = "index-0"
SURVIVORS = ("sign-1", OWNER)


class Sample(NamedTuple):
    """What was seen at a moment; memory and descriptors by (worker, process id)."""

    at: float
    verdicts: int
    lag: int
    metadata_bytes: int
    files: int
    memory: dict[tuple[str, int], int]
    descriptors: dict[tuple[str, int], int]


@dataclass
class Seen:
    """All samples of a run, and the longest time without a verdict while there were pages."""

    samples: list[Sample] = field(default_factory=list)
    worst_pause: float = 0.0
    fed: int = 0  # pages in the topic, set by who feeds


class Watch(threading.Thread):
    """Looks at the verdicts each second, and at everything each `every` seconds."""

    def __init__(self, workers: Fleet, every: float) -> None:
        super().__init__(daemon=True)
        self._workers = workers
        self._every = every
        self._ended = threading.Event()
        self.seen = Seen()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Watch; part of the thread."""
        try:
            asyncio.run(self._watch())
        except BaseException as error:  # noqa: BLE001 - told by finish()
            self.error = error

    def finish(self) -> Seen:
        """End it; return what was seen."""
        self._ended.set()
        self.join(60)
        assert self.error is None, self.error
        return self.seen

    async def _watch(self) -> None:
        began = moved = time.monotonic()
        sampled, before = 0.0, -1
        async with open_reader({"bootstrap_servers": self._workers.brokers}) as reader:
            while not self._ended.is_set():
                now = time.monotonic()
                verdicts = await _messages(reader, self._workers.names.verdicts)
                lag = await left(reader, self._workers.names, self._workers.shards)
                if verdicts > before or not lag:
                    moved, before = now, verdicts
                since = max(moved, self._workers.killed_at.get(OWNER, moved))
                self.seen.worst_pause = max(self.seen.worst_pause, now - since)
                if now - sampled >= self._every:
                    sampled = now
                    self.seen.samples.append(_sample(self._workers, now - began, verdicts, lag))
                await asyncio.sleep(1)


async def _messages(reader: Reader, topic: str) -> int:
    ends = [(await reader.bounds(topic, place))[1] for place in await reader.partitions(topic)]
    return sum(ends)


def _sample(workers: Fleet, at: float, verdicts: int, lag: int) -> Sample:
    """Look at the processes and at the index."""
    index = workers.folder / "index-0"
    memory: dict[tuple[str, int], int] = {}
    descriptors: dict[tuple[str, int], int] = {}
    for name, process in list(workers.running.items()):
        try:
            links = [link.readlink() for link in Path(f"/proc/{process.pid}/fd").iterdir()]
            memory[name, process.pid] = resident(process.pid).total_bytes
        except (OSError, KeyError):  # it is being killed
            continue
        descriptors[name, process.pid] = sum(index not in link.parents for link in links)
    sizes = list(_sizes(index))
    data = sum(size for name, size in sizes if name.endswith((".sst", ".log")))
    return Sample(
        at, verdicts, lag, sum(size for _, size in sizes) - data, len(sizes), memory, descriptors
    )


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                yield path.name, path.stat().st_size
        except FileNotFoundError:  # it was there just now
            continue


def make_pages(path: Path, draw: random.Random) -> Path:
    """Write pages of words, a fifth of them copies with one word changed, and some bad records."""
    texts: list[list[str]] = []
    with path.open("wb") as file:
        for number in range(NEW_PAGES):
            if draw.random() < BAD_SHARE:
                file.write(b'{"url": "https://bad/%d"}\n' % number)
                continue
            if texts and draw.random() < COPY_SHARE:
                words = list(draw.choice(texts))
                words[draw.randrange(WORDS)] = "changed"
            else:
                words = ["".join(draw.choices(SYLLABLES, k=3)) for _ in range(WORDS)]
                texts.append(words)
            page = {"url": f"https://{path.stem}/{number}", "body": " ".join(words)}
            file.write(msgspec.json.encode({**page, "content_type": "text/plain"}) + b"\n")
    return path


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Let workers run for `rounds` minutes."""
    long = rounds >= LONG_MINUTES
    draw = random.Random(seed)
    names = Names("soak", "soak-pages")
    outcome = Outcome(rounds)
    with running_broker(folder / "broker", free_port()) as brokers:
        load(brokers, names, make_pages(folder / "first.jsonl", draw))
        with fleet(folder / "workers", brokers, names) as workers:
            start_all(workers)
            for name in workers.running:
                workers.wait_for_log(name, "worker_started", START_SECONDS)
            workers.wait_until_settled(300)
            rate = _half_of_full_rate(workers, folder, draw) if long else SHORT_RATE
            rate = min(rate, _rate_for_disk(folder, rounds))
            watch = Watch(workers, 5 if long else 1)
            watch.start()
            seconds = rounds * (MINUTE_SECONDS if long else SHORT_MINUTE_SECONDS)
            _disturbed(workers, seconds, rate, draw, long=long)
            outcome.violations += _ended_by_themselves(workers)
            workers.wait_until_settled(120)
            seen = watch.finish()
            checked = workers.verify("--settled")
    if checked.returncode:
        outcome.violations.append(f"verify: {checked.stdout[-2000:]}{checked.stderr[-2000:]}")
    outcome.figures["pages a second while fed"] = round(rate)
    _judge(seen, rate, outcome, long=long)
    return outcome


def _half_of_full_rate(workers: Fleet, folder: Path, draw: random.Random) -> float:
    """Return half of the rate at which pages come in and are judged, as fast as they can."""
    file = make_pages(folder / "measured.jsonl", draw)
    began = time.monotonic()
    with fed(workers.brokers, workers.names.pages, file, MEASURED_PAGES, 1):
        pass
    workers.wait_until_settled(300)
    return MEASURED_PAGES / (time.monotonic() - began) / 2


def _rate_for_disk(folder: Path, minutes: int) -> float:
    return shutil.disk_usage(folder).free * DISK_SHARE / MESSAGE_BYTES / (60 * minutes)


def _disturbed(
    workers: Fleet, seconds: float, rate: float, draw: random.Random, *, long: bool
) -> None:
    """Feed and disturb the workers, cycle after cycle; each ends with an idle time."""
    began = time.monotonic()
    cycle, idle = (CYCLE_SECONDS, IDLE_SECONDS) if long else (seconds, SHORT_IDLE_SECONDS)
    number = 0
    while (gone := time.monotonic() - began) < seconds - 1:
        number += 1
        file = make_pages(workers.folder / f"cycle{number}.jsonl", draw)
        feeding = min(cycle, seconds - gone) - idle
        if feeding > 0:
            pages = max(1, round(rate * feeding))
            with fed(workers.brokers, workers.names.pages, file, pages, feeding):
                _disturb(workers, time.monotonic() + feeding, began + seconds / 2, draw)
        time.sleep(min(idle, max(0.0, began + seconds - time.monotonic())))


def _disturb(workers: Fleet, until: float, half: float, draw: random.Random) -> None:
    """Kill somebody, or let one more signer join and leave, again and again."""
    while (now := time.monotonic()) < until:
        if draw.random() < 0.3:
            workers.start("sign-more", "--role", "sign")
            time.sleep(min(10.0, max(0.0, until - now)))
            workers.kill("sign-more", draw.choice([signal.SIGTERM, signal.SIGKILL]))
        else:
            victims = ["sign-0"] if now > half else ["sign-0", *SURVIVORS]
            name = draw.choice(victims)
            workers.kill(name)
            workers.start(name)
        time.sleep(min(draw.uniform(8, 20), max(0.0, until - time.monotonic())))


def _ended_by_themselves(workers: Fleet) -> list[str]:
    return [
        f"{name} ended by itself: {workers.log(name)[-500:]}"
        for name, process in workers.running.items()
        if process.poll() is not None
    ]


def _judge(seen: Seen, rate: float, outcome: Outcome, *, long: bool) -> None:
    """Hold what was seen against what has to be level."""
    last = seen.samples[-1]
    outcome.worst_pause_seconds = round(seen.worst_pause, 1)
    outcome.figures["verdicts"] = last.verdicts
    outcome.figures["files in the index at the end"] = last.files
    outcome.figures["metadata at the end, KiB"] = last.metadata_bytes >> 10
    if seen.worst_pause > PAUSE_SECONDS_MAX:
        outcome.violations.append(f"no verdict for {seen.worst_pause:.0f} s, though pages waited")
    if last.lag:
        outcome.violations.append(f"{last.lag} messages are left at the end")
    if not long:
        return
    for name in SURVIVORS:
        _judge_process(name, seen.samples, last.at / 2, outcome)
    half = [sample for sample in seen.samples if sample.at >= last.at / 2]
    rise = _growth([(sample.at, sample.lag) for sample in half])
    outcome.figures["rise of the lag, pages"] = round(rise)
    if rise > LAG_SECONDS * rate:
        outcome.violations.append(f"the lag rises: by {rise:,.0f} pages")
    _judge_metadata(seen.samples, outcome)


def _judge_process(name: str, samples: list[Sample], middle: float, outcome: Outcome) -> None:
    """Hold memory and descriptors of a process that lived on after `middle` against a line."""
    half = [sample for sample in samples if sample.at >= middle]
    living = {key for sample in half for key in sample.memory if key[0] == name}
    key = max(living, key=lambda one: sum(one in sample.memory for sample in half))
    mine = [sample for sample in half if key in sample.memory]
    if len(living) > 1 and len(mine) < 0.9 * len(half):
        outcome.violations.append(f"{name} was started again in the second half")
    born = next(sample.at for sample in samples if key in sample.memory)
    mine = [sample for sample in mine if sample.at >= born + WARM_SECONDS]
    explained = KEPT_BYTES * NEW_PAGES * (mine[-1].at - mine[0].at) / CYCLE_SECONDS
    grown = _growth([(sample.at, sample.memory[key]) for sample in mine])
    more = _growth([(sample.at, sample.descriptors[key]) for sample in mine])
    beyond = grown - (explained if name.startswith("index") else 0)
    outcome.figures[f"{name}: memory, MiB"] = mine[-1].memory[key] >> 20
    outcome.figures[f"{name}: growth of memory in the second half, MiB"] = round(grown / 2**20, 1)
    outcome.figures[f"{name}: descriptors beside the index's files"] = mine[-1].descriptors[key]
    if beyond > LEVEL_BYTES:
        outcome.violations.append(f"{name}: memory grew by {beyond / 2**20:.0f} MiB unexplained")
    if more > DESCRIPTORS:
        outcome.violations.append(f"{name}: descriptors grew by {more:.0f}")


def _growth(points: list[tuple[float, float]]) -> float:
    """Return by how much a line through the points rises from the first to the last."""
    at, values = np.array(points, float).T
    slope = float(np.polyfit(at, values, 1)[0]) if len(points) > 2 else 0.0
    return slope * float(at[-1] - at[0])


def _judge_metadata(samples: list[Sample], outcome: Outcome) -> None:
    """Hold the growth of metadata in the last quarter of all verdicts against the second one's."""
    first, last = samples[0].verdicts, samples[-1].verdicts
    marks = [first + (last - first) * quarter / 4 for quarter in range(5)]
    verdicts = [sample.verdicts for sample in samples]
    sizes = np.interp(marks, verdicts, [sample.metadata_bytes for sample in samples])
    second, fourth = float(sizes[2] - sizes[1]), float(sizes[4] - sizes[3])
    outcome.figures["growth of metadata in the second quarter, KiB"] = round(second / 1024)
    outcome.figures["growth of metadata in the last quarter, KiB"] = round(fourth / 1024)
    if fourth > METADATA_RATIO * max(second, 0.0) + METADATA_FLOOR_BYTES:
        outcome.violations.append(
            f"metadata grew by {fourth / 1024:,.0f} KiB in the last quarter of the pages,"
            f" {second / 1024:,.0f} KiB in the second"
        )


CAMPAIGN = Campaign(
    "soak",
    "For a minute pages come at half of the full rate, workers are killed and rebalanced, or"
    " nothing comes. Memory and descriptors of those that live on, the index's metadata a page, and"
    " the lag are level; no pause is longer than 30 s, from the last kill of the index's owner on;"
    " at the end nothing is left, and `streamer verify` finds every promise kept.",
    rounds=30,
    rounds_in_short=4,
    rounds_in_ci=1,
    run=run,
)
