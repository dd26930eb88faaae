"""Through Kafka: pages a second from the first fetch to the last verdict, broker on the same cores.

The pages are in their topic, with lz4, before the worker starts. It is one process with signers and
an owner. The clock starts when the worker says that it reads, and ends when the last verdict can
be read. CPU is that of the processes between the two moments.

The topic is filled as fast as the library can: it compresses lz4 at level 9, as a broker would;
here it is level 3, to wait less. Both are read at the same speed.
"""

import asyncio
import itertools
import math
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer, codec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.record import default_records

from benchmarks.machine import ROOT
from benchmarks.resident import resident
from streamer.kafka.reader import open_reader

RATE_TARGET = 27_778  # pages/s: twice the published rate
BROKER_BUDGET_US = 6.0
POLL_SECONDS = 0.25
BATCH_BYTES = 512 << 10
MESSAGE_BYTES = 4 << 20
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


def make_topic(brokers: str, topic: str, partitions: int) -> None:
    """Make a topic of pages."""

    async def make() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        await admin.start()
        config = {"max.message.bytes": str(MESSAGE_BYTES), "retention.ms": "-1"}
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
        await admin.close()

    asyncio.run(make())


def load(
    brokers: str, topic: str, file: Path, partitions: int, pages: int,
    *, first: int = 0, rate: float = math.inf, batch_bytes: int = BATCH_BYTES,
) -> None:  # fmt: skip
    """Send `pages` lines of `file`, from `first` on, batch by batch to one partition after another.

    No more than `rate` are sent in a second.
    """
    records: Any = default_records
    for module in (records, getattr(records, "_crecords", None)):
        if module is not None and hasattr(module, "lz4_encode"):
            module.lz4_encode = partial(codec.lz4_encode, level=3)
    asyncio.run(
        _load(brokers, topic, file, partitions, range(first, first + pages), rate, batch_bytes)
    )


async def _load(
    brokers: str, topic: str, file: Path, partitions: int, chosen: range, rate: float,
    batch_bytes: int,
) -> None:  # fmt: skip
    places, began = itertools.cycle(range(partitions)), time.perf_counter()
    async with AIOKafkaProducer(
        bootstrap_servers=brokers,
        acks="all",
        compression_type="lz4",
        max_batch_size=batch_bytes,
        max_request_size=MESSAGE_BYTES,
    ) as producer:
        batch = producer.create_batch()
        with file.open("rb") as lines:
            for sent, line in enumerate(itertools.islice(lines, chosen.start, chosen.stop)):
                value = line.rstrip(b"\n")
                if batch.append(key=None, value=value, timestamp=None) is None:
                    await asyncio.sleep(began + sent / rate - time.perf_counter())
                    await producer.send_batch(batch, topic, partition=next(places))
                    batch = producer.create_batch()
                    batch.append(key=None, value=value, timestamp=None)
        await producer.send_batch(batch, topic, partition=next(places))
        await producer.flush()


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


def measure(folder: Path, brokers: str, broker_pid: int, topic: str, pages: int) -> KafkaRate:
    """Run a worker over the topic until all is judged; then lose its index and time the rebuild."""
    name = f"rate-{os.getpid()}"
    worker, _ = start_worker(folder, brokers, topic, name)
    begin, before = time.perf_counter(), (cpu_seconds(worker.pid), cpu_seconds(broker_pid))
    marks = asyncio.run(follow(brokers, name, pages, begin))
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


async def follow(brokers: str, name: str, pages: int, begin: float) -> list[tuple[int, float]]:
    """Return (verdicts, seconds) as they grow to so many pages."""
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
    worker, log = start_worker(folder / "rebuilt", brokers, topic, name, "--role", "index")
    reported = msgspec.json.decode(_wait_for(worker, log, "shard_caught_up"))
    worker.terminate()
    worker.wait()
    return pages / float(reported["seconds"])
