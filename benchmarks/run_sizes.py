"""What a pod needs: pages a second by the cores of a signer, and what an owner takes a kept page.

    python benchmarks/run_sizes.py --pages 400000

A broker is filled with pages first. Signers run on one core and on two, without anybody who judges;
then an owner judges what they signed. The broker has the same cores, so CPU time stands beside the
clock's: it is what a core does that is the worker's alone. deploy/README.md has the figures.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import html_pages, kafka_rate, machine
from benchmarks.corpus_file import obtain
from benchmarks.kafka_rate import cpu_seconds, start_worker
from benchmarks.resident import resident
from benchmarks.run_kafka import FOLDER, broker

PORT, HEALTH_PORT = 19_492, 19_494
PARTITIONS = 4
OPEN_PAGES = str(1 << 30)  # signers are to wait for nobody
POLL_SECONDS = 0.25
SECONDS_MAX = 180.0


def metrics() -> dict[str, float]:
    """Return the sum of each metric that the worker shows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{HEALTH_PORT}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for name, value in re.findall(r"^(streamer_\w+)(?:{.*})? (\S+)$", text, re.MULTILINE):
        found[name] = found.get(name, 0.0) + float(value)
    return found


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Have what is started meanwhile run on so many cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_cores)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


class Measured(NamedTuple):
    """What a worker did: pages a second by the clock, its CPU a page, its memory and metrics."""

    rate: float
    cpu_us: float
    peak_bytes: int
    metrics: dict[str, float]


def measured(
    folder: Path, topic: str, name: str, counter: str, pages: int, *options: str
) -> Measured:
    """Run a worker until it has counted so many pages, or the time is over."""
    port = ("--health-port", str(HEALTH_PORT), "--window", OPEN_PAGES)
    worker, _ = start_worker(folder, f"127.0.0.1:{PORT}", topic, name, *port, *options)
    begin, cpu, before = time.perf_counter(), cpu_seconds(worker.pid), metrics()[counter]
    while (now := metrics())[counter] < pages and time.perf_counter() - begin < SECONDS_MAX:
        time.sleep(POLL_SECONDS)
    seconds, done = time.perf_counter() - begin, now[counter] - before
    cpu = cpu_seconds(worker.pid) - cpu
    peak = resident(worker.pid).peak_bytes
    worker.terminate()
    worker.wait()
    return Measured(done / seconds, cpu / done * 1e6, peak, now)


def signers(folder: Path, topic: str, pages: int) -> Iterator[tuple[str, Measured]]:
    """Yield what signers do on one core and on two."""
    for cores in (1, 2):
        with on_cores(cores):
            yield (
                f"signer, {cores} core{'s' * (cores > 1)}, {topic}",
                measured(
                    folder, topic, f"{topic}-{cores}", "streamer_pages_signed_total", pages,
                    "--role", "sign", "--threads", str(cores),
                ),
            )  # fmt: skip


def owner(folder: Path, topic: str, pages: int) -> Measured:
    """Return what an owner does with what the signers of two cores have sent."""
    return measured(
        folder, topic, f"{topic}-2", "streamer_verdicts_total", pages, "--role", "index",
        "--own-shards", "0",
    )  # fmt: skip


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pages", type=int, default=400_000)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    asked = parser.parse_args()
    work = asked.folder / "sizes"
    shutil.rmtree(work, ignore_errors=True)
    html = max(asked.pages // 8, 1)
    kinds = {
        "text": (obtain(asked.folder, asked.pages).path, asked.pages),
        "html": (html_pages.html_file(asked.folder, html), html),
    }
    subprocess.run([sys.executable, "-m", "streamer", "warm"], cwd=machine.ROOT, check=True)
    table = Table("what", "pages/s", "CPU us a page", "peak MiB", box=None)
    broker("start", work / "broker", str(PORT))
    try:
        for topic, (file, pages) in kinds.items():
            kafka_rate.make_topic(f"127.0.0.1:{PORT}", topic, PARTITIONS)
            kafka_rate.load(f"127.0.0.1:{PORT}", topic, file, PARTITIONS, pages)
            for name, one in signers(work, topic, pages):
                add(table, name, one)
        owned = owner(work, "text", asked.pages)
        add(table, "owner of a shard", owned)
    finally:
        broker("stop", work / "broker")
    console = Console()
    console.print(table)
    kept = owned.metrics["streamer_shard_kept_pages"]
    index = work / "text-2" / "shard-0"  # flushed when it was stopped
    disk = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
    console.print(f"{kept:,.0f} kept pages, {disk / kept:.0f} bytes of disk for each")
    console.print(f"{machine.describe()}")


def add(table: Table, name: str, one: Measured) -> None:
    """Add a line."""
    table.add_row(name, f"{one.rate:,.0f}", f"{one.cpu_us:.1f}", f"{one.peak_bytes >> 20:,}")


if __name__ == "__main__":
    main()
