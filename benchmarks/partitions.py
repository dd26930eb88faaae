"""An index for each partition: what each role takes a page, a record and a second.

    python -m benchmarks.partitions --seconds 30

Workers of one machine stand for those of many: what they take is measured, and not the rate. Pages
come at a rate that two cores take easily, to workers that have judged some before. Of each role
three figures are fitted to the first runs: us of CPU a page, us a record of the log, and ms a
second that each worker takes while pages come. The other runs are predicted by these, and measured
as well. Nothing travels between partitions, so each core of more machines gives the same.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks import kafka_rate, machine
from benchmarks.corpus_file import obtain
from benchmarks.figures import empty_table
from benchmarks.run_kafka import FOLDER, broker
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rich.table import Table

PORT = 19_393
PARTITIONS = 4  # of each owner
RATE = 6_000  # pages/s of all together
WARM = 20_000  # pages before
RUNS = (1, 512), (1, 64), (4, 512), (2, 128), (4, 256)  # workers a role; KiB of a producer's batch
FITTED = 3  # runs that the figures are of
ROLES = "signers", "owners", "broker"
CORES, LOAD = (4, 16, 64), 0.6  # of the cores of workers


class Measured(NamedTuple):
    """A run: workers of each role, records of the logs a page, and us of CPU a page by role."""

    workers: int
    records: float
    cpu_us: list[float]

    @property
    def terms(self) -> list[float]:
        """Return how much of a page, a record and a worker's second (in ms) a page takes."""
        return [1, self.records, self.workers / RATE * 1000]


def mean(runs: Sequence[Measured]) -> Measured:
    """Return the mean of equal runs."""
    records = np.mean([run.records for run in runs])
    return Measured(
        runs[0].workers, float(records), np.mean([run.cpu_us for run in runs], axis=0).tolist()
    )


def fit(runs: list[Measured]) -> NDArray[np.float64]:
    """Return for each role the figures of a page, a record and a worker's second."""
    terms = np.array([run.terms for run in runs])
    measured = np.array([run.cpu_us for run in runs])
    figures: NDArray[np.float64] = np.linalg.lstsq(terms, measured, rcond=None)[0]
    return figures


def measure(folder: Path, brokers: str, pid: int, seconds: int, run: tuple[int, int]) -> Measured:
    """Judge pages for so many seconds; `pid` is the broker's."""
    workers, kib = run
    pages, partitions = RATE * seconds, workers * PARTITIONS
    topic = f"pages-{time.time_ns()}"
    names = Names(f"index-of-{topic}", topic, per_partition=True)
    kafka_rate.make_topic(brokers, topic, partitions)
    file = obtain(FOLDER, WARM + pages).path
    load = partial(kafka_rate.load, brokers, topic, file, partitions, batch_bytes=kib << 10)

    def start(worker: tuple[str, int]) -> subprocess.Popen[bytes]:
        role, number = worker
        own = ["--own-shards", f"{number}/{workers}"] if role == "index" else ["--threads", "1"]
        return kafka_rate.start_worker(
            folder / f"{topic}-{role}-{number}", brokers, topic, names.index,
            "--role", role, "--per-partition", *own,
        )[0]  # fmt: skip

    def cpu() -> NDArray[np.float64]:
        return np.array([sum(map(kafka_rate.cpu_seconds, role)) for role in roles])

    def records() -> int:
        return asyncio.run(_records(brokers, names, partitions))

    with ThreadPoolExecutor(workers) as pool:
        owners = list(pool.map(start, (("index", number) for number in range(workers))))
        signers = list(pool.map(start, (("sign", number) for number in range(workers))))
    roles = [[each.pid for each in signers], [each.pid for each in owners], [pid]]
    load(WARM)
    asyncio.run(kafka_rate.follow(brokers, names.index, WARM, 0))
    before, records_before = cpu(), records()
    load(pages, first=WARM, rate=RATE)
    asyncio.run(kafka_rate.follow(brokers, names.index, WARM + pages, 0))
    used = cpu() - before
    for process in (*signers, *owners):
        process.terminate()
        process.wait()
    return Measured(workers, (records() - records_before) / pages, (used / pages * 1e6).tolist())


async def _records(brokers: str, names: Names, partitions: int) -> int:
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        return sum([(await reader.bounds(names.log(n), 0))[1] for n in range(partitions)])


def tables(runs: list[Measured]) -> tuple[Table, Table]:
    """Return the runs next to what the first ones predict, and what that gives for more cores."""
    figures = fit(runs[:FITTED])
    shown = empty_table(
        "an index for each partition: CPU us a page, measured (and predicted)",
        "partitions", "workers of each role", "pages a record", *ROLES,
    )  # fmt: skip
    for number, run in enumerate(runs):
        predicted = np.array(run.terms) @ figures
        cells = [
            f"{own:.1f}" + (f" ({other:.1f})" if number >= FITTED else "")
            for own, other in zip(run.cpu_us, predicted, strict=True)
        ]
        own = str(run.workers * PARTITIONS), str(run.workers), f"{1 / run.records:.0f}"
        shown.add_row(*own, *cells)
    for name, of_roles in zip(("us a page", "us a record", "ms/s a worker"), figures, strict=True):
        shown.add_row(name, "", "", *(f"{each:.1f}" for each in of_roles))
    rates = empty_table(f"pages/s by these figures, cores {LOAD:.0%} busy", "cores", "pages/s")
    us = [of_page + runs[0].records * of_record for of_page, of_record in figures[:2, :2].T]
    # Cores of each role as its pages need them.
    own = sum(each / (LOAD - ms / 1000) for each, ms in zip(us, figures[2], strict=False))
    for cores in CORES:
        rates.add_row(str(cores), f"{cores / own * 1e6:,.0f}")
    return shown, rates


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--goes", type=int, default=2)
    asked = parser.parse_args()
    work, console = FOLDER / "partitions", Console(width=120)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "streamer", "warm"], cwd=machine.ROOT, check=True)
    broker("start", work / "broker", str(PORT))
    try:
        pid = int((work / "broker" / "pid").read_text())
        run = partial(measure, work, f"127.0.0.1:{PORT}", pid, asked.seconds)
        run(RUNS[0])  # the broker compiles itself meanwhile
        goes = [[run(each) for each in RUNS] for _ in range(asked.goes)]
    finally:
        broker("stop", work / "broker")
    for table in tables([mean(runs) for runs in zip(*goes, strict=True)]):
        console.print(table)


if __name__ == "__main__":
    main()
