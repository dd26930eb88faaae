"""Latency of verdicts at a steady rate: from handing a page to the client to reading its verdict.

This process sends a few pages every 10 ms and reads the verdicts as they come; both clocks are its
own. The first seconds are left out, while the worker's threads and the broker's caches warm. There
are several rounds, each with a new worker: a single pause of the machine decides the 99th
percentile of one.
"""

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.kafka_rate import MESSAGE_BYTES, make_topic, start_worker

RATE = 5_000  # pages/s
SECONDS = 30
ROUNDS = 5
LEFT_OUT_SECONDS = 5
STEP_SECONDS = 0.01
PARTITIONS = 4
P99_TARGET_MS = 250.0


class _Place(msgspec.Struct):
    partition: int
    offset: int


class _Verdict(msgspec.Struct):
    page: _Place


class KafkaLatency(msgspec.Struct, frozen=True):
    """The measurement, in milliseconds; `rate` is what was reached in fact.

    All are medians of the rounds, of which `p99_rounds` are the single figures.
    """

    pages: int
    rate: float
    p50: float
    p99: float
    p999: float
    target_p99: float = P99_TARGET_MS
    p99_rounds: list[float] = []


def measure(folder: Path, brokers: str, corpus: Path, rounds: int = ROUNDS) -> KafkaLatency:
    """Measure the latency so many times; return the medians."""
    return over_rounds([_round(folder, brokers, corpus, number) for number in range(rounds)])


def over_rounds(found: Sequence[KafkaLatency]) -> KafkaLatency:
    """Return the medians of the rounds."""
    return KafkaLatency(
        sum(each.pages for each in found),
        statistics.median(each.rate for each in found),
        statistics.median(each.p50 for each in found),
        statistics.median(each.p99 for each in found),
        statistics.median(each.p999 for each in found),
        p99_rounds=[each.p99 for each in found],
    )


def _round(folder: Path, brokers: str, corpus: Path, number: int) -> KafkaLatency:
    """Start a worker over an empty topic; send pages steadily, and follow their verdicts."""
    topic, name = f"steady-{os.getpid()}-{number}", f"latency-{os.getpid()}-{number}"
    make_topic(brokers, topic, PARTITIONS)
    worker, _ = start_worker(folder, brokers, topic, name)
    try:
        return asyncio.run(_run(brokers, topic, name, corpus))
    finally:
        worker.terminate()
        worker.wait()


async def _run(brokers: str, topic: str, name: str, corpus: Path) -> KafkaLatency:
    sent: dict[tuple[int, int], float] = {}
    read: dict[tuple[int, int], float] = {}
    total = RATE * SECONDS
    reading = asyncio.create_task(_read(brokers, f"{name}.verdicts", read, total))
    began = time.perf_counter()
    with corpus.open("rb") as lines:
        await send(brokers, topic, itertools.islice(lines, total), sent)
    rate = total / (time.perf_counter() - began)
    await asyncio.wait_for(reading, 120)
    first = began + LEFT_OUT_SECONDS
    waits = np.array([read[place] - at for place, at in sent.items() if at >= first]) * 1000
    p50, p99, p999 = np.percentile(waits, (50, 99, 99.9)).tolist()
    return KafkaLatency(len(waits), rate, p50, p99, p999)


async def send(
    brokers: str,
    topic: str,
    lines: Iterator[bytes],
    sent: dict[tuple[int, int], float],
    rate: int = RATE,
) -> None:
    """Send lines, a batch every STEP_SECONDS, one partition after another; note when each went."""
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    places = itertools.cycle(range(PARTITIONS))
    pages_a_step = round(rate * STEP_SECONDS)
    async with AIOKafkaProducer(
        bootstrap_servers=brokers, max_batch_size=MESSAGE_BYTES, max_request_size=MESSAGE_BYTES
    ) as producer:
        due = time.perf_counter()
        while step := [*itertools.islice(lines, pages_a_step)]:
            batch, partition = producer.create_batch(), next(places)
            now = time.perf_counter()
            for line in step:
                batch.append(key=None, value=line.rstrip(b"\n"), timestamp=None)
                sent[partition, offsets[partition]] = now
                offsets[partition] += 1
            await producer.send_batch(batch, topic, partition=partition)
            due += STEP_SECONDS
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await producer.flush()


async def _read(brokers: str, topic: str, read: dict[tuple[int, int], float], total: int) -> None:
    decode = msgspec.json.Decoder(_Verdict).decode
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers, group_id=None)
    await consumer.start()
    try:
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        while len(read) < total:
            answer = await consumer.getmany(timeout_ms=200)
            now = time.perf_counter()
            for records in answer.values():
                for record in records:
                    page = decode(record.value).page
                    read[page.partition, page.offset] = now
    finally:
        await consumer.stop()
