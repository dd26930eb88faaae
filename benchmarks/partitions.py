"""An index for each partition: CPU of each role a page and a record, and what more cores give.

    python -m benchmarks.partitions --pages 200000

Workers of one machine stand for those of many: what a page costs is measured, not the rate. Of each
role it is taken as so much a page, and so much a record of the log. The first two runs say how
much; the others are predicted by that, and measured as well. Nothing travels between partitions, so
the rate of N cores is N times that of one, as long as each has a partition.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import kafka_rate, machine
from benchmarks.corpus_file import obtain
from benchmarks.figures import empty_table
from benchmarks.run_kafka import FOLDER, broker
from streamer.kafka.reader import open_reader
from streamer.kafka.topics import Names

PORT = 19_393
RUNS = (1, 1), (16, 1), (4, 2), (16, 4)  # partitions, and workers of each role
FITTED = 2  # runs that the model is made of
CORES = 2, 4, 16, 64
ROLES = "signers", "owners", "broker"


class Measured(NamedTuple):
    """A run: records of the logs a page, and by role microseconds of CPU a page."""

    partitions: int
    workers: int
    records: float
    cpu_us: list[float]


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
    kafka_rate.load(brokers, topic, obtain(FOLDER, pages).path, partitions, pages)
    processes: list[list[subprocess.Popen[bytes]]] = [[], []]
    before = [0.0, 0.0, kafka_rate.cpu_seconds(pid)]
    for role, name in ((1, "index"), (0, "sign")):
        for number in range(workers):
            own = ["--own-shards", f"{number}/{workers}"] if role else ["--threads", "1"]
            process, _ = kafka_rate.start_worker(
                folder / f"{topic}-{name}-{number}", brokers, topic, names.index,
                "--role", name, "--per-partition", *own,
            )  # fmt: skip
            before[role] += kafka_rate.cpu_seconds(process.pid)
            processes[role].append(process)
    asyncio.run(kafka_rate.follow(brokers, names.index, pages, 0))
    after = [sum(kafka_rate.cpu_seconds(each.pid) for each in some) for some in processes]
    after.append(kafka_rate.cpu_seconds(pid))
    for process in (*processes[0], *processes[1]):
        process.terminate()
        process.wait()
    records = asyncio.run(_records(brokers, names, partitions)) / pages
    cpu = [(b - a) / pages * 1e6 for a, b in zip(before, after, strict=True)]
    return Measured(partitions, workers, records, cpu)


async def _records(brokers: str, names: Names, partitions: int) -> int:
    async with open_reader({"bootstrap_servers": brokers}) as reader:
        return sum([(await reader.bounds(names.log(n), 0))[1] for n in range(partitions)])


def tables(runs: list[Measured]) -> tuple[Table, Table]:
    """Return the runs beside the model of the first ones, and what it gives for more cores."""
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
    for name, values in model._asdict().items():
        shown.add_row(f"us a {name}", "", "", *(f"{each:.1f}" for each in values))
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
