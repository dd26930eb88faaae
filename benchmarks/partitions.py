"""An index for each partition: CPU of each role a page and a record, and what more cores give.

    python -m benchmarks.partitions --pages 200000

Workers of one machine stand for those of many: what a page costs is measured, not the rate. Of each
role it is taken as so much a page, and so much a record of the log. The first two runs say how
much; the others are predicted by that, and measured as well. Nothing travels between partitions, so
the rate of N cores is N times that of one, as long as each has a partition.

In the first run all pages lie in the topic before the workers start, so records are large. In the
others pages come while these run, so records are small; what the workers take where nothing comes
is measured before, and left out.
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
from rich.table import Table

from benchmarks import kafka_rate, machine
from benchmarks.corpus_file import obtain
from benchmarks.figures import empty_table
from benchmarks.run_kafka import FOLDER, broker
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names

if TYPE_CHECKING:
    from numpy.typing import NDArray

PORT = 19_393
RUNS = (1, 1), (16, 1), (4, 2), (16, 4)  # partitions, and workers of each role
FITTED = 2  # runs that the model is made of
IDLE_SECONDS = 20
CORES = 2, 4, 16, 64
ROLES = "signers", "owners", "broker"


class Measured(NamedTuple):
    """A run: records of the logs a page, and by role microseconds of CPU a page.

    `idle` is what each role takes where no pages come, in seconds a second.
    """

    partitions: int
    workers: int
    records: float
    cpu_us: list[float]
    idle: list[float]


class Model(NamedTuple):
    """Microseconds by role, of a page and of a record."""

    page: list[float]
    record: list[float]

    @classmethod
    def of(cls, runs: list[Measured]) -> Model:
        """Return what fits these runs best."""
        known = np.array([[1, run.records] for run in runs])
        fitted = np.linalg.lstsq(known, np.array([run.cpu_us for run in runs]), rcond=None)[0]
        return cls(*fitted.tolist())

    def predict(self, records: float) -> list[float]:
        """Return the microseconds a page, where a page has so much of a record."""
        return [page + records * own for page, own in zip(self.page, self.record, strict=True)]


def measure(folder: Path, brokers: str, pid: int, pages: int, run: tuple[int, int]) -> Measured:
    """Judge so many pages; `pid` is the broker's, `run` the partitions and workers of each role."""
    partitions, workers = run
    topic = f"pages-{partitions}-{workers}"
    names = Names(f"index-{partitions}-{workers}", topic, per_partition=True)
    kafka_rate.make_topic(brokers, topic, partitions)
    load = partial(kafka_rate.load, brokers, topic, obtain(FOLDER, pages).path, partitions, pages)
    is_live = run != RUNS[0]
    if not is_live:
        load()

    def start(worker: tuple[str, int]) -> subprocess.Popen[bytes]:
        role, number = worker
        own = ["--own-shards", f"{number}/{workers}"] if role == "index" else ["--threads", "1"]
        return kafka_rate.start_worker(
            folder / f"{topic}-{role}-{number}", brokers, topic, names.index,
            "--role", role, "--per-partition", *own,
        )[0]  # fmt: skip

    with ThreadPoolExecutor(workers) as pool:
        owners = list(pool.map(start, (("index", number) for number in range(workers))))
        signers = list(pool.map(start, (("sign", number) for number in range(workers))))
    roles = [[each.pid for each in signers], [each.pid for each in owners], [pid]]

    def cpu() -> NDArray[np.float64]:
        return np.array([sum(map(kafka_rate.cpu_seconds, role)) for role in roles])

    idle, before = np.zeros(len(roles)), cpu()
    if is_live:
        time.sleep(IDLE_SECONDS)
        idle, before = (cpu() - before) / IDLE_SECONDS, cpu()
    began = time.perf_counter()
    if is_live:
        load()
    asyncio.run(kafka_rate.follow(brokers, names.index, pages, 0))
    used = cpu() - before - idle * (time.perf_counter() - began)
    for process in (*signers, *owners):
        process.terminate()
        process.wait()
    records = asyncio.run(_records(brokers, names, partitions)) / pages
    return Measured(partitions, workers, records, (used / pages * 1e6).tolist(), idle.tolist())


async def _records(brokers: str, names: Names, partitions: int) -> int:
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        return sum([(await reader.bounds(names.log(n), 0))[1] for n in range(partitions)])


def tables(runs: list[Measured]) -> tuple[Table, Table]:
    """Return the runs next to the model of the first ones, and what that gives for more cores."""
    model = Model.of(runs[:FITTED])
    shown = empty_table(
        "an index for each partition: CPU us a page, measured (and predicted)",
        "partitions", "workers of each role", "pages a record", *ROLES,
    )  # fmt: skip
    for number, run in enumerate(runs):
        predicted = model.predict(run.records)
        cells = [
            f"{own:.1f}" + (f" ({other:.1f})" if number >= FITTED else "")
            for own, other in zip(run.cpu_us, predicted, strict=True)
        ]
        shown.add_row(str(run.partitions), str(run.workers), f"{1 / run.records:.0f}", *cells)
    idle = (f"{each * 1000:.0f}" for each in runs[-1].idle)
    for name, values in model._asdict().items():
        shown.add_row(f"us a {name}", "", "", *(f"{each:.1f}" for each in values))
    shown.add_row("idle, ms a second, of the last", "", "", *idle)
    rates = empty_table("pages/s by the model, of so many cores of workers", "cores", "pages/s")
    us = sum(model.predict(runs[-1].records)[:2])
    for cores in CORES:
        rates.add_row(str(cores), f"{cores * 1e6 / us:,.0f}")
    return shown, rates


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pages", type=int, default=200_000)
    asked = parser.parse_args()
    work, console = FOLDER / "partitions", Console(width=120)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "streamer", "warm"], cwd=machine.ROOT, check=True)
    broker("start", work / "broker", str(PORT))
    try:
        pid = int((work / "broker" / "pid").read_text())
        runs = [measure(work, f"127.0.0.1:{PORT}", pid, asked.pages, run) for run in RUNS]
    finally:
        broker("stop", work / "broker")
    for table in tables(runs):
        console.print(table)


if __name__ == "__main__":
    main()
