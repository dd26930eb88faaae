"""A corpus on Spark, step by step: CPU a page of each, on one machine; with near copies of a page.

    python -m benchmarks.spark_steps --pages 200000 --like 1

It needs PySpark and Java 17, as `streamer spark`. A tenth of the pages are copies of one, with so
many of their words changed: one leaves them duplicates; of four, most keys are still shared, and
none is a duplicate. Spark runs here on all cores: its time is that of the clock, times the cores.
"""

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.figures import empty_table
from benchmarks.run_kafka import FOLDER
from streamer.config import load_settings
from streamer.spark import answers, job_of
from streamer.spark.rule import Rounds, nodes_of
from streamer.spark.signing import SIGNED, files_signed, map_rows

FILES, WORDS, VOCABULARY = 8, 100, 50_000


def write(folder: Path, pages: int, like: int | None) -> list[str]:
    """Write files of pages; with `like` each tenth is one page with so many words changed."""
    rng, names = random.Random(7), list[str]()
    words = [f"w{number}" for number in range(VOCABULARY)]
    template = rng.choices(words, k=WORDS)

    def body(number: int) -> str:
        if like is None or number % 10:
            return " ".join(rng.choices(words, k=WORDS))
        own = list(template)
        for place in rng.sample(range(WORDS), like):
            own[place] = rng.choice(words)
        return " ".join(own)

    for file in range(FILES):
        numbers = range(file * pages // FILES, (file + 1) * pages // FILES)
        urls = [f"https://h{number % 97}.example/{number}" for number in numbers]
        table = pa.table({"url": urls, "body": [body(number) for number in numbers]})
        names.append(str(folder / f"{file}.parquet"))
        parquet.write_table(table, names[-1])
    return names


def steps(spark: SparkSession, names: list[str], key: Path) -> Iterator[tuple[str, float]]:
    """Yield each step and the seconds that it took."""
    job = job_of(load_settings(key_file=key), names)
    began = time.perf_counter()

    def ended(step: str, frame: Any) -> tuple[str, float]:  # noqa: ANN401 - a DataFrame
        nonlocal began
        frame.write.format("noop").mode("overwrite").save()
        before, began = began, time.perf_counter()
        return step, began - before

    numbers = spark.range(len(names)).repartition(len(names))
    rows = map_rows(numbers, partial(files_signed, job), SIGNED).persist()
    yield ended("read and sign", rows)
    pages = nodes_of(rows.where("url is not null")).persist()
    yield ended("equal content", pages)
    rounds = Rounds(pages.where("node = ref"), job.settings.index)
    matches = rounds.matches().persist()
    yield ended("keys, and the rule", matches)
    yield ended("verdicts", answers(pages, matches, job).orderBy("ref"))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--like", type=int, help="words changed in each tenth page; none are alike")
    asked = parser.parse_args()
    work, cores = FOLDER / "spark", os.cpu_count() or 1
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    key = work / "key"
    key.write_text("5c" * 32)
    key.chmod(0o600)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    began = time.perf_counter()
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    list(steps(spark, write(work, 2000, None)[:1], key))  # what starts once: Java, its workers
    table = empty_table(f"{asked.pages:,} pages on Spark, {cores} cores", "step", "s", "us x cores")
    table.add_row("start", f"{time.perf_counter() - began:.1f}", "")
    names = write(work, asked.pages, asked.like)
    for step, seconds in steps(spark, names, key):
        table.add_row(step, f"{seconds:.1f}", f"{seconds / asked.pages * 1e6 * cores:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
