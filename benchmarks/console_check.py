"""`POST /api/check` next to a worker at half load: `python -m benchmarks.console_check`.

A worker judges pages that are sent steadily, at half of what it can. A console has its folder and
its topics. Pages of the same corpus are asked, one every 20 ms, and each answer is timed; flushes
of the index come between. Sender, broker, worker, console and the one who asks share the machine's
cores. It is done with one shard and with three.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import kafka_latency, machine
from benchmarks.console import address_of
from benchmarks.corpus_file import obtain
from benchmarks.kafka_rate import cpu_seconds, load, make_topic, start_worker
from benchmarks.run_kafka import PORT, broker
from streamer.stored.witness import witnessed

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = 8_000  # pages/s: half of what a worker reaches on two cores, next to sender and broker
BEFORE = 200_000  # pages that the index has at least when the clock starts
SECONDS = 30.0
STEP_SECONDS = 0.02
SHARDS = (1, 3)
P99_TARGET_MS = 20.0
PARTITIONS = kafka_latency.PARTITIONS
PAGES_BETWEEN = 100  # of those asked


class CheckLatency(msgspec.Struct, frozen=True):
    """Milliseconds from a question to its answer; CPU is that of the console, in processors."""

    shards: int
    rate: float
    checks: int
    flushes: int
    p50: float
    p99: float
    longest: float
    console_processors: float


class _Run(msgspec.Struct, frozen=True):
    """A worker and its console."""

    brokers: str
    topic: str
    name: str
    index: Path
    shards: int
    corpus: Path


def measure(run: _Run, rate: int = RATE, seconds: float = SECONDS) -> CheckLatency:
    """Ask a console for so many seconds, while a worker judges."""
    make_topic(run.brokers, run.topic, PARTITIONS)
    load(run.brokers, run.topic, run.corpus, PARTITIONS, BEFORE)
    folder = run.index.parent
    worker, _ = start_worker(folder, run.brokers, run.topic, run.name, "--shards", str(run.shards))
    try:
        while flushes_of(run) < run.shards:
            time.sleep(0.1)
        with (folder / f"{run.name}.console.log").open("w+b") as log:
            console = subprocess.Popen(
                [
                    sys.executable, "-m", "streamer", "console", str(run.index), "--port", "0",
                    "--index-name", run.name, "--brokers", run.brokers,
                    "--input-topic", run.topic, "--key-file", str(folder / "key"),
                    "--view", str(folder / f"{run.name}.view"),
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
            try:
                return _asked(run, console, address_of(console, Path(log.name)), rate, seconds)
            finally:
                console.send_signal(signal.SIGTERM)
                console.wait()
    finally:
        worker.terminate()
        worker.wait()


def flushes_of(run: _Run) -> int:
    """Return the flushes of all shards so far."""
    return sum(witnessed(folder) or 0 for folder in run.index.glob("shard-*"))


def _asked(
    run: _Run, console: subprocess.Popen[bytes], address: str, rate: int, seconds: float
) -> CheckLatency:
    # A process of its own: threads of this one would keep the asker from its clock.
    sender = multiprocessing.get_context("spawn").Process(
        target=_send_all, args=(run, rate, int(rate * seconds))
    )
    asker = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    with run.corpus.open("rb") as lines:
        ask(asker, next(lines))  # opens the index, which may take seconds
        flushes, cpu, began = flushes_of(run), cpu_seconds(console.pid), time.perf_counter()
        sender.start()
        try:
            waits = np.array([*_ask_all(asker, lines, began + seconds)]) * 1000
        except BaseException:
            sender.terminate()
            raise
    took = time.perf_counter() - began
    sender.join()
    sent = time.perf_counter() - began
    p50, p99 = np.percentile(waits, (50, 99)).tolist()
    return CheckLatency(
        run.shards, rate * seconds / sent, len(waits), flushes_of(run) - flushes, p50, p99,
        float(waits.max()), (cpu_seconds(console.pid) - cpu) / took,
    )  # fmt: skip


def _ask_all(
    asker: http.client.HTTPConnection, lines: Iterator[bytes], end: float
) -> Iterator[float]:
    """Ask one page after another, each at its time; yield how long each answer took."""
    due = time.perf_counter()
    while due < end:
        time.sleep(max(0.0, due - time.perf_counter()))
        due += STEP_SECONDS
        line = next(itertools.islice(lines, PAGES_BETWEEN, None))
        began = time.perf_counter()
        ask(asker, line)
        yield time.perf_counter() - began


def ask(asker: http.client.HTTPConnection, message: bytes) -> bytes:
    """Return the verdict that the page in a message would get.

    Raises:
        RuntimeError: the console does not tell one.
    """
    asker.request("POST", "/api/check", message, {"Content-Type": "application/json"})
    answer = asker.getresponse()
    found = answer.read()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(found.decode())
    return found


def _send_all(run: _Run, rate: int, count: int) -> None:
    """Send the pages of the corpus behind those that are in the topic."""
    with run.corpus.open("rb") as lines:
        behind = itertools.islice(lines, BEFORE, BEFORE + count)
        asyncio.run(kafka_latency.send(run.brokers, run.topic, behind, {}, rate))


def table(found: list[CheckLatency]) -> Table:
    """Return what was measured."""
    shown = Table(
        "shards", "pages/s", "checks", "flushes", "p50 ms", "p99 ms", "longest ms",
        "processors of the console", title="POST /api/check next to a worker", box=None,
    )  # fmt: skip
    for each in found:
        shown.add_row(
            str(each.shards), f"{each.rate:,.0f}", f"{each.checks:,}", str(each.flushes),
            f"{each.p50:.1f}", f"{each.p99:.1f}", f"{each.longest:,.0f}",
            f"{each.console_processors:.2f}",
        )  # fmt: skip
    return shown


def main() -> int:
    """Measure with one shard and with three; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=machine.ROOT / "build" / "bench")
    parser.add_argument("--rate", type=int, default=RATE)
    given = parser.parse_args()
    work = given.folder / "check"
    shutil.rmtree(work, ignore_errors=True)
    corpus = obtain(given.folder, BEFORE + int(given.rate * SECONDS)).path
    broker("start", work / "broker", str(PORT))
    try:
        found = []
        for shards in SHARDS:
            name = f"check-{os.getpid()}-{shards}"
            run = _Run(f"127.0.0.1:{PORT}", f"{name}-pages", name, work / name, shards, corpus)
            found.append(measure(run, given.rate))
    finally:
        broker("stop", work / "broker")
    Console().print(table(found))
    return int(any(each.p99 >= P99_TARGET_MS for each in found))


if __name__ == "__main__":
    sys.exit(main())
