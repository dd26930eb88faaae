"""Through Kafka: pages a second from the first fetch to the last verdict, broker on the same cores.

The pages lie in their topic, with lz4, before the worker starts. It is one process with signers and
one shard. The clock starts when the worker says that it reads, and ends when the last verdict can
be read. CPU is that of the processes between the two moments.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.machine import ROOT
from benchmarks.resident import resident
from streamer.kafka.reader import open_reader

RATE_TARGET = 27_778  # pages/s: twice the published rate
BROKER_BUDGET_US = 6.0
POLL_SECONDS = 0.25
TICKS = os.sysconf("SC_CLK_TCK")


class KafkaRate(msgspec.Struct, frozen=True):
    """The measurement; CPU in microseconds a page, `rates` of each 100,000 pages."""

    pages: int
    seconds: float
    rate: float
    worker_us: float
    broker_us: float
    worker_peak_bytes: int
    rates: list[float]
    rebuild_rate: float
    target: float = RATE_TARGET


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has taken, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def start_worker(
    folder: Path, brokers: str, topic: str, name: str, *options: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a worker and wait until it reads; return it and its log."""
    folder.mkdir(parents=True, exist_ok=True)
    key, log = folder / "key", folder / f"{name}.log"
    key.write_text("5a" * 32)
    command = [
        sys.executable, "-m", "streamer", "worker", "--brokers", brokers, "--input-topic", topic,
        "--index-name", name, "--key-file", str(key), "--index", str(folder / name),
        "--health-port", "0", *options,
    ]  # fmt: skip
    with log.open("wb") as out:
        worker = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
    _wait_for(worker, log, "worker_started")
    return worker, log


def _wait_for(worker: subprocess.Popen[bytes], log: Path, word: str) -> str:
    while word not in log.read_text():
        if worker.poll() is not None:
            raise RuntimeError(f"the worker has ended: {log.read_text()[-2000:]}")
        time.sleep(0.02)
    return next(line for line in log.read_text().splitlines() if word in line)


async def verdicts(brokers: str, name: str) -> int:
    """Return how many verdicts can be read now."""
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        topic = f"{name}.verdicts"
        found = 0
        for partition in await reader.partitions(topic):
            start, end = await reader.bounds(topic, partition)
            found += end - start
        return found


def measure(folder: Path, brokers: str, broker_pid: int, topic: str, pages: int) -> KafkaRate:
    """Run a worker over the topic until all is judged; then lose its index and time the rebuild."""
    name = f"rate-{os.getpid()}"
    worker, _ = start_worker(folder, brokers, topic, name)
    begin, before = time.perf_counter(), (cpu_seconds(worker.pid), cpu_seconds(broker_pid))
    marks = asyncio.run(_follow(brokers, name, pages, begin))
    seconds = marks[-1][1]
    after = cpu_seconds(worker.pid), cpu_seconds(broker_pid)
    peak = resident(worker.pid).peak_bytes
    worker.terminate()
    worker.wait()
    worker_us, broker_us = ((b - a) / pages * 1e6 for a, b in zip(before, after, strict=True))
    return KafkaRate(
        pages, seconds, pages / seconds, worker_us, broker_us, peak, _rates(marks),
        _rebuild(folder, brokers, topic, name, pages),
    )  # fmt: skip


async def _follow(brokers: str, name: str, pages: int, begin: float) -> list[tuple[int, float]]:
    """Return (verdicts, seconds) as they grow."""
    marks = [(0, 0.0)]
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        topic = f"{name}.verdicts"
        partitions = await reader.partitions(topic)
        while marks[-1][0] < pages:
            await asyncio.sleep(POLL_SECONDS)
            ends = [(await reader.bounds(topic, partition))[1] for partition in partitions]
            marks.append((sum(ends), time.perf_counter() - begin))
    return marks


def _rates(marks: list[tuple[int, float]], step: int = 100_000) -> list[float]:
    """Return the rate of each `step` pages, as far as the marks tell."""
    rates: list[float] = []
    (count, seconds), target = marks[0], step
    for later_count, later_seconds in marks:
        if later_count >= target:
            rates.append((later_count - count) / (later_seconds - seconds))
            count, seconds, target = later_count, later_seconds, target + step
    return rates


def _rebuild(folder: Path, brokers: str, topic: str, name: str, pages: int) -> float:
    """Return the pages a second at which a new owner folds the whole log."""
    worker, log = start_worker(
        folder / "rebuilt", brokers, topic, name, "--role", "index", "--own-shards", "0"
    )
    told = msgspec.json.decode(_wait_for(worker, log, "shard_caught_up"))
    worker.terminate()
    worker.wait()
    return pages / float(told["seconds"])
