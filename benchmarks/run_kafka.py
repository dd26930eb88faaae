"""Speed through Kafka: `make bench-kafka`. Starts a broker, fills a topic, and measures.

The broker and the worker share the machine's cores. Results are printed, and written as JSON.

    python benchmarks/run_kafka.py --pages 200000
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import kafka_latency, kafka_rate, machine
from benchmarks.corpus_file import obtain

FOLDER = machine.ROOT / "build" / "bench"
SCRIPT = machine.ROOT / "deploy" / "broker" / "broker"
PORT = 19_392
PARTITIONS = 4
WORKER_BUDGET_US = 52.0  # of docs/architecture.md: all stages, the hop included


class Results(msgspec.Struct):
    """What a run measured."""

    machine: machine.Machine
    rate: kafka_rate.KafkaRate
    latency: kafka_latency.KafkaLatency


def broker(command: str, folder: Path, *more: str) -> None:
    """Start or stop a broker in a folder."""
    libraries = machine.ROOT / "build" / "broker" / "libs"  # shared with `make broker`
    environment = {**os.environ, "BROKER_LIBS": str(libraries)}
    subprocess.run([str(SCRIPT), command, str(folder), *more], check=True, env=environment)


def _measure(folder: Path, pages: int, console: Console) -> Results:
    work = folder / "kafka"
    shutil.rmtree(work, ignore_errors=True)
    corpus = obtain(folder, pages).path
    described = machine.describe()  # before the topic is filled: its load is to be other work's
    subprocess.run([sys.executable, "-m", "streamer", "warm"], cwd=machine.ROOT, check=True)
    broker("start", work / "broker", str(PORT))
    brokers = f"127.0.0.1:{PORT}"
    try:
        kafka_rate.make_topic(brokers, "pages", PARTITIONS)
        began = time.perf_counter()
        kafka_rate.load(brokers, "pages", corpus, PARTITIONS, pages)
        console.print(f"loaded {pages:,} pages in {time.perf_counter() - began:.0f} s")
        pid = int((work / "broker" / "pid").read_text())
        rate = kafka_rate.measure(work, brokers, pid, "pages", pages)
        latency = kafka_latency.measure(work, brokers, corpus)
        return Results(described, rate, latency)
    finally:
        broker("stop", work / "broker")


def table(results: Results) -> Table:
    """Return all figures next to their targets."""
    rate, latency = results.rate, results.latency
    shown = Table("figure", "measured", "target", title="Through Kafka", box=None)
    rows = [
        ("pages", f"{rate.pages:,}", ""),
        ("pages/s, first fetch to last verdict", f"{rate.rate:,.0f}", f"{rate.target:,.0f}"),
        ("pages/s of each 100,000", " ".join(f"{each / 1000:.1f}k" for each in rate.rates), ""),
        ("CPU us a page, worker", f"{rate.worker_us:.1f}", f"{WORKER_BUDGET_US:.0f}"),
        ("CPU us a page, broker", f"{rate.broker_us:.1f}", f"{kafka_rate.BROKER_BUDGET_US:.0f}"),
        ("worker's peak MiB", f"{rate.worker_peak_bytes / (1 << 20):,.0f}", ""),
        ("pages/s of a rebuild", f"{rate.rebuild_rate:,.0f}", ""),
        ("  times the live rate", f"{rate.rebuild_rate / rate.rate:.1f}", "10"),
        ("steady pages/s", f"{latency.rate:,.0f}", f"{kafka_latency.RATE:,}"),
        ("verdict latency ms, p50", f"{latency.p50:.0f}", ""),
        ("verdict latency ms, p99", f"{latency.p99:.0f}", f"{latency.target_p99:.0f}"),
        ("  of each round", " ".join(f"{each:.0f}" for each in latency.p99_rounds), ""),
        ("verdict latency ms, p99.9", f"{latency.p999:.0f}", ""),
    ]
    for row in rows:
        shown.add_row(*row)
    return shown


def main() -> None:
    """Measure, print, and keep the results."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    asked = parser.parse_args()
    console = Console()
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = _measure(asked.folder, asked.pages, console)
    console.print(table(results))
    if results.machine.is_busy:
        console.print(f"The machine was busy: load {results.machine.load} before the run.")
    (asked.folder / "kafka-results.json").write_bytes(msgspec.json.encode(results))


if __name__ == "__main__":
    main()
