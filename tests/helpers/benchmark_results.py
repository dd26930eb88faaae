"""Results of all benchmarks, made for tests of their page and their comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmarks import machine, results
from benchmarks.beside import Beside, Resharding
from benchmarks.beside import Run as BesideRun
from benchmarks.corpus_file import CorpusFile
from benchmarks.flushes import Sample as FlushSample
from benchmarks.growth import Growth
from benchmarks.growth import Sample as GrowthSample
from benchmarks.html_pages import HtmlPages
from benchmarks.kafka_latency import KafkaLatency
from benchmarks.kafka_rate import KafkaRate
from benchmarks.library import Library
from benchmarks.lifetimes import Sample as LifetimeSample
from benchmarks.lsh import IndexTime, Lsh
from benchmarks.memory import Memory, Part
from benchmarks.peers.peer import Absent
from benchmarks.quality import Quality, Trial
from benchmarks.resident import Resident
from benchmarks.results import Results
from benchmarks.run_kafka import Results as KafkaResults
from benchmarks.salted_source import SourceCost
from benchmarks.scale import Scale
from benchmarks.shards import Costs, Measured, Plan, ShardRates
from benchmarks.signing import PeerTime, Signing
from benchmarks.start_time import StartTime
from benchmarks.throughput import StageTime, Throughput
from benchmarks.timed_replay import Run, Sample, Span

HERE = machine.Machine(
    "a processor", 2, 24 << 30, 0.1, "a system", "3.11.7", {"numpy": "2.4"}, "0123456789ab"
)
SIGNING = Signing(
    pages=100,
    mean_bytes=4096.0,
    rounds=5,
    peers=[PeerTime("streamer", 10.0, 9.0, 1.0), PeerTime("a|b", 80.0, 79.0, 8.0)],
    absent=[Absent("another", "it is too large")],
    fastest="a|b",
    ratio=8.0,
)
LSH = Lsh(
    1000,
    [
        IndexTime("streamer, on disk", 900, 100, 8.0, 7.0, 20, 300 << 20, None, 3, 1.0, 1.0, 1.0),
        IndexTime("other", 900, 100, 4.0, 4.0, 20, 200 << 20, None, 3, 0.5, 0.4, 0.6),
    ],
    [],
)
RUN = Run(
    pages=1000,
    unique=800,
    duplicates=200,
    seconds=0.03,
    cpu_seconds=0.05,
    spans=[Span(500, 0.014), Span(500, 0.015)],
    index_bytes=400_000,
    index_pages=800,
    peak_rss_bytes=300 << 20,
)
THROUGHPUT = Throughput(
    corpus=CorpusFile(Path("corpus.jsonl"), 1000, 4_000_000, None),
    run=RUN,
    rate=33_333.0,
    rates=[35_000.0, 33_000.0],
    flatness=0.94,
    index_bytes_a_page=500.0,
    cpu_us=50.0,
    stages=[StageTime("sign", 12.0, 13.0), StageTime("runs: merging", 6.0, 0.3)],
)
SHARDS = ShardRates(
    1000,
    [Measured(1, 30_000.0, 50.0, 0.0)],
    Costs(20.0, 25.0, 2.0),
    {shards: {cores: Plan(3e4 * cores, 1, 1, "signing") for cores in (2, 4)} for shards in (1, 2)},
)
RESIDENT = Resident(900 << 20, 500 << 20, 950 << 20)
SCALE = Scale(
    source_alone=SourceCost(1000, 0.01),
    source=SourceCost(1000, 0.01),
    run=msgspec.structs.replace(
        RUN,
        samples=[Sample(500, 800 << 20, 400 << 20), Sample(1000, 900 << 20, 500 << 20)],
        memory=Memory(RESIDENT, 800, [Part("all", 900 << 20)], []),
    ),
    rate=33_333.0,
    rates=[35_000.0, 33_000.0],
    peak_bytes=950 << 20,
)
START = StartTime(800, 400_000, [1.0], [2.0], [2.5], 1.0, 2.0, 2.5)
HTML = HtmlPages(1000, 25_000.0, 6_000.0, [9_000.0], 9_000.0, 225.0, 100.0)
LIBRARY = Library(1000, 100, 4_000.0, 60_000.0, 200, {"datasketch MinHashLSH": 900.0})
GROWTH = Growth([GrowthSample(1000, 9.0, 10.0, 39.0, 100.0, 590.0, 1)] * 10, 1.5, 2.5, 3.5)
FLUSHES = [
    FlushSample(at, 1.0, 10, 20, 30, 40, 50, 60) for at in (*range(1000, 11_000, 1000), 10_000)
]
LIFETIMES = {
    way: [LifetimeSample(at, 100, 200, 300, 9.0) for at in range(1, 11)]
    for way in ("by age", "by number", "by age, changes tracked")
}
ALONE = BesideRun(4.7, 1 << 27, 0)
BESIDE = Beside(1000, 200, ALONE, ALONE, ALONE, Resharding(10.6, 10.7, 1 << 27, 3, 9, 6))
QUALITY = [Quality("a set", "streamer", "all", [Trial(1, 0, 0, 1.0, 1.0, 1.0, 0.1)])]
KAFKA = KafkaResults(
    msgspec.structs.replace(HERE, load=1.5),
    KafkaRate(1000, 0.05, 20_000.0, 50.0, 6.0, 900 << 20, [20_000.0], 90_000.0),
    KafkaLatency(1000, 5000.0, 8.0, 107.0, 222.0, p99_rounds=[107.0, 99.0, 251.0]),
)


def stored(subjects: Mapping[str, object], load: float = 0.1, **changed: object) -> Results:
    measured = {name: results.encoded(result, load) for name, result in subjects.items()}
    return Results(msgspec.structs.replace(HERE, **changed), "2024-06-01", measured)
